package nodeipam

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var nodes = schema.GroupResource(client.Nodes)

// Config is what the controller needs. Events and Logger may be nil.
type Config struct {
	View   *view.View
	Client client.Client
	Ranges Ranges
	// Reserved is never given away: the range of the server's own node, which takes it when it registers.
	Reserved []netip.Prefix
	Events   record.EventRecorder
	Logger   *slog.Logger
}

// New makes the controller. It has one worker: two nodes must not be given one range.
func New(c Config) (*loop.Loop, error) {
	if err := c.Ranges.Validate(); err != nil {
		return nil, err
	}
	k := &controller{Config: c, waiting: map[string]bool{}}
	k.meter = newMeter(c.Ranges, k.used)
	return loop.New(loop.Config{
		Name: "node-ipam", View: c.View, Logger: c.Logger, Reconcile: k.reconcile,
		Start:   func(context.Context) error { clear(k.waiting); k.full = false; return nil },
		Watches: []loop.Watch{{Resource: nodes, Keys: k.keys}}, Metrics: k.meter.all(),
	})
}

type controller struct {
	Config
	meter   meter
	next    int             // where the search for a free range begins
	waiting map[string]bool // nodes for which there was no range: told once, and tried again when a node goes
	full    bool            // there was no free range, and no node has gone since: thousands of nodes need not be looked at again for each of them
}

// keys are the nodes that lack a range, and every one that waits when a node goes.
func (k *controller) keys(c view.Change) []view.Key {
	switch {
	case c.New == nil:
		k.meter.back.WithLabelValues(k.Ranges.Cluster.String()).Add(float64(len(Of(c.Old.Object.(*v1.Node)))))
		return []view.Key{{Namespace: "", Name: ""}} // a range is free again
	case len(Of(c.New.Object.(*v1.Node))) == 0 && (c.Old == nil || len(Of(c.Old.Object.(*v1.Node))) != 0):
		return []view.Key{c.New.Key}
	}
	return nil
}

func (k *controller) reconcile(ctx context.Context, now view.Snapshot, key view.Key) (loop.Result, error) {
	if key.Name != "" {
		return k.give(ctx, now, key.Name)
	}
	var res loop.Result
	k.full = false
	for e := range now.All(nodes, "", view.Key{}) {
		if !k.waiting[e.Key.Name] {
			continue
		}
		one, err := k.give(ctx, now, e.Key.Name)
		if err != nil || one.Wrote == 0 {
			return res, err
		}
		res.Wrote = max(res.Wrote, one.Wrote)
		if now, err = k.View.WaitFor(ctx, res.Wrote); err != nil {
			return res, err
		}
	}
	return res, nil
}

// give writes a free range into a node that has none.
func (k *controller) give(ctx context.Context, now view.Snapshot, name string) (res loop.Result, err error) {
	e := now.Get(nodes, "", name)
	if e == nil {
		delete(k.waiting, name)
		return res, nil
	}
	node := e.Object.(*v1.Node)
	if len(Of(node)) > 0 {
		delete(k.waiting, name)
		return res, nil
	}
	if k.full {
		k.wait(node)
		return res, nil
	}
	free, next, err := k.Ranges.Free(k.taken(now), k.next)
	if errors.Is(err, ErrFull) {
		k.full = true
		k.wait(node)
		return res, nil
	}
	obj, err := k.Client.Mutate(ctx, client.Nodes.At("", name), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Node)
		if fresh.UID != node.UID || len(Of(fresh)) > 0 {
			return false, nil
		}
		fresh.Spec.PodCIDR, fresh.Spec.PodCIDRs = free.String(), []string{free.String()}
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return res, nil
	}
	if err != nil {
		return res, err
	}
	k.meter.given.WithLabelValues(k.Ranges.Cluster.String()).Inc()
	k.meter.tries.WithLabelValues(k.Ranges.Cluster.String()).Observe(float64((next - 1 - k.next + 2*k.Ranges.count()) % k.Ranges.count()))
	k.next = next
	delete(k.waiting, name)
	return loop.Result{Wrote: loop.Revision(obj)}, nil
}

// wait has a node wait until another one goes.
func (k *controller) wait(node *v1.Node) {
	if !k.waiting[node.Name] && k.Events != nil {
		k.Events.Eventf(node, v1.EventTypeNormal, "CIDRNotAvailable", "Node %s status is now: CIDRNotAvailable", node.Name)
	}
	k.waiting[node.Name] = true
}
