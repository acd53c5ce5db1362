package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/client"
)

// fakeAPI keeps objects by resource and name, counts writes by resource, and fails while down is set.
type fakeAPI struct {
	client.Client
	mu     sync.Mutex
	rev    int
	objs   map[string]runtime.Object
	writes map[string]int
	down   error
}

func newAPI() *fakeAPI { return &fakeAPI{objs: map[string]runtime.Object{}, writes: map[string]int{}} }

func key(r client.Ref) string { return r.Resource.Resource + "/" + r.Name }

func (a *fakeAPI) store(r client.Ref, o runtime.Object) runtime.Object {
	a.rev++
	o = o.DeepCopyObject()
	m, _ := meta.Accessor(o)
	m.SetResourceVersion(fmt.Sprint(a.rev))
	if m.GetUID() == "" {
		m.SetUID(types.UID(fmt.Sprint("uid-", a.rev)))
	}
	a.objs[key(r)] = o
	a.writes[strings.TrimSuffix(r.Resource.Resource+"/"+r.Subresource, "/")]++
	return o.DeepCopyObject()
}

func (a *fakeAPI) Get(_ context.Context, r client.Ref) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down != nil {
		return nil, a.down
	}
	if o := a.objs[key(r)]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(r.Resource, r.Name)
}

func (a *fakeAPI) Create(_ context.Context, r client.Ref, o runtime.Object) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down != nil {
		return nil, a.down
	}
	if a.objs[key(r)] != nil {
		return nil, apierrors.NewAlreadyExists(r.Resource, r.Name)
	}
	return a.store(r, o), nil
}

func (a *fakeAPI) Update(_ context.Context, r client.Ref, o runtime.Object) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have := a.objs[key(r)]
	switch {
	case a.down != nil:
		return nil, a.down
	case have == nil:
		return nil, apierrors.NewNotFound(r.Resource, r.Name)
	}
	h, _ := meta.Accessor(have)
	if m, _ := meta.Accessor(o); m.GetResourceVersion() != h.GetResourceVersion() {
		return nil, apierrors.NewConflict(r.Resource, r.Name, errors.New("changed"))
	}
	return a.store(r, o), nil
}

func (a *fakeAPI) Mutate(_ context.Context, r client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have := a.objs[key(r)]
	switch {
	case a.down != nil:
		return nil, a.down
	case have == nil:
		return nil, apierrors.NewNotFound(r.Resource, r.Name)
	}
	o := have.DeepCopyObject()
	if ok, err := change(o); err != nil || !ok {
		return o, err
	}
	return a.store(r, o), nil
}

func (a *fakeAPI) setDown(err error) { a.mu.Lock(); defer a.mu.Unlock(); a.down = err }

func (a *fakeAPI) count(kind string) int { a.mu.Lock(); defer a.mu.Unlock(); return a.writes[kind] }

func (a *fakeAPI) node() *v1.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, _ := a.objs["nodes/n1"].(*v1.Node)
	return n
}

// fakeRuntime answers what the test set.
type fakeRuntime struct {
	mu     sync.Mutex
	err    error
	net    bool
	images []*runtimev1.Image
	asked  int
}

func (f *fakeRuntime) set(change func(f *fakeRuntime)) { f.mu.Lock(); defer f.mu.Unlock(); change(f) }

func (f *fakeRuntime) Version(context.Context) (*runtimev1.VersionResponse, error) {
	return &runtimev1.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.4.2"}, nil
}

func (f *fakeRuntime) Status(context.Context) (*runtimev1.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.err != nil {
		return nil, f.err
	}
	net := &runtimev1.RuntimeCondition{Type: runtimev1.NetworkReady, Status: f.net}
	if !f.net {
		net.Reason, net.Message = "NetworkPluginNotReady", "Network plugin returns error: cni plugin not initialized"
	}
	return &runtimev1.StatusResponse{
		Status:          &runtimev1.RuntimeStatus{Conditions: []*runtimev1.RuntimeCondition{{Type: runtimev1.RuntimeReady, Status: true}, net}},
		RuntimeHandlers: []*runtimev1.RuntimeHandler{{Name: "runc", Features: &runtimev1.RuntimeHandlerFeatures{UserNamespaces: true}}, {Name: ""}},
		Features:        &runtimev1.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}, nil
}

func (f *fakeRuntime) ListImages(context.Context) ([]*runtimev1.Image, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.images, f.err
}

func (f *fakeRuntime) count() int { f.mu.Lock(); defer f.mu.Unlock(); return f.asked }
