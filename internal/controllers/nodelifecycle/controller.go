package nodelifecycle

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/node/topology"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	nodes  = schema.GroupResource(client.Nodes)
	leases = schema.GroupResource(client.Leases)
	pods   = schema.GroupResource(client.Pods)
)

// excluded is the label of nodes that do not count when a zone is judged.
const excluded = "node.kubernetes.io/exclude-disruption"

// together is how long a node's pods are not given up after it was lost: nodes that are cut off at one moment are found out one by one.
const together = time.Second

// New makes the controller. Its keys are nodes, by name alone, and pods. events and log may be nil.
func New(v *view.View, c client.Client, grace time.Duration, events record.EventRecorder, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{client: c, events: events, grace: grace}
	k.meter = newMeter(func(each func(zone string, ready, unready int)) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.zones.Each(each)
	})
	k.forget()
	return loop.New(loop.Config{
		Name: "node-lifecycle", View: v, Reconcile: k.reconcile, Workers: 4, Logger: log, Metrics: []prometheus.Collector{k.meter},
		Start: func(context.Context) error { k.forget(); return nil },
		Watches: []loop.Watch{
			{Resource: nodes, Keys: k.nodeKeys},
			{Resource: pods, Keys: podKeys},
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
	meter  *meter

	mu    sync.Mutex
	signs map[string]Sign // by node
	known map[string]types.UID
	zones *Zones
	lost  map[string]time.Time // nodes that are not ready, since when
}

// forget makes every kubelet's grace begin anew: while nobody watched, nobody can have fallen silent.
func (k *controller) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.signs, k.known, k.zones, k.lost = map[string]Sign{}, map[string]types.UID{}, NewZones(), map[string]time.Time{}
}

// forgive is forget while the store does not answer: whoever cannot renew a lease is not lost for that.
func (k *controller) forgive() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.signs)
}

// nodeKeys names the node, and all that are not ready when its change changes how fast they are given up.
func (k *controller) nodeKeys(c view.Change) []view.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	keys, now := []view.Key{of(c).Key}, time.Now()
	wasLost, changed := k.zones.Lost(), false
	if c.New == nil {
		delete(k.lost, c.Old.Key.Name)
		changed = k.zones.Drop(c.Old.Key.Name, now)
	} else {
		node := c.New.Object.(*v1.Node)
		ready := condition(node, v1.NodeReady)
		is := ready != nil && ready.Status == v1.ConditionTrue
		if _, out := node.Labels[excluded]; out {
			changed = k.zones.Drop(node.Name, now)
		} else {
			changed = k.zones.Set(node.Name, topology.GetZoneKey(node), is, now)
		}
		if _, had := k.lost[node.Name]; is {
			delete(k.lost, node.Name)
		} else if !had {
			k.lost[node.Name] = now
		}
	}
	if wasLost && !k.zones.Lost() {
		clear(k.signs) // we were cut off: everybody is given time to speak
	}
	if changed {
		for _, name := range k.zones.Unready() {
			keys = append(keys, view.Key{Name: name})
		}
	}
	return keys
}

