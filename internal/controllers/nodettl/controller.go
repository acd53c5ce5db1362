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

// keys are the node that came or was changed, and all of them when their number has come to another step.
func (k *controller) keys(c view.Change) (out []view.Key) {
	if c.New != nil {
		out = append(out, c.New.Key)
	}
	if c.Old != nil && c.New != nil {
		return out
	}
	s := k.view.Snapshot()
	k.mu.Lock()
	was := k.step
	k.step = Step(was, s.Len(nodes))
	changed := k.step != was
	k.mu.Unlock()
	if changed {
		for e := range s.All(nodes, "", view.Key{}) {
			out = append(out, e.Key)
		}
	}
	return out
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
