package gcroom

import (
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// What is read once of the program and of the store's database stays in memory until somebody wants the page, although the page cache has it
// anyway: tens of megabytes within minutes. A process at rest gives it back every now and then; what it goes on using comes back at the price of a
// fault for each sixteen pages, some hundreds of them. Nearly all that comes back was mapped around what was asked for, or is asked for by a
// collection, so that it is worth it every few seconds.
const (
	lookEvery = 5 * time.Second
	restUse   = lookEvery / 10 // of a processor: a collection or two are rest
)

// What a collection frees the heap keeps for what is allocated next, half as much as is in use. At rest that is filled so slowly that it is better
// given back. That takes another collection, so that at rest there are twice as many, and they are some minutes apart.
const keptFree = 1 << 20

// UnmapAtRest begins to do so, for this process.
func UnmapAtRest() {
	r := &rester{free: unmapFiles, heap: freeOfHeap, shrink: debug.FreeOSMemory}
	go r.run()
}

// rester watches for times in which the process does little.
type rester struct {
	used   time.Duration // of processors, at the last look
	free   func()
	heap   func() (free, collections uint64)
	shrink func()
	shrunk uint64 // collections by then
}

func (r *rester) run() {
	for range time.Tick(lookEvery) {
		r.look(processorTime())
	}
}

func (r *rester) look(used time.Duration) {
	before := r.used
	r.used = used
	if used-before >= restUse {
		return
	}
	if free, n := r.heap(); free > keptFree && n > r.shrunk {
		r.shrink()
		_, r.shrunk = r.heap()
	}
	r.free() // a collection asks for much of the program
}

// freeOfHeap is what the heap keeps and does not use, and how often it has been collected.
func freeOfHeap() (free, collections uint64) {
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