func (k *controller) observe(node *v1.Node, lease *view.Entry, now time.Time) (sign Sign, grace time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var renewed *metav1.MicroTime
	grace = k.grace
	if lease != nil {
		spec := &lease.Object.(*coordv1.Lease).Spec
		renewed, grace = spec.RenewTime, Grace(grace, spec.LeaseDurationSeconds)
	}
	s := k.signs[node.Name].Observe(node, renewed, now)
	k.signs[node.Name] = s
	return s, grace
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	if key.Namespace != "" {
		return k.pod(ctx, s, key)
	}
	e := s.Get(nodes, "", key.Name)
	if e == nil {
		k.gone(key.Name)
		return res, nil
	}
	node, now := e.Object.(*v1.Node), time.Now()
	defer func() { k.meter.took.Observe(time.Since(now).Seconds()) }()
	k.met(node)
	sign, grace := k.observe(node, s.Get(leases, v1.NamespaceNodeLease, key.Name), now)
	p := Decide(node, sign, grace, k.execute(), now)
	res.Again = p.Again
	if p.Conditions != nil {
		if alive, err := k.stillRenews(ctx, node.Name, sign); err != nil || alive {
			return loop.Result{Again: time.Second}, err
		}
		obj, err := k.client.Mutate(ctx, client.Nodes.At("", node.Name).Sub("status"), func(o runtime.Object) (bool, error) {
			fresh := o.(*v1.Node)
			again := Decide(fresh, sign, grace, Hold, now)
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
		if p.LostReady {
			k.tell(node, v1.EventTypeNormal, "NodeNotReady", "Node "+node.Name+" status is now: NodeNotReady")
		}
	}
	if p.Lost {
		wrote, err := k.markPods(ctx, s, node)
		if res.Wrote = max(res.Wrote, wrote); err != nil {
			return res, err
		}
	}
	return k.taint(ctx, node, p, sign, grace, res)
}

// taint carries out what a plan says of the object's taints and labels.
func (k *controller) taint(ctx context.Context, node *v1.Node, p Plan, sign Sign, grace time.Duration, res loop.Result) (loop.Result, error) {
	execute, now, turn := k.execute(), time.Now(), false
	if p.Held && p.Conditions == nil { // else the change brings the node back, and then it is counted
		may, wait := k.turn(node.Name, now)
		if may {
			execute, p.SetTaints, turn = Allow, true, true
		} else if wait > 0 && (res.Again == 0 || wait < res.Again) {
			res.Again = wait
		}
	}
	if !p.SetTaints && p.Labels == nil {
		return res, nil
	}
	obj, err := k.client.Mutate(ctx, client.Nodes.At("", node.Name), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Node)
		again := Decide(fresh, sign, grace, execute, now)
		fresh.Spec.Taints = again.Taints
		for name, value := range again.Labels {
			fresh.Labels[name] = value
		}
		return (again.SetTaints || again.Labels != nil) && fresh.UID == node.UID, nil
	})
	if apierrors.IsNotFound(err) {
		return res, nil
	}
	res.Wrote = max(res.Wrote, loop.Revision(obj))
	if turn && err == nil {
		k.meter.givenUp.WithLabelValues(topology.GetZoneKey(node)).Inc()
	}
	return res, err
}

// execute says what becomes of taints that end pods, for who has no turn.
func (k *controller) execute() Execute {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.zones.Lost() {
		return Forgive
	}
	return Hold
}

// turn asks for a node's turn to be given up, and says when to ask again.
func (k *controller) turn(node string, now time.Time) (bool, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if since, ok := k.lost[node]; ok {
		if left := together - now.Sub(since); left > 0 {
			return false, left
		}
	}
	return k.zones.GiveUp(node, now)
}

// stillRenews looks in the store itself before a node is lost: the view may be behind. While the store does not answer, nobody is.
func (k *controller) stillRenews(ctx context.Context, node string, sign Sign) (bool, error) {
	obj, err := k.client.Get(ctx, client.Leases.At(v1.NamespaceNodeLease, node))
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		k.forgive()
		return false, err
	}
	renewed := obj.(*coordv1.Lease).Spec.RenewTime
	return renewed != nil && !renewed.Equal(&sign.Lease), nil
}

// met tells of a node that is new to this controller, and gone of one that is deleted.
func (k *controller) met(node *v1.Node) {
	k.mu.Lock()
	known := k.known[node.Name] == node.UID
	k.known[node.Name] = node.UID
	k.mu.Unlock()
	if !known {
		k.tell(node, v1.EventTypeNormal, "RegisteredNode", "Node "+node.Name+" event: Registered Node "+node.Name+" in Controller")
	}
}

func (k *controller) gone(name string) {
	k.mu.Lock()
	uid, known := k.known[name]
	delete(k.known, name)
	delete(k.signs, name)
	k.mu.Unlock()
	if known {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
		k.tell(node, v1.EventTypeNormal, "RemovingNode", "Node "+name+" event: Removing Node "+name+" from Controller")
	}
}

func (k *controller) tell(node *v1.Node, kind, reason, text string) {
	if k.events != nil {
		k.events.Event(&v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}, kind, reason, text)
	}
}
