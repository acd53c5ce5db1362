package gcroom

import (
	"time"

	"golang.org/x/sys/unix"
)

// What is read once of the program and of the store's database stays in memory until somebody wants the page, although the page cache has it
// anyway: tens of megabytes within minutes. A process at rest gives it back every now and then; what it goes on using comes back at the price of a
// fault for each sixteen pages, some hundreds of them.
const (
	lookEvery = 15 * time.Second
	restUse   = lookEvery / 20 // of a processor
)

// UnmapAtRest begins to do so, for this process.
func UnmapAtRest() {
	r := &rester{free: unmapFiles}
	go r.run()
}

// rester watches for times in which the process does little.
type rester struct {
	used time.Duration // of processors, at the last look
	free func()
}

func (r *rester) run() {
	for range time.Tick(lookEvery) {
		r.look(processorTime())
	}
}

func (r *rester) look(used time.Duration) {
	before := r.used
	r.used = used
	if used-before < restUse {
		r.free()
	}
}

func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
