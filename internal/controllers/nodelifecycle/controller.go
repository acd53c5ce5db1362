package nodelifecycle

import (
	"context"
	"log/slog"
	"sync"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	nodes  = schema.GroupResource(client.Nodes)
	leases = schema.GroupResource(client.Leases)
)

// New makes the controller. events and log may be nil.
func New(v *view.View, c client.Client, grace time.Duration, events record.EventRecorder, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{client: c, events: events, grace: grace, signs: map[string]Sign{}}
	return loop.New(loop.Config{
		Name: "node-lifecycle", View: v, Reconcile: k.reconcile, Workers: 4, Logger: log,
		Start: func(context.Context) error { k.forget(); return nil },
		Watches: []loop.Watch{
			{Resource: nodes, Keys: func(c view.Change) []view.Key { return []view.Key{of(c).Key} }},
			{Resource: leases, Keys: func(c view.Change) []view.Key {
				if e := of(c); e.Key.Namespace == v1.NamespaceNodeLease {
					return []view.Key{{Name: e.Key.Name}}
				}
				return nil
			}},
		},
	})
}

func of(c view.Change) *view.Entry {
	if c.New != nil {
		return c.New
	}
	return c.Old
}

type controller struct {
	client client.Client
	events record.EventRecorder
	grace  time.Duration

	mu    sync.Mutex
	signs map[string]Sign // by node
}

// forget makes every kubelet's grace begin anew: while nobody watched, nobody can have fallen silent.
func (k *controller) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.signs)
}

func (k *controller) observe(node *v1.Node, lease *view.Entry, now time.Time) Sign {
	k.mu.Lock()
	defer k.mu.Unlock()
	var renewed *metav1.MicroTime
	if lease != nil {
		renewed = lease.Object.(*coordv1.Lease).Spec.RenewTime
	}
	s := k.signs[node.Name].Observe(node, renewed, now)
	k.signs[node.Name] = s
	return s
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	e := s.Get(nodes, "", key.Name)
	if e == nil {
		k.mu.Lock()
		delete(k.signs, key.Name)
		k.mu.Unlock()
		return res, nil
	}
	node, now := e.Object.(*v1.Node), time.Now()
	sign := k.observe(node, s.Get(leases, v1.NamespaceNodeLease, key.Name), now)
	p := Decide(node, sign, k.grace, now)
	res.Again = p.Again
	if p.Conditions != nil {
		obj, err := k.client.Mutate(ctx, client.Nodes.At("", node.Name).Sub("status"), func(o runtime.Object) (bool, error) {
			fresh := o.(*v1.Node)
			again := Decide(fresh, sign, k.grace, now)
			fresh.Status.Conditions = merge(fresh.Status.Conditions, again.Conditions)
			return again.Conditions != nil && fresh.UID == node.UID, nil
		})
		if apierrors.IsNotFound(err) {
			return res, nil
		}
		if err != nil {
			return res, err
		}
		res.Wrote = loop.Revision(obj)
		if p.LostReady && k.events != nil {
			k.events.Eventf(node, v1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", node.Name)
		}
	}
	if !p.SetTaints {
		return res, nil
	}
	obj, err := k.client.Mutate(ctx, client.Nodes.At("", node.Name), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Node)
		again := Decide(fresh, sign, k.grace, now)
		fresh.Spec.Taints = again.Taints
		return again.SetTaints && fresh.UID == node.UID, nil
	})
	if apierrors.IsNotFound(err) {
		return res, nil
	}
	res.Wrote = max(res.Wrote, loop.Revision(obj))
	return res, err
}
