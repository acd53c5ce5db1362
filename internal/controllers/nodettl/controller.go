package nodettl

import (
	"context"
	"log/slog"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var nodes = schema.GroupResource(client.Nodes)

type controller struct {
	view   *view.View
	client client.Client

	mu   sync.Mutex
	step int
}

// New makes the controller. log may be nil.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{view: v, client: c}
	return loop.New(loop.Config{
		Name: "node-ttl", View: v, Reconcile: k.reconcile, Workers: 2, Logger: log,
		Watches: []loop.Watch{{Resource: nodes, Keys: k.keys}},
	})
}

// keys is the node that came or was changed. The others are told of another step when they next say something of themselves, as upstream has
// it: written all at once, thousands of nodes would be minutes of work for nothing that anybody waits for.
func (k *controller) keys(c view.Change) []view.Key {
	if c.Old == nil || c.New == nil {
		n := k.view.Snapshot().Len(nodes)
		k.mu.Lock()
		k.step = Step(k.step, n)
		k.mu.Unlock()
	}
	if c.New == nil {
		return nil
	}
	return []view.Key{c.New.Key}
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	e := s.Get(nodes, "", key.Name)
	if e == nil {
		return res, nil
	}
	k.mu.Lock()
	want := strconv.Itoa(Seconds(k.step))
	k.mu.Unlock()
	if has, ok := e.Object.(*v1.Node).Annotations[v1.ObjectTTLAnnotationKey]; ok && has == want {
		return res, nil
	}
	obj, err := k.client.Mutate(ctx, client.Nodes.At("", key.Name), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Node)
		if fresh.Annotations == nil {
			fresh.Annotations = map[string]string{}
		}
		fresh.Annotations[v1.ObjectTTLAnnotationKey] = want
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return res, nil
	}
	res.Wrote = loop.Revision(obj)
	return res, err
}
