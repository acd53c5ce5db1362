// Package gcroom lets the heap grow under load and keeps it small at rest.
//
// The collector's work for each byte allocated is the live heap over the room that the heap may grow by until the next collection.
// Go's default makes the room as large as what is live. That is too little for a small heap under load, which is then collected many
// times a second, and too much for a large one at rest, which then holds twice what it needs. Here a process that collects often gets
// room in bytes, and gives it back when it does not.
//
//	rest ──► two collections within busyWithin of each other, ──► busy: a third of the machine's room, and while somebody waits
//	  ▲      or one of a large heap while somebody waits          │     for one answer after another three times what is live,
//	  └──── none for calmAfter, little allocated, nobody waits ◄──┘     the machine's room at most
//
// Little is what makes no two collections within busyWithin of each other with the room of rest: who gave it back for less would need it again at once.
// Giving it back collects too, which who waits for one answer after another would meet every few seconds.
//
// A collection takes as long as what is live is large, and who waits for an answer meanwhile waits several times as long: a large heap gets room to
// be collected seldom. But what is made amid much room lives on scattered over it, and the pages in between are held for as long. Where thousands of
// objects are made at once, or by the process itself, nobody waits for one of them, and what is made is to lie close.
//
// A heap that is small is given less while something begins, pods for one, than at rest:
//
//	rest ──► two collections within briskWithin of each other ──► brisk: a seventh of what is live
//	  ▲                                                             │
//	  └───────────────── none for briskWithin ◄─────────────────────┘──► busy, when they would take more than a tenth of a processor
//
// What lives on for long lies among what does not, in as many pages as the heap has when it is largest, and they are held for as long as anything in
// them lives, which is for good. With 110 pods they were half of what each costs. A larger heap has no such times: each collection takes longer.
// Busy for nobody who waits, it gets what is live and no more, Go's default, since pods begin then too: with the room of a large heap twice as much was held
// for each of them afterwards.
// What goes on for longer than briskFor, and is so little that the room of rest would last for briskWithin, is how the process is and no beginning:
// it would be collected three times as often for good, with the memory given back in between once more.
package gcroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// A heap that is collected just seldom enough to count as at rest costs one collection in this time; a small one is collected sooner than it
	// takes a tenth of a processor: see busy.
	busyWithin  = time.Second
	briskWithin = 4 * time.Second
	briskFor    = time.Minute
	small       = 32 << 20 // live bytes
	calmAfter   = 3 * time.Second
	// Pods that come one by one allocate some 80 MB a second; by clients that do not wait for each other it is three times that.
	wholesale = 128 << 20
	few       = 50 // answers a second
	// Room in percent of what is live.
	atRest = 40
	brisk  = 15
	atWork = 100 // at least; Go's default
)

// room is how much the heap of a busy process may grow between collections, at least, on a machine with this much memory.
func room(memory uint64) uint64 { return min(memory/32, 192<<20) }

// share is how much of the room a busy heap gets that has so many live bytes, and allocates so many a second; a small one may get less than it would have by
// the machine. waits: somebody does, for one answer after another.
func share(live uint64, rate float64, waits bool, room uint64) uint64 {
	if live <= small && !waits {
		return live
	}
	if rate > wholesale || !waits {
		return room / 3
	}
	return min(max(room/3, 3*live), room)
}

// percent is the setting that gives a heap with so many live bytes that room.
func percent(live, room uint64) int {
	if live == 0 {
		return atWork
	}
	return max(atWork, int(room*100/live))
}

var answers tally

// Answered tells that a client has its answer.
func Answered() { answers.add() }

// tally counts answers, and knows when the last few of them came.
type tally struct {
	count atomic.Uint64
	at    [few/every + 1]atomic.Int64 // in Unix nanoseconds, of each of the last answers whose number is a multiple of every
}

// every so many answers the time is looked at.
const every = 10

func (t *tally) add() {
	if n := t.count.Add(1); n%every == 0 {
		t.at[n/every%uint64(len(t.at))].Store(time.Now().UnixNano())
	}
}

