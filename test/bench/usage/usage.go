// Package usage reads from /proc what programs hold and have used.
package usage

import (
	"bufio"
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
	PSS       float64 // MB
	Anonymous float64 // MB of it that are no file's pages: those of a program come and go with what it does
	CPU       time.Duration
	Reaped    time.Duration // what their children had used that have ended: the programs that a shim runs, for one
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
		pss, anonymous, err := memoryOf(proc)
		if err != nil {
			continue // ended meanwhile
		}
		name := filepath.Base(strings.SplitN(string(cmdline), "\x00", 2)[0])
		u := all[name]
		u.PSS += pss
		u.Anonymous += anonymous
		own, reaped := cpuOf(proc)
		u.CPU += own
		u.Reaped += reaped
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
		t.Anonymous += u.Anonymous
		t.CPU += u.CPU
		t.Reaped += u.Reaped
	}
	return t
}

// memoryOf is the proportional share of a process's memory, and what of it is anonymous, in MB.
func memoryOf(proc string) (pss, anonymous float64, err error) {
	file, err := os.Open(filepath.Join(proc, "smaps_rollup"))
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			continue
		}
		kb, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "Pss:":
			pss = kb / 1000
		case "Pss_Anon:":
			anonymous = kb / 1000
		}
	}
	if pss == 0 || anonymous == 0 {
		return 0, 0, fmt.Errorf("no Pss and Pss_Anon in %s", file.Name()) // it has ended
	}
	return pss, anonymous, nil
}

// cpuOf is the user and system time of a process and of its children that have ended, in clock ticks of 10 ms.
func cpuOf(proc string) (own, reaped time.Duration) {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return 0, 0
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks [4]int64 // user and system, own and the children's
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(f[11+i], 10, 64); err != nil {
			return 0, 0
		}
	}
	const tick = 10 * time.Millisecond
	return time.Duration(ticks[0]+ticks[1]) * tick, time.Duration(ticks[2]+ticks[3]) * tick
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
