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
			room: 400 << 20, heap: func() (uint64, uint64) { return 50 << 20, allocated.Load() }, now: time.Now, answers: &tally{},
			set:  note,
			free: func() { note(freed) },
		}
		collected := func() {
			allocated.Add(10 << 20)
			k.collected()
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
		collected()
		time.Sleep(time.Minute)
		collected()
		expect("at rest")
		time.Sleep(busyWithin / 2)
		collected()
		expect("busy", 266)
		for range 3 {
			time.Sleep(busyWithin / 10)
			collected()
		}
		expect("busier", 266, 266, 266, 266)
		mu.Lock()
		set = nil
		mu.Unlock()
		time.Sleep(calmAfter - time.Millisecond)
		collected()
		time.Sleep(calmAfter - time.Millisecond)
		expect("still busy: it collects seldom because it has room", 266)
		allocated.Add(61 << 20) // 20 a second are 40 % of what is live
		time.Sleep(time.Millisecond)
		expect("as busy as ever", 266)
		allocated.Add(60 << 20)
		time.Sleep(calmAfter)
		expect("calm", 266, atRest, freed)
		time.Sleep(time.Hour)
		collected()
		expect("at rest again", 266, atRest, freed)
		time.Sleep(busyWithin / 2)
		collected()
		expect("busy again", 266, atRest, freed, 266)
	})
}

// A small heap whose collections are neither rare nor all that the process does is kept dense.
func TestBrisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set []int
		live, allocated := uint64(20<<20), uint64(0)
		k := &keeper{
			room: 400 << 20, heap: func() (uint64, uint64) { return live, allocated }, now: time.Now, answers: &tally{},
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
			allocated += live * atRest / 100
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
		after(busy(live)-1, percent(live, share(live, 0, false, k.room)))
		time.Sleep(calmAfter)
		synctest.Wait()
		told()
		after(briskWithin)
		live = small + 1
		after(busyWithin)
		after(busyWithin-1, percent(live, share(live, 0, false, k.room)))
	})
}

// A small heap that something fills all the time, slowly, has the room of rest once it is clear that this is no beginning, though its memory is
// given back every few seconds, which collects too. What begins then is seen all the same.
func TestBriskIsNoLastingState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const live, tick = uint64(20 << 20), 10 * time.Millisecond
		var allocated, last uint64
		percent, collections := atRest, 0
		k := &keeper{
			room: 400 << 20, heap: func() (uint64, uint64) { return live, allocated }, now: time.Now, answers: &tally{},
			set: func(n int) { percent = n }, free: func() { t.Error("busy") },
		}
		collect := func() {
			last = allocated
			collections++
			k.collected()
		}
		// run lets so many bytes be allocated a second.
		run := func(rate uint64, d time.Duration) {
			natural, next := false, time.Now()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(tick) {
				allocated += rate / uint64(time.Second/tick)
				if (allocated-last)*100 >= live*uint64(percent) {
					natural = true
					collect()
				}
				if natural && !time.Now().Before(next) {
					natural, next = false, time.Now().Add(lookEvery)
					collect()
				}
			}
		}
		run(100<<10, 2*time.Minute)
		for range 2 {
			run(4<<20, 10*time.Second)
			if percent != brisk {
				t.Errorf("when something begins: %d %%", percent)
			}
			run(3<<19, 2*time.Minute)
			collections = 0
			run(3<<19, 2*time.Minute)
			if percent != atRest || collections > 50 {
				t.Errorf("minutes later: %d %%, %d collections in two", percent, collections)
			}
			collect()
			time.Sleep(tick)
			allocated += 1 << 19
			collect()
			if percent != atRest {
				t.Errorf("collected for another reason: %d %%", percent)
			}
		}
	})
}

// What a busy heap has, in percent of what is live.
func TestShareOfRoom(t *testing.T) {
	for _, c := range []struct {
		live  uint64 // MB
		rate  float64
		waits bool
		want  int
	}{
		{20, 0, true, 666},  // a third of the room
		{20, 0, false, 100}, // what is live, and small
		{small >> 20, wholesale + 1, false, 100},
		{100, wholesale, true, 300}, // three times what is live
		{100, wholesale + 1, true, 133},
		{100, wholesale, false, 133},
		{200, 0, true, 200}, // the room
		{800, 0, true, 100},
	} {
		if got := percent(c.live<<20, share(c.live<<20, c.rate, c.waits, 400<<20)); got != c.want {
			t.Errorf("%d MB live, %.0f bytes a second, somebody waits %v: %d %%, want %d %%", c.live, c.rate, c.waits, got, c.want)
		}
	}
}

// What is allocated and who is answered between two collections decides, however often they come.
func TestWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set []int
		var allocated uint64
		k := &keeper{
			room: 600 << 20, heap: func() (uint64, uint64) { return 100 << 20, allocated }, now: time.Now, answers: &tally{},
			set: func(n int) { set = append(set, n) }, free: func() {},
		}
		for _, c := range []struct{ made, answers uint64 }{{50, few}, {wholesale >> 20, few}, {wholesale>>20 + 1, few}, {50, few - 2}, {50, few}} {
			time.Sleep(busyWithin / 2)
			allocated += c.made << 20 / 2
			for range c.answers / 2 {
				k.answers.add()
			}
			k.collected()
		}
		if want := []int{300, 200, 200, 300}; !slices.Equal(set, want) {
			t.Errorf("set %v, want %v", set, want)
		}
	})
}

// Whoever waits for one answer after another is not kept waiting by a second collection of a large heap before it gets room.
func TestLargeHeapIsBusyAtOnceForWhoWaits(t *testing.T) {
	for _, c := range []struct {
		live, made uint64
		every      time.Duration // between two answers, after a minute's rest
		want       []int
	}{
		{small + 1, small, time.Second / few, []int{percent(small+1, 200<<20)}},
		{small + 1, small, time.Second * 3 / 2 / few, nil},
		{small + 1, small / 100, time.Second / few, nil}, // somebody asked for the collection
		{small, small / 2, time.Second / few, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var set []int
			k := &keeper{
				room: 600 << 20, heap: func() (uint64, uint64) { return c.live, c.made }, now: time.Now, answers: &tally{},
				set: func(n int) { set = append(set, n) }, free: func() {}, last: time.Now(),
			}
			time.Sleep(time.Minute)
			for range few + every {
				time.Sleep(c.every)
				k.answers.add()
			}
			k.collected()
			k.mu.Lock()
			defer k.mu.Unlock()
			if !slices.Equal(set, c.want) {
				t.Errorf("%+v: set %v", c, set)
			}
		})
	}
}

// What is collected seldom because it has room is not collected to give that back while somebody waits for one answer after another.
func TestBusyWhileSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var freed atomic.Int32
		var allocated atomic.Uint64
		k := &keeper{
			room: 600 << 20, heap: func() (uint64, uint64) { return 50 << 20, allocated.Load() }, now: time.Now, answers: &tally{},
			set: func(int) {}, free: func() { freed.Add(1) },
		}
		k.collected()
		time.Sleep(busyWithin / 2)
		allocated.Add(50 << 20)
		k.collected()
		for range 10 * few * int(calmAfter/time.Second) {
			time.Sleep(time.Second / few)
			k.answers.add()
		}
		if n := freed.Load(); n != 0 {
			t.Errorf("given back %d times while somebody waited", n)
		}
		time.Sleep(2 * calmAfter)
		synctest.Wait()
		if n := freed.Load(); n != 1 {
			t.Errorf("given back %d times when nobody waited any more, want once", n)
		}
	})
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
