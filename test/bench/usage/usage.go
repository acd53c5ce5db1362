// Package usage reads from /proc what programs hold and have used.
package usage

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Usage is the memory that processes hold, as their proportional share, and the processor time that they have used.
type Usage struct {
	PSS float64 // MB
	CPU time.Duration
}

// Of sums, by program name, the processes whose command lines match; this process is never among them.
func Of(which *regexp.Regexp) (map[string]Usage, error) {
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	all := map[string]Usage{}
	for _, proc := range procs {
		cmdline, err := os.ReadFile(filepath.Join(proc, "cmdline"))
		if err != nil || filepath.Base(proc) == strconv.Itoa(os.Getpid()) || !which.Match(cmdline) {
			continue
		}
		pss, err := pssOf(proc)
		if err != nil {
			continue // ended meanwhile
		}
		name := filepath.Base(strings.SplitN(string(cmdline), "\x00", 2)[0])
		u := all[name]
		u.PSS += pss
		u.CPU += cpuOf(proc)
		all[name] = u
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no process matches %s", which)
	}
	return all, nil
}

// Total of all programs.
func Total(all map[string]Usage) Usage {
	var t Usage
	for _, u := range all {
		t.PSS += u.PSS
		t.CPU += u.CPU
	}
	return t
}

func pssOf(proc string) (float64, error) {
	file, err := os.Open(filepath.Join(proc, "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "Pss:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			return kb / 1000, err
		}
	}
	return 0, fmt.Errorf("no Pss in %s", file.Name())
}

// cpuOf is the user and system time of a process, in clock ticks of 10 ms.
func cpuOf(proc string) time.Duration {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	if errors.Join(err1, err2) != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// Available is how much memory programs may still take, in MB.
func Available() (int, error) { return memory("MemAvailable:") }

// Memory is how much there is, in MB.
func Memory() (int, error) { return memory("MemTotal:") }

func memory(line string) (int, error) {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(content)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == line {
			kb, err := strconv.Atoi(f[1])
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/meminfo", line)
}
