// Package kubelettest has what tests and simulations put around a kubelet: an API server of a few lines (source and status
// manager in one), ports that succeed at once, and a rig that runs a whole kubelet on cri/fake inside a bubble.
package kubelettest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/source"
	"podo.dev/podo/internal/timeline"
)

// API stands for the API server and the status manager: it holds the pods of one node, tells a kubelet about them, and takes
// their statuses. It outlives the kubelet.
type API struct {
	Append timeline.Append

	mu       sync.Mutex
	pods     map[types.UID]*v1.Pod
	finished map[types.UID]bool
	uids     int
	rev      int
	subs     map[chan source.Change]bool
	// Statuses is how many statuses were written.
	Statuses int
}

// NewAPI returns an empty one.
func NewAPI(app timeline.Append) *API {
	return &API{Append: app, pods: map[types.UID]*v1.Pod{}, finished: map[types.UID]bool{}, subs: map[chan source.Change]bool{}}
}

// Create adds a pod, with a UID and a creation time when it has none.
func (a *API) Create(p *v1.Pod) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	p = p.DeepCopy()
	if p.UID == "" {
		a.uids++
		p.UID = types.UID(fmt.Sprintf("uid-%d", a.uids))
	}
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	if p.CreationTimestamp.IsZero() {
		p.CreationTimestamp = metav1.NewTime(time.Now())
	}
	if p.Spec.TerminationGracePeriodSeconds == nil {
		g := int64(30)
		p.Spec.TerminationGracePeriodSeconds = &g
	}
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = v1.RestartPolicyAlways
	}
	p.Generation = 1
	a.put(p, source.Add)
	return p
}

func (a *API) put(p *v1.Pod, op source.Op) {
	a.rev++
	p.ResourceVersion = strconv.Itoa(a.rev)
	a.pods[p.UID] = p
	a.send(source.Change{Source: "api", Op: op, Pod: p})
}

func (a *API) send(c source.Change) {
	for ch := range a.subs {
		ch <- c // buffered beyond what a test does at once
	}
}

// Edit changes a pod's spec or metadata.
func (a *API) Edit(name string, change func(*v1.Pod)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.named(name)
	if p == nil {
		return
	}
	p = p.DeepCopy()
	change(p)
	p.Generation++
	a.put(p, source.Update)
}

// Delete asks for the end of a pod. Grace 0 is by force: the object goes at once.
func (a *API) Delete(name string, grace int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.named(name)
	if p == nil {
		return
	}
	if grace == 0 || a.finished[p.UID] {
		a.drop(p)
		return
	}
	p = p.DeepCopy()
	now := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	p.Generation++
	a.put(p, source.Delete)
}

func (a *API) drop(p *v1.Pod) {
	delete(a.pods, p.UID)
	a.send(source.Change{Source: "api", Op: source.Remove, Pod: p})
}

func (a *API) named(name string) *v1.Pod {
	for _, p := range a.pods {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Pod is a pod by name, or nil.
func (a *API) Pod(name string) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.named(name); p != nil {
		return p.DeepCopy()
	}
	return nil
}

// Run implements kubelet.Source.
func (a *API) Run(ctx context.Context, out chan<- source.Change) error {
	ch := make(chan source.Change, 10000)
	a.mu.Lock()
	for _, p := range a.pods {
		ch <- source.Change{Source: "api", Op: source.Add, Pod: p}
	}
	ch <- source.Change{Source: "api", Op: source.Synced}
	a.subs[ch] = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.subs, ch)
		a.mu.Unlock()
	}()
	for {
		select {
		case c := <-ch:
			select {
			case out <- c:
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Report implements worker.Reporter: the status is stored at once.
func (a *API) Report(pod *v1.Pod, status v1.PodStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[pod.UID]
	if p == nil || equality.Semantic.DeepEqual(p.Status, status) {
		return
	}
	if p.Status.Phase != status.Phase {
		a.Append(timeline.New(time.Now(), timeline.RefOf(p), timeline.Phase).Move(string(p.Status.Phase), string(status.Phase)).Because(status.Reason))
	}
	was, is := ready(p.Status), ready(status)
	if was != is && (was != "" || is == v1.ConditionTrue) {
		a.Append(timeline.New(time.Now(), timeline.RefOf(p), timeline.Condition).About("Ready").Move(string(was), string(is)))
	}
	a.Statuses++
	p = p.DeepCopy()
	p.Status = status
	a.put(p, source.Reconcile)
}

func ready(s v1.PodStatus) v1.ConditionStatus {
	for _, c := range s.Conditions {
		if c.Type == v1.PodReady {
			return c.Status
		}
	}
	return ""
}

// Finished implements worker.Reporter: a pod whose deletion was asked for leaves.
func (a *API) Finished(pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finished[pod.UID] = true
	if p := a.pods[pod.UID]; p != nil && p.DeletionTimestamp != nil {
		a.Append(timeline.New(time.Now(), timeline.RefOf(p), timeline.Deleted))
		a.drop(p)
	}
}

// Refresh implements kubelet.Reporter.
func (a *API) Refresh(*v1.Pod) {}

// Forget implements kubelet.Reporter.
func (a *API) Forget(types.UID) {}
