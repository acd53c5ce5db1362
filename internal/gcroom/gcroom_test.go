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
		expect("busy", 300)
		for range 3 {
			time.Sleep(busyWithin / 10)
			k.collected()
		}
		expect("busier", 300, 300, 300, 300)
		mu.Lock()
		set = nil
		mu.Unlock()
		time.Sleep(calmAfter - time.Millisecond)
		k.collected()
		time.Sleep(calmAfter - time.Millisecond)
		expect("still busy: it collects seldom because it has room", 300)
		allocated.Add(61 << 20) // 20 a second are 40 % of what is live
		time.Sleep(time.Millisecond)
		expect("as busy as ever", 300)
		allocated.Add(60 << 20)
		time.Sleep(calmAfter)
		expect("calm", 300, atRest, freed)
		time.Sleep(time.Hour)
		k.collected()
		expect("at rest again", 300, atRest, freed)
		time.Sleep(busyWithin / 2)
		k.collected()
		expect("busy again", 300, atRest, freed, 300)
	})
}

// What a busy time makes gives it more room once it has lived for a while, and less is no reason for as much.
func TestRoomFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set []int
		live := uint64(100) << 20
		k := &keeper{
			room: 900 << 20, heap: func() (uint64, uint64) { return live, 0 }, now: time.Now,
			set: func(n int) { set = append(set, n) }, free: func() {},
		}
		k.collected()
		for _, c := range []struct {
			after time.Duration
			live  uint64
			room  int
		}{
			{busyWithin - 1, 100, 300},
			{settled / 3, 200, 300}, // made just now
			{settled / 3, 250, 300},
			{settled/3 - 1, 250, 300},
			{1, 250, 300}, // what was there at first
			{settled / 3, 300, 300},
			{settled / 3, 300, 300},
			{settled / 3, 300, 750}, // what has been there for so long
			{settled / 3, 200, 750},
			{settled / 3, 200, 750},
			{settled / 3, 200, 600},
		} {
			time.Sleep(c.after)
			live = c.live << 20
			k.collected()
			if got, want := set[len(set)-1], max(atWork, c.room*100/int(c.live)); got != want {
				t.Errorf("%s later, %d live: %d %%, want %d %%", c.after, c.live, got, want)
			}
		}
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
		after(busy(live)-1, percent(live, share(live, k.room)))
		time.Sleep(calmAfter)
		synctest.Wait()
		told()
		after(briskWithin)
		live = small + 1
		after(busyWithin)
		after(busyWithin-1, percent(live, share(live, k.room)))
	})
}

// What a busy heap has, in percent of what is live.
func TestShareOfRoom(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{20, 665},  // a third of the room
		{100, 300}, // three times what is live
		{200, 200}, // the room
		{800, 100},
	} {
		if got := percent(c.live, share(c.live, 400)); got != c.want {
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
