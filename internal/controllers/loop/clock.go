package loop

import (
	"sync"

	"podo.dev/podo/internal/view"
)

// alarms are the keys whose next look is due at a time of day. Timers know nothing of that: they stand still while the machine sleeps, and go
// on when its clock is set.
type alarms struct {
	mu   sync.Mutex
	look func(view.Key)
	set  map[view.Key]bool
	rang int // how often the clock was set
}

func (a *alarms) open(look func(view.Key)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look, a.set = look, map[view.Key]bool{}
}

// off is for a key that is looked at now; what it returns is for on.
func (a *alarms) off(key view.Key) (rang int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.set, key)
	return a.rang
}

// on is for a key that waits from now on; false says that the clock was set while it was looked at.
func (a *alarms) on(key view.Key, rang int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if rang != a.rang {
		return false
	}
	a.set[key] = true
	return true
}

func (a *alarms) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rang++
	for key := range a.set {
		a.look(key)
	}
	clear(a.set)
}

// ClockSet is to be called when the machine's clock was set, or the machine woke: controllers that go by the clock look what is due.
func (b *Board) ClockSet() {
	for _, l := range b.running() {
		if l.c.ByClock {
			l.alarms.ring()
		}
	}
}
