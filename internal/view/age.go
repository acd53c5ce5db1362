package view

import (
	"sync"
	"sync/atomic"
	"time"
)

// markEvery is the distance of the marks in time by which a revision's age is known.
const markEvery = 30 * time.Second

// ages tells how long ago a revision stopped being the newest, to within markEvery.
//
// How long a client may take to go through the pages of a list must not depend on what memory happens to hold. As with upstream's
// compaction of etcd, a past revision can be read for a while and then no longer, even if the kind has not changed since.
type ages struct {
	mu    sync.Mutex
	marks []mark // in order of time
	max   time.Duration
}

type mark struct {
	at  time.Time
	rev int64
}

// reached notes that rev is the newest revision now.
func (a *ages) reached(rev int64, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.marks); n > 0 && now.Sub(a.marks[n-1].at) < markEvery {
		return
	}
	a.marks = append(a.marks, mark{now, rev})
	// Only the newest mark that is too old is needed.
	for len(a.marks) > 1 && now.Sub(a.marks[1].at) >= a.max {
		a.marks = a.marks[1:]
	}
}

// expired tells whether rev stopped being the newest revision at least age ago; age is at most max.
func (a *ages) expired(rev int64, now time.Time, age time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.marks) - 1; i >= 0; i-- {
		if m := a.marks[i]; now.Sub(m.at) >= age {
			return rev < m.rev
		}
	}
	return false
}

// aging also drops what is too old of kinds that no longer change: otherwise old versions, and their encodings, would be held
// until the next change.
type aging struct {
	due   atomic.Bool // a look is to come
	looks int         // owned by the look; only one runs at a time
}

const (
	lookEvery = time.Minute
	// Every looksUnused looks, encodings that were not used since the last such look are dropped, new ones too. Nothing is held
	// for a client that reads everything once; one that comes back makes a new encoding.
	looksUnused = 2
)

// growOlder schedules a look after each change, and further looks as long as there is something to forget.
func (v *View) growOlder() {
	if !v.aging.due.Load() && !v.aging.due.Swap(true) {
		time.AfterFunc(lookEvery, v.lookAtAge)
	}
}

func (v *View) lookAtAge() {
	v.aging.looks++
	unused := v.aging.looks%looksUnused == 0
	v.aging.due.Store(false) // from here on a change schedules its own look, since this one may have passed its place
	now, left := v.c.Now(), false
	for _, t := range v.tables {
		left = t.hist.age(now) || left
	}
	// States that somebody pages through are kept as long as he may continue; other states can be read from the store, as can the
	// changes between them.
	left = v.retained.expire(
		func(rev int64) bool { return v.ages.expired(rev, now, min(v.c.HistoryAge, v.c.PastAge)) },
		func(rev int64) bool { return v.ages.expired(rev, now, v.c.PastAge) },
	) || left
	if unused {
		v.encCache.age()
	}
	if left {
		v.growOlder()
	}
}
