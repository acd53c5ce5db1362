package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
)

// storeFaults is the fault schedule of the store. Its calls come from many goroutines: which call meets which fault depends on
// their order, how many of them do does not.
type storeFaults struct {
	mu     sync.Mutex
	rng    *rand.Rand
	until  time.Time
	chance float64
	heard  []string
}

// on makes calls fail with a chance for a while.
func (f *storeFaults) on(chance float64, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chance, f.until = chance, time.Now().Add(d)
}

func (f *storeFaults) off() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chance = 0
}

func (f *storeFaults) decide(c mem.Call) mem.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chance == 0 || time.Now().After(f.until) || f.rng.Float64() >= f.chance {
		return mem.Fault{}
	}
	fault := mem.Fault{Delay: time.Duration(f.rng.IntN(2000)) * time.Millisecond}
	switch f.rng.IntN(4) {
	case 0:
		return fault // slow, but well
	case 1:
		// The answer is lost: the write has happened.
		fault.Err, fault.Applied = store.ErrUnavailable, c.Op == "txn"
	default:
		fault.Err = store.ErrUnavailable
	}
	return fault
}

// tell keeps what a process said as it ended, for the case of failure.
func (f *storeFaults) tell(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, what)
}
