package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/view"
)

// PreBinder is a framework.Reservation with work to do before its pod is bound. It may take long, runs in its own goroutine, and
// ends with ctx. An error undoes the decision.
type PreBinder interface {
	Name() string // the plug-in's
	PreBind(ctx context.Context, c client.Client) error
}

// preBinders are those of a pod's reservations, in order.
func preBinders(held []framework.Reservation) (out []PreBinder) {
	for _, h := range held {
		if p, ok := h.(PreBinder); ok {
			out = append(out, p)
		}
	}
	return out
}

// prepare does the work before the bind.
func (o *outbox) prepare(job bindJob) (err error) {
	if len(job.before) == 0 {
		return nil
	}
	defer job.ahead.cancel()
	profile, start := job.pod.Spec.SchedulerName, time.Now()
	defer func() { o.config.Metrics.point("PreBind", status(err), profile, time.Since(start)) }()
	for _, s := range job.before {
		began := time.Now()
		err := s.PreBind(job.ahead.ctx, o.config.Client)
		o.config.Metrics.plugins.WithLabelValues(s.Name(), "PreBind", status(err)).Observe(time.Since(began).Seconds())
		if err != nil {
			return fmt.Errorf("running PreBind plugin %q: %w", s.Name(), err)
		}
	}
	return job.ahead.begin()
}

// told are changes of a kind that some plug-in has asked for; err is why there will be no more.
type told struct {
	kind    schema.GroupResource
	changes []view.Change
	err     error
}

// hints passes changes of other kinds than pods and nodes on to the plug-ins that wait for them.
type hints struct {
	plugins map[schema.GroupResource][]framework.Hinting
	told    chan told
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// newHints watches from a revision on until close.
func newHints(c Config, rev int64) (*hints, error) {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hints{plugins: map[schema.GroupResource][]framework.Hinting{}, told: make(chan told), stop: cancel}
	for i := range c.Profiles.Profiles {
		for _, x := range c.Profiles.Profiles[i].Set.Relations {
			if p, ok := x.Relation.(framework.Hinting); ok {
				for _, kind := range p.Kinds() {
					if !slices.Contains(h.plugins[kind], p) {
						h.plugins[kind] = append(h.plugins[kind], p)
					}
				}
			}
		}
	}
	for kind := range h.plugins {
		if kind == pods {
			continue // pods that leave are reported once the cluster knows
		}
		w, err := c.View.Watch(kind, rev)
		if err != nil {
			h.close()
			return nil, err
		}
		h.ended.Go(func() { h.follow(ctx, kind, w) })
	}
	return h, nil
}

func (h *hints) follow(ctx context.Context, kind schema.GroupResource, w *view.Watcher) {
	for {
		changes, _, err := w.Next(ctx)
		select {
		case h.told <- told{kind, changes, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (h *hints) close() {
	h.stop()
	h.ended.Wait()
}

// eventNames are upstream's for the kinds that plug-ins hear of.
var eventNames = map[string]string{
	"persistentvolumes": "PersistentVolume", "persistentvolumeclaims": "PersistentVolumeClaim", "storageclasses": "storage.k8s.io/StorageClass",
	"csinodes": "storage.k8s.io/CSINode", "csidrivers": "storage.k8s.io/CSIDriver", "csistoragecapacities": "storage.k8s.io/CSIStorageCapacity",
	"volumeattachments": "storage.k8s.io/VolumeAttachment",
}

// heard wakes the pods that a change may help, among those that the plug-in rejected.
func (r *run) heard(t told, now time.Time) {
	defer func(began time.Time) { r.config.Metrics.took(r.event, began) }(now)
	for _, c := range t.changes {
		r.event = cmp.Or(eventNames[t.kind.Resource], t.kind.Resource) + verb(c)
		var was, is runtime.Object
		var key view.Key
		if c.Old != nil {
			was, key = c.Old.Object, c.Old.Key
		}
		if c.New != nil {
			is, key = c.New.Object, c.New.Key
		}
		why := t.kind.String() + " " + key.Name + " changed"
		r.hint(why, t.kind, was, is, now)
		r.wakeRejected(why, extended, now)
	}
}

// hint wakes the pods for which a plug-in that rejected them says that a change may help.
func (r *run) hint(why string, kind schema.GroupResource, was, is runtime.Object, now time.Time) {
	for _, p := range r.hints.plugins[kind] {
		r.queue.WakeRejected(why, p.Name(), func(i *queue.Item) bool {
			began := time.Now()
			helps := p.Helps(i.Pod.Object, kind, was, is)
			r.config.Metrics.hinted(p.Name(), r.event, helps, time.Since(began))
			return helps
		}, now)
	}
}
