package loop

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"podo.dev/podo/internal/view"
)

// journal is what a loop remembers for people: the keys under work, and those that fail, with their last errors.
type journal struct {
	mu      sync.Mutex
	waiting func() int
	work    map[view.Key]time.Time
	failing map[view.Key]failure
	done    int
}

type failure struct {
	at    time.Time
	tries int
	err   string
}

// Of keys that fail only so many are remembered and shown: the others fail for the same reason, as a rule.
const (
	mostFailing = 1000
	mostShown   = 20
)

// open begins anew, as the loop does.
func (j *journal) open(waiting func() int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting, j.work, j.failing, j.done = waiting, map[view.Key]time.Time{}, map[view.Key]failure{}, 0
}

func (j *journal) begin(key view.Key, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.work[key] = now
}

func (j *journal) end(key view.Key, err error, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.work, key)
	j.done++
	f, had := j.failing[key]
	switch {
	case err == nil:
		delete(j.failing, key)
	case had || len(j.failing) < mostFailing:
		j.failing[key] = failure{now, f.tries + 1, err.Error()}
	}
}

func (j *journal) write(w io.Writer, name string, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting == nil {
		return // it has not begun
	}
	fmt.Fprintf(w, "%s: %d waiting, %d at work, %d done, %d failing\n", name, j.waiting(), len(j.work), j.done, len(j.failing))
	byTime := func(at func(view.Key) time.Time) func(a, b view.Key) int {
		return func(a, b view.Key) int {
			return cmp.Or(at(a).Compare(at(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(j.work), byTime(func(k view.Key) time.Time { return j.work[k] })) {
		if long := now.Sub(j.work[key]); long >= time.Second {
			fmt.Fprintf(w, "  %s is at work for %s\n", show(key), long.Round(time.Second))
		}
	}
	failing := slices.SortedFunc(maps.Keys(j.failing), byTime(func(k view.Key) time.Time { return j.failing[k].at }))
	slices.Reverse(failing)
	for _, key := range failing[:min(len(failing), mostShown)] {
		f := j.failing[key]
		fmt.Fprintf(w, "  %s failed %d times, last %s ago: %s\n", show(key), f.tries, now.Sub(f.at).Round(time.Second), f.err)
	}
}

func show(key view.Key) string {
	if key.Namespace == "" {
		return fmt.Sprintf("%q", key.Name)
	}
	return key.Namespace + "/" + key.Name
}
