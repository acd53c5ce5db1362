package view

import (
	"sync"
	"sync/atomic"
	"time"
)

// markEvery is how far apart the marks are by which the age of a revision is told.
const markEvery = 30 * time.Second

// ages tells how long ago a revision stopped being the newest, to within markEvery.
//
// What memory happens to hold must not decide for how long a client can go through the pages of a list: as with etcd's compaction
// upstream, a past revision can be read for a while, and then not any more, also when the kind has not changed since.
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
	// The newest of those that are too old says what is too old; the ones before it say nothing more.
	for len(a.marks) > 1 && now.Sub(a.marks[1].at) >= a.max {
		a.marks = a.marks[1:]
	}
}

// expired tells whether a newer revision than rev has been there for longer than age, which is at most max.
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

// aging lets go of what is too old also of kinds of which nothing is heard any more: without it, the versions before the last ones would be
// held, encoded too, for as long as nothing changes.
type aging struct {
	due   atomic.Bool // a look is to come
	looks int         // the look's own: there is one at a time
}

const (
	lookEvery = time.Minute
	// Encodings that nobody has used since the last of so many looks go, also those that were made since: nothing is to be held for who reads
	// everything once, and who comes again makes one anew.
	looksUnused = 2
)

// growOlder has a look come after each change, and as long as there is something to forget.
func (v *View) growOlder() {
	if !v.aging.due.Load() && !v.aging.due.Swap(true) {
		time.AfterFunc(lookEvery, v.lookAtAge)
	}
}

func (v *View) lookAtAge() {
	v.aging.looks++
	unused := v.aging.looks%looksUnused == 0
	v.aging.due.Store(false) // from here on a change has a look of its own come: this one may have been where it is
	now, left := v.c.Now(), false
	for _, t := range v.tables {
		left = t.hist.age(now) || left
	}
	// Those that somebody goes through are kept for as long as he may; the others can be read from the store, as what happened between them.
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
