package loop

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"podo.dev/podo/internal/view"
)

// informers read the changes of each resource once for all controllers of a process. A pod's change concerns one or two of the twenty
// that watch pods: to wake each of them, so that it finds that out by itself, kept those waiting who had to do with it.
type informers struct {
	mu sync.Mutex
	of map[source]*informer // those that have feeds
}

type source struct {
	view     *view.View
	resource schema.GroupResource
}

func newInformers() *informers { return &informers{of: map[source]*informer{}} }

// informer hands one resource's changes to its feeds, each change to one feed after another. It runs while it has feeds.
//
// It knows what it has told of as being there: should changes be lost, whatever of that went meanwhile must be told as gone. A snapshot that
// is newer than the changes it has told will not do, since what went in between is not in it.
type informer struct {
	source
	stop    func() // ends its goroutine and waits for it
	watcher *view.Watcher

	mu    sync.Mutex // held while changes are handed out: who joins does so between two revisions
	feeds []*feed
	ended bool

	// What was there when all was told. Of the snapshot only the resource is held: of a kind that is quiet, the newest one is as old as the
	// process, and would keep all other objects as they were then.
	last  iter.Seq[*view.Entry]
	since map[view.Key]*view.Entry // what has been told since, nil for what is gone
}

// feed puts one resource's changes into a controller's queue.
type feed struct {
	watch  Watch
	queue  workqueue.TypedRateLimitingInterface[view.Key]
	behind *behind
	failed chan<- error // takes one error without waiting: the feed gets nothing more then

	// It joined with a snapshot that may be newer than what its informer had told, and hears of nothing up to that again.
	from int64
	held iter.Seq[*view.Entry] // what was in that, until the informer has got there
}

// join tells f of all that is there now, and from then on of each change until leave is called, or f has failed.
func (all *informers) join(v *view.View, f *feed) (leave func(), err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	at := source{v, f.watch.Resource}
	in := all.of[at]
	if in == nil || in.hasEnded() {
		in = &informer{source: at}
		if err := in.begin(v.Snapshot()); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		in.stop = func() { cancel(); running.Wait() }
		all.of[at] = in
		defer running.Go(func() { all.run(ctx, in) })
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	now := v.Snapshot()
	if err := guard(func() error { f.list(now); return nil }); err != nil {
		f.failed <- err
		return func() { all.leave(in, f) }, nil
	}
	f.held = now.All(at.resource, "", view.Key{})
	in.feeds = append(in.feeds, f)
	return func() { all.leave(in, f) }, nil
}

// leave ends an informer whose last feed this is.
func (all *informers) leave(in *informer, f *feed) {
	all.mu.Lock()
	defer all.mu.Unlock()
	in.mu.Lock()
	in.feeds = slices.DeleteFunc(in.feeds, func(x *feed) bool { return x == f })
	left := len(in.feeds)
	in.mu.Unlock()
	if left > 0 {
		return
	}
	if all.of[in.source] == in {
		delete(all.of, in.source)
	}
	in.stop()
}

// run hands out changes until nobody is left; when that fails, all feeds have failed.
func (all *informers) run(ctx context.Context, in *informer) {
	err := guard(func() error { return in.follow(ctx) })
	if ctx.Err() != nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range in.feeds {
		f.failed <- err
	}
	in.feeds, in.ended = nil, true
}

func (in *informer) hasEnded() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}

// begin starts the watcher at a snapshot.
func (in *informer) begin(s view.Snapshot) (err error) {
	if in.watcher, err = in.view.Watch(in.resource, s.Rev()); err == nil {
		in.told(s)
	}
	return err
}

// told says that all of a snapshot is told, and nothing that is newer.
func (in *informer) told(s view.Snapshot) {
	in.last, in.since = s.All(in.resource, "", view.Key{}), nil
}

func (in *informer) follow(ctx context.Context) error {
	for {
		changes, rev, err := in.watcher.Next(ctx)
		switch {
		case errors.Is(err, view.ErrGone):
			err = in.again(ctx)
		case err == nil:
			in.hand(changes, rev)
		}
		if err != nil {
			return err
		}
	}
}

// hand gives changes to all feeds; rev is up to where that brings them.
func (in *informer) hand(changes []view.Change, rev int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.each(func(f *feed) { f.take(changes, rev) })
	if s := in.view.Snapshot(); s.ResourceRev(in.resource) <= rev {
		in.told(s)
		return
	}
	if in.since == nil {
		in.since = map[view.Key]*view.Entry{}
	}
	for _, c := range changes {
		if c.New != nil {
			in.since[c.New.Key] = c.New
		} else {
			in.since[c.Old.Key] = nil
		}
	}
}

// again begins anew after changes were lost.
func (in *informer) again(ctx context.Context) error {
	s, err := in.view.Fresh(ctx)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.each(func(f *feed) {
		there := in.there
		if f.held != nil {
			there = f.held
		}
		for e := range there {
			// One of the same name may be another.
			if is := s.Get(in.resource, e.Key.Namespace, e.Key.Name); is == nil || is.Meta.GetUID() != e.Meta.GetUID() {
				f.tell(view.Change{Rev: s.Rev(), Old: e})
			}
		}
		f.list(s)
	})
	return in.begin(s)
}

// each does something for every feed. One that panics has failed, and the others do not notice. in.mu is held.
func (in *informer) each(do func(*feed)) {
	in.feeds = slices.DeleteFunc(in.feeds, func(f *feed) bool {
		err := guard(func() error { do(f); return nil })
		if err != nil {
			f.failed <- err
		}
		return err != nil
	})
}

// there is what has been told as being there, and not as gone.
func (in *informer) there(yield func(*view.Entry) bool) {
	for e := range in.last {
		if _, is := in.since[e.Key]; !is && !yield(e) {
			return
		}
	}
	for _, e := range in.since {
		if e != nil && !yield(e) {
			return
		}
	}
}

// list tells of all that is there.
func (f *feed) list(s view.Snapshot) {
	f.from, f.held = s.Rev(), nil
	for e := range s.All(f.watch.Resource, "", view.Key{}) {
		f.tell(view.Change{Rev: e.Rev, New: e})
	}
}

// take tells of changes that are newer than what the feed began with.
func (f *feed) take(changes []view.Change, rev int64) {
	for _, c := range changes {
		if c.Rev > f.from {
			f.tell(c)
		}
	}
	if rev >= f.from {
		f.held = nil
	}
}

func (f *feed) tell(c view.Change) {
	for _, key := range f.watch.Keys(c) {
		f.behind.asked(key, f.watch.Resource)
		f.queue.Add(key)
	}
}