// quick says whether the last few answers came within a second: what went before, however calm, does not count.
func (t *tally) quick(now time.Time) bool {
	oldest := t.at[(t.count.Load()/every+1)%uint64(len(t.at))].Load()
	return oldest != 0 && now.Sub(time.Unix(0, oldest)) <= time.Second+time.Second/few*every
}

// keeper is told of every collection.
type keeper struct {
	room uint64
	set  func(percent int)
	free func()                          // gives the system what is not used
	heap func() (live, allocated uint64) // after the last collection; since the process began
	now  func() time.Time
	// answers are those that clients were given.
	answers *tally

	mu        sync.Mutex
	brisk     bool
	began     time.Time // when something last seemed to begin, or was going on
	last      time.Time // of a collection
	made      uint64    // allocated by then
	answered  uint64    // by then
	busy      bool
	calm      *time.Timer // runs while busy
	allocated uint64      // when it was set
}

// Keep begins, for this process. Whoever has set GOGC has decided otherwise.
func Keep() {
	var machine unix.Sysinfo_t
	if os.Getenv("GOGC") != "" || unix.Sysinfo(&machine) != nil {
		return
	}
	k := &keeper{
		room: room(uint64(machine.Totalram) * uint64(machine.Unit)),
		set:  func(p int) { debug.SetGCPercent(p) }, free: giveBack, heap: heapBytes, now: time.Now, answers: &answers,
	}
	k.set(atRest)
	onCollection(k.collected)
}

// collected is called once after each collection.
func (k *keeper) collected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	since := now.Sub(k.last)
	k.last = now
	live, allocated := k.heap()
	made := allocated - k.made
	k.made = allocated
	answered := k.answers.count.Load() - k.answered
	k.answered += answered
	rate := float64(made) / since.Seconds()
	waits := float64(answered)/since.Seconds() >= few || !k.busy && k.answers.quick(now)
	asked := made < live*brisk/100/2 // by who gives memory back, for one: nothing has filled the room
	switch {
	case k.busy:
		k.began = now
		k.calm.Reset(calmAfter)
	case (since < busy(live) || live > small && waits) && !asked:
		k.busy, k.brisk = true, false
		k.calm = time.AfterFunc(calmAfter, k.calmed)
	default:
		filled := 100 * rate * briskWithin.Seconds() / float64(live) // percent of what is live, in briskWithin
		if filled >= atRest && !asked {
			k.began = now
		}
		lasting := filled > brisk && now.Sub(k.began) > briskFor
		if is := live <= small && since < briskWithin && !lasting; is != k.brisk {
			k.brisk = is
			percent := atRest
			if is {
				percent = brisk
			}
			k.set(percent)
		}
		return
	}
	k.allocated = allocated
	k.set(percent(live, share(live, rate, waits, k.room)))
}

// busy is how soon after each other collections of so many live bytes make a process busy: some ten times of what one takes.
func busy(live uint64) time.Duration {
	if live > small {
		return busyWithin
	}
	return time.Duration(live>>20) * 10 * time.Millisecond
}

func (k *keeper) calmed() {
	if k.rest() {
		k.free() // collects too; the lock is not held
	}
}

// rest says whether a busy time is over.
func (k *keeper) rest() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now().Sub(k.last) < calmAfter {
		return false // a collection came between; it has set the timer anew
	}
	live, allocated := k.heap()
	much := allocated-k.allocated > live*atRest/100*uint64(calmAfter/busyWithin)
	if much || k.answers.quick(k.now()) {
		k.allocated = allocated
		k.calm.Reset(calmAfter)
		return false
	}
	k.busy = false
	k.set(atRest)
	return true
}

// giveBack gives the system what the heap does not use, and what is mapped of files and can be read again: of the program itself, much was
// only needed to start or for what the busy time was about, and of the store's database most is read once.
func giveBack() {
	debug.FreeOSMemory() // collects first
	unmapFiles()
}

func heapBytes() (live, allocated uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// mark is an object that nobody holds.
type mark struct{ _ [16]byte }

// onCollection calls f after each collection, on the goroutine of finalizers: f must be short.
func onCollection(f func()) {
	var again func(*mark)
	again = func(m *mark) {
		f()
		runtime.SetFinalizer(m, again)
	}
	runtime.SetFinalizer(&mark{}, again)
}
