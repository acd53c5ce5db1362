package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A start touches most of the program, of which 29 MB then stay in memory, and a third of that is asked for again while nothing happens. What is
// given back is still in the page cache, and comes from there at the price of a fault for each sixteen pages.
const (
	restingFor = 5 * time.Second
	restingUse = restingFor / 100 // of a processor
)

// keeper gives back what is mapped of the program after each time in which the process did next to nothing.
type keeper struct {
	used time.Duration // of processors, when it looked last
}

func (k *keeper) run() {
	for range time.Tick(restingFor) {
		k.look()
	}
}

func (k *keeper) look() {
	before := k.used
	k.used = processorTime()
	if k.used-before > restingUse {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for _, m := range clean(string(maps)) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED) // one that is gone by now is none of ours
	}
}

func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mapping is a part of the address space.
type mapping struct{ from, to uintptr }

// clean finds in a /proc/PID/maps what is mapped of the program and not to be written to: nothing there can differ from the file, since nobody
// but a dynamic linker writes to such a mapping before it is protected, and this program has none. Databases, which are shared, are left alone:
// they are mapped anew when they grow, and what comes to where they were may be memory, which would be lost.
func clean(maps string) (found []mapping) {
	for line := range strings.Lines(maps) {
		words := strings.Fields(line) // 00400000-0245b000 r-xp 00000000 fe:00 10011486   /usr/bin/containerd
		if len(words) < 6 || words[5][0] != '/' || words[1] != "r-xp" && words[1] != "r--p" {
			continue
		}
		from, to, _ := strings.Cut(words[0], "-")
		a, err := strconv.ParseUint(from, 16, 64)
		b, err2 := strconv.ParseUint(to, 16, 64)
		if err == nil && err2 == nil && a < b {
			found = append(found, mapping{uintptr(a), uintptr(b)})
		}
	}
	return found
}
