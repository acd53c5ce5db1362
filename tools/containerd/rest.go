package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A start touches most of the program, of which 29 MB then stay in memory, and a third of that is asked for again while nothing happens. What is
// given back is still in the page cache, and comes from there at the price of a fault for each sixteen pages.
const (
	restingFor = 15 * time.Second
	restingUse = restingFor / 100 // of a processor
)

// What a start allocated and nobody needs lies between what is needed: at rest a collection comes every two minutes, and it goes back page by page.
const keptFree = 1 << 20 // bytes of the heap

// keeper gives back what is mapped of the program, and what the heap does not use, after each time in which the process did next to nothing.
type keeper struct {
	used   time.Duration // of processors, when it looked last
	shrunk uint64        // collections by then: another one frees nothing more
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
	if free, n := heap(); free > keptFree && n > k.shrunk || k.shrunk == 0 {
		debug.FreeOSMemory() // collects first
		_, k.shrunk = heap()
	}
}

// heap tells how many bytes the heap keeps and does not use, and how often it has been collected.
func heap() (free, collections uint64) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
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
