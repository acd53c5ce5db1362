// Package loop is what controllers share: it turns the view's changes into keys, and keys into calls of a reconciler, one call
// per key at a time, again with back-off after an error. It never polls: a controller that must look again at a time says so.
//
// A reconciler reads the view, which may be older than what it wrote itself. So it tells the revision of its last write, and
// the loop waits until the view has it before that key comes again.
package loop

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"podo.dev/podo/internal/view"
)

// Result is how a reconciliation ended.
type Result struct {
	Wrote int64 // revision of its last write; 0 when it wrote nothing
	// Deleted says that it has deleted something, whose revision nobody tells: the key comes again when the view has all that is stored by now.
	Deleted bool
	Again   time.Duration // look again after this long; 0 when only a change needs another look
	Also    []view.Key    // other keys to look at
}

// Watch turns a resource's changes into keys. A change has Old nil for what was there at the start. Keys must not wait: all controllers of the
// process that watch the resource hear of its changes one after another.
type Watch struct {
	Resource schema.GroupResource
	Keys     func(c view.Change) []view.Key
}

// Config is what a Loop is made of. All but Logger and Workers are required.
type Config struct {
	Name    string
	View    *view.View
	Watches []Watch
	// Reconcile brings what the key names to where it should be. Conflicts and other errors make it come again.
	Reconcile func(ctx context.Context, now view.Snapshot, key view.Key) (Result, error)
	// ByClock says that looks which are to come Again are due at a time of day, not after so much time: they come at once when the machine's
	// clock was set (Board.ClockSet).
	ByClock bool
	// Start, when set, runs before the first key, each time Run is called.
	Start   func(ctx context.Context) error
	Workers int // default 1
	Logger  *slog.Logger
	// Metrics are the controller's own, under upstream's names. A Board shows them while the controller runs; one that starts anew counts
	// from nothing, as a process does.
	Metrics []prometheus.Collector
	// Skips, where upstream counts that of the controller, is SkippedLooks; it is shown with Metrics.
	Skips *prometheus.CounterVec
}

// Loop is a component.
type Loop struct {
	c         Config
	metrics   workqueue.MetricsProvider // nil where no Board shows it
	informers *informers                // nil where it has no Board: then it has its own
	journal   journal
	pace      pace
	behind    behind
	alarms    alarms
}

// New makes a Loop.
func New(c Config) (*Loop, error) {
	if c.Name == "" || c.View == nil || len(c.Watches) == 0 || c.Reconcile == nil {
		return nil, fmt.Errorf("controller %q: Name, View, Watches and Reconcile are required", c.Name)
	}
	if c.Workers == 0 {
		c.Workers = 1
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Skips != nil {
		c.Metrics = append(slices.Clip(c.Metrics), c.Skips)
	}
	return &Loop{c: c, behind: behind{putOff: c.Skips}}, nil
}

// Name is the component's.
func (l *Loop) Name() string { return l.c.Name }

// The back-off of a key that fails.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// Run reconciles until ctx ends.
func (l *Loop) Run(ctx context.Context, ready func()) error {
	if l.c.Start != nil {
		if err := l.c.Start(ctx); err != nil {
			return quiet(ctx, err)
		}
	}
	queue := l.newQueue()
	l.journal.open(queue.Len)
	l.alarms.open(queue.Add)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer queue.ShutDown()
	defer cancel()
	errs := make(chan error, len(l.c.Watches)+l.c.Workers)
	if _, err := l.c.View.Fresh(ctx); err != nil {
		return quiet(ctx, err)
	}
	informers := l.informers
	if informers == nil {
		informers = newInformers()
	}
	for _, w := range l.c.Watches {
		leave, err := informers.join(l.c.View, &feed{watch: w, queue: queue, behind: &l.behind, failed: errs})
		if err != nil {
			return err
		}
		defer leave()
	}
	for range l.c.Workers {
		wg.Go(func() {
			errs <- guard(func() error {
				for l.next(ctx, queue) {
				}
				return nil
			})
		})
	}
	ready()
	select {
	case <-ctx.Done():
		return nil
	case err := <-errs:
		return quiet(ctx, err)
	}
}

func (l *Loop) newQueue() workqueue.TypedRateLimitingInterface[view.Key] {
	limits, config := workqueue.NewTypedItemExponentialFailureRateLimiter[view.Key](firstRetry, lastRetry), workqueue.TypedRateLimitingQueueConfig[view.Key]{}
	config.Clock = unhurried{}
	if l.metrics != nil {
		config.Name, config.MetricsProvider = cmp.Or(queues[l.c.Name], l.c.Name), l.metrics
	}
	return workqueue.NewTypedRateLimitingQueueWithConfig(limits, config)
}

// unhurried is the real clock, but for how often it ticks. A queue that is measured looks twice a second at how long its work has been going on,
// which would wake a quiet process for each of its controllers; whoever reads metrics does it less often than this.
type unhurried struct{ clock.RealClock }

const gaugesEvery = 10 * time.Second

func (c unhurried) NewTicker(d time.Duration) clock.Ticker {
	return c.RealClock.NewTicker(max(d, gaugesEvery))
}

// guard makes an error of a panic, so that the supervisor hears of it whatever goroutine it was in.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (l *Loop) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[view.Key]) bool {
	key, stop := queue.Get()
	if stop {
		return false
	}
	defer queue.Done(key)
	began := time.Now()
	if wait := l.pace.wait(key, began); wait > 0 {
		queue.AddAfter(key, wait)
		return true
	}
	l.journal.begin(key, began)
	rang := l.alarms.off(key)
	res, err := l.c.Reconcile(ctx, l.c.View.Snapshot(), key)
	if ctx.Err() != nil {
		return false
	}
	l.journal.end(key, err, time.Now())
	if res.Wrote > 0 {
		l.pace.wrote(key, began)
	}
	if werr := l.seeOwn(ctx, key, res); ctx.Err() != nil {
		return false
	} else if err == nil {
		err = werr
	}
	for _, other := range res.Also {
		queue.Add(other)
	}
	if err != nil {
		// A conflict says that somebody was faster: nothing to tell anyone.
		if !apierrors.IsConflict(err) {
			l.c.Logger.Warn("controller will try again", "controller", l.c.Name, "key", key.Namespace+"/"+key.Name, "error", err)
		}
		queue.AddRateLimited(key)
		return true
	}
	queue.Forget(key)
	switch {
	case res.Again <= 0:
	case l.c.ByClock && !l.alarms.on(key, rang):
		queue.Add(key)
	default:
		queue.AddAfter(key, res.Again)
	}
	return true
}

// seeOwn waits until the view has what the controller has written and deleted.
func (l *Loop) seeOwn(ctx context.Context, key view.Key, res Result) error {
	l.behind.begin(key)
	defer l.behind.end(key)
	if _, err := l.c.View.WaitFor(ctx, res.Wrote); err != nil {
		return err
	}
	if !res.Deleted {
		return nil
	}
	_, err := l.c.View.Fresh(ctx)
	return err
}

// Revision is an object's resourceVersion as a number, 0 for nil.
func Revision(obj runtime.Object) int64 {
	if obj == nil {
		return 0
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return 0
	}
	rev, _ := strconv.ParseInt(m.GetResourceVersion(), 10, 64)
	return rev
}
