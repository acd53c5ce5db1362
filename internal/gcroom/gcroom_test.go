package gcroom

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		live, room uint64
		want       int
	}{
		{0, 100, 100},   // unknown
		{50, 200, 400},  // a small heap gets the room
		{400, 200, 100}, // a large one has more anyway
	} {
		if got := percent(c.live, c.room); got != c.want {
			t.Errorf("percent(%d, %d) = %d, want %d", c.live, c.room, got, c.want)
		}
	}
}

func TestRoom(t *testing.T) {
	if got := room(1 << 30); got != 32<<20 {
		t.Errorf("on 1 GiB: %d", got)
	}
	if got := room(64 << 30); got != 192<<20 {
		t.Errorf("on 64 GiB: %d", got)
	}
}

const freed = -1

func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // the timer has a goroutine of its own
		var set []int
		note := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			set = append(set, n)
		}
		var allocated atomic.Uint64
		k := &keeper{
			room: 400 << 20, heap: func() (uint64, uint64) { return 50 << 20, allocated.Load() }, now: time.Now,
			set:  note,
			free: func() { note(freed) },
		}
		expect := func(what string, want ...int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(set, want) {
				t.Fatalf("%s: set %v, want %v", what, set, want)
			}
		}
		k.collected()
		time.Sleep(time.Minute)
		k.collected()
		expect("at rest")
		time.Sleep(busyWithin / 2)
		k.collected()
		expect("busy", 200)
		time.Sleep(crowdedWithin)
		k.collected()
		expect("busy, and that is enough", 200, 200)
		for range 3 {
			time.Sleep(crowdedWithin / 2)
			k.collected()
		}
		expect("crowded", 200, 200, 400, 800, 800)
		mu.Lock()
		set = nil
		mu.Unlock()
		time.Sleep(calmAfter - time.Millisecond)
		k.collected()
		time.Sleep(calmAfter - time.Millisecond)
		expect("still busy: it collects seldom because it has room, of which half will do", 400)
		allocated.Add(61 << 20) // 20 a second are 40 % of what is live
		time.Sleep(time.Millisecond)
		expect("as busy as ever: it collects seldom because it has room", 400)
		allocated.Add(60 << 20)
		time.Sleep(calmAfter)
		expect("calm", 400, atRest, freed)
		time.Sleep(time.Hour)
		k.collected()
		expect("at rest again", 400, atRest, freed)
		time.Sleep(busyWithin / 2)
		k.collected()
		time.Sleep(crowdedWithin / 2)
		k.collected()
		expect("crowded again", 400, atRest, freed, 200, 400)
		for range 2 {
			time.Sleep(lateAfter + time.Millisecond)
			k.collected()
		}
		expect("late, with no less than at first", 400, atRest, freed, 200, 400, 200, 200)
	})
}

// A small heap whose collections are neither rare nor all that the process does is kept dense.
func TestBrisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set []int
		live := uint64(20 << 20)
		k := &keeper{
			room: 400 << 20, heap: func() (uint64, uint64) { return live, 0 }, now: time.Now,
			set: func(n int) { set = append(set, n) }, free: func() {},
		}
		told := func() []int {
			k.mu.Lock() // it is set with that held
			defer k.mu.Unlock()
			defer func() { set = nil }()
			return set
		}
		after := func(d time.Duration, want ...int) {
			t.Helper()
			time.Sleep(d)
			k.collected()
			if got := told(); !slices.Equal(got, want) {
				t.Fatalf("%s later: set %v, want %v", d, got, want)
			}
		}
		after(0)
		after(briskWithin)
		after(briskWithin-1, brisk)
		after(busy(live))
		after(briskWithin - 1)
		after(briskWithin, atRest)
		after(time.Second, brisk)
		after(busy(live)-1, percent(live, k.least(live)))
		time.Sleep(calmAfter)
		synctest.Wait()
		told()
		after(briskWithin)
		live = small + 1
		after(busyWithin)
		after(busyWithin-1, percent(live, k.least(live)))
	})
}

// What a busy heap has at least, in percent of what is live.
func TestLeast(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{50, 200},  // a quarter of the room
		{100, 150}, // half more than is live
		{300, 133}, // the room
		{800, 100},
	} {
		k := &keeper{room: 400}
		if got := percent(c.live, k.least(c.live)); got != c.want {
			t.Errorf("%d live: %d %%, want %d %%", c.live, got, c.want)
		}
	}
}

func TestOnCollection(t *testing.T) {
	called := make(chan struct{}, 10)
	onCollection(func() {
		select {
		case called <- struct{}{}:
		default: // the test is over; who waited here would keep all finalizers waiting
		}
	})
	for range 3 {
		runtime.GC()
		select {
		case <-called:
		case <-time.After(10 * time.Second):
			t.Fatal("a collection was not told")
		}
	}
}
