package status

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
)

// fakeAPI keeps pods as the API server would: a write bumps the version, a call takes latency, and fails while down is set.
type fakeAPI struct {
	client.Client
	latency time.Duration

	mu      sync.Mutex
	pods    map[string]*v1.Pod
	down    error
	writes  int
	calls   int
	active  map[string]int
	overlap bool // two calls for one pod at once
	most    int  // calls at once
	deletes []types.UID
	onWrite func(*v1.Pod)
}

func newAPI(pods ...*v1.Pod) *fakeAPI {
	a := &fakeAPI{pods: map[string]*v1.Pod{}, active: map[string]int{}}
	for _, p := range pods {
		a.pods[p.Name] = p.DeepCopy()
	}
	return a
}

func (a *fakeAPI) enter(name string) (leave func()) {
	a.mu.Lock()
	a.calls++
	a.active[name]++
	a.overlap = a.overlap || a.active[name] > 1
	total := 0
	for _, n := range a.active {
		total += n
	}
	a.most = max(a.most, total)
	a.mu.Unlock()
	time.Sleep(a.latency) // fake time: a bubble's clock
	a.mu.Lock()
	return func() { a.active[name]--; a.mu.Unlock() }
}

func (a *fakeAPI) Mutate(_ context.Context, ref client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	defer a.enter(ref.Name)()
	if a.down != nil {
		return nil, a.down
	}
	p := a.pods[ref.Name]
	if p == nil {
		return nil, apierrors.NewNotFound(ref.Resource, ref.Name)
	}
	p = p.DeepCopy()
	ok, err := change(p)
	if err != nil || !ok {
		return p, err
	}
	a.writes++
	a.pods[ref.Name] = p
	if a.onWrite != nil {
		a.onWrite(p)
	}
	return p, nil
}

func (a *fakeAPI) Delete(_ context.Context, ref client.Ref, o metav1.DeleteOptions) error {
	defer a.enter(ref.Name)()
	if a.down != nil {
		return a.down
	}
	p := a.pods[ref.Name]
	if p == nil {
		return apierrors.NewNotFound(ref.Resource, ref.Name)
	}
	if o.Preconditions == nil || o.Preconditions.UID == nil || *o.Preconditions.UID != p.UID || *o.GracePeriodSeconds != 0 {
		return apierrors.NewConflict(ref.Resource, ref.Name, nil)
	}
	delete(a.pods, ref.Name)
	a.deletes = append(a.deletes, p.UID)
	return nil
}

func (a *fakeAPI) pod(name string) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[name]
}
