package replicas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

const workers = 5

var pods = schema.GroupResource(client.Pods)

// Kind is how a kind of controller object is read and reported on.
type Kind struct {
	Resource client.Resource
	GVK      schema.GroupVersionKind
	Name     string // of the component, and of the events' source
	// Read says what an object asks for; ok is false when nothing can be done about it (a selector that cannot be read).
	Read func(obj runtime.Object) (Wanted, bool)
	// Report writes what there is into an object's status, and, when failure is not nil, what kept pods from being created or
	// deleted; false says that nothing changed.
	Report func(obj runtime.Object, c Counts, failure *Failure, now time.Time) bool
}

// Failure is why pods could not be created or deleted.
type Failure struct{ Reason, Message string }

// Config is what a controller is made of. All but Logger are required.
type Config struct {
	Kind   Kind
	View   *view.View
	Client client.Client
	Events record.EventRecorder
	Logger *slog.Logger
}

type controller struct{ Config }

// New makes the controller of one kind. Its keys are objects of the kind.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil || c.Events == nil || c.Kind.Read == nil || c.Kind.Report == nil {
		return nil, errors.New("replicas: Kind, View, Client and Events are required")
	}
	k := &controller{c}
	return loop.New(loop.Config{
		Name: c.Kind.Name, View: c.View, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger,
		Watches: []loop.Watch{
			{Resource: schema.GroupResource(c.Kind.Resource), Keys: loop.Itself},
			{Resource: pods, Keys: k.podKeys},
		},
	})
}

// podKeys: whose the pod was and is; of one that nobody controls, everybody who might take it.
func (k *controller) podKeys(c view.Change) (out []view.Key) {
	for _, e := range []*view.Entry{c.Old, c.New} {
		if e == nil {
			continue
		}
		if ref := metav1.GetControllerOfNoCopy(e.Meta); ref != nil {
			if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group == k.Kind.GVK.Group && ref.Kind == k.Kind.GVK.Kind {
				out = append(out, view.Key{Namespace: e.Key.Namespace, Name: ref.Name})
			}
			continue
		}
		if e != c.New || c.Old != nil && sameFor(c.Old.Meta, e.Meta) {
			continue
		}
		for o := range k.View.Snapshot().All(schema.GroupResource(k.Kind.Resource), e.Key.Namespace, view.Key{}) {
			if w, ok := k.Kind.Read(o.Object); ok && w.Selector.Matches(labels.Set(e.Meta.GetLabels())) {
				out = append(out, o.Key)
			}
		}
	}
	return out
}

// sameFor says that whoever did not take the pod before it changed will not now either.
func sameFor(old, now metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(old) == nil && maps.Equal(old.GetLabels(), now.GetLabels())
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(schema.GroupResource(k.Kind.Resource), key.Namespace, key.Name)
	if e == nil {
		return loop.Result{}, nil
	}
	w, ok := k.Kind.Read(e.Object)
	if !ok {
		return loop.Result{}, nil
	}
	plan := Decide(w, candidates(s, w.Meta), k.siblings(s, w), time.Now())
	rev, failure, err := k.apply(ctx, e.Object, w, plan)
	if failure == nil && err != nil {
		return loop.Result{Wrote: rev}, err
	}
	obj, serr := k.Client.Mutate(ctx, k.Kind.Resource.At(key.Namespace, key.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		return k.Kind.Report(o, plan.Counts, failure, time.Now()), nil
	})
	switch {
	case apierrors.IsNotFound(serr):
		return loop.Result{}, nil
	case serr != nil:
		return loop.Result{Wrote: rev}, errors.Join(err, serr)
	}
	return loop.Result{Wrote: max(rev, loop.Revision(obj)), Again: plan.Again}, err
}

// candidates are the pods that an object controls and those of its namespace that nobody does.
func candidates(s view.Snapshot, m metav1.Object) (out []*v1.Pod) {
	for e := range s.By(pods, registry.ControllerIndex, string(m.GetUID())) {
		out = append(out, e.Object.(*v1.Pod))
	}
	for e := range s.By(pods, registry.ControllerIndex, registry.Uncontrolled(m.GetNamespace())) {
		out = append(out, e.Object.(*v1.Pod))
	}
	return out
}

// siblings are the pods of the other objects that the same owner has: those of a Deployment's other revisions.
func (k *controller) siblings(s view.Snapshot, w Wanted) (out []*v1.Pod) {
	if w.Owner == "" {
		return nil
	}
	for o := range s.By(schema.GroupResource(k.Kind.Resource), registry.ControllerIndex, string(w.Owner)) {
		if o.Meta.GetUID() == w.Meta.GetUID() {
			continue
		}
		for e := range s.By(pods, registry.ControllerIndex, string(o.Meta.GetUID())) {
			out = append(out, e.Object.(*v1.Pod))
		}
	}
	return out
}

// apply does what the plan says and returns the revision of its last write. failure is what users are told in the status; err makes
// the key come again.
func (k *controller) apply(ctx context.Context, obj runtime.Object, w Wanted, p Plan) (rev int64, failure *Failure, err error) {
	var mu sync.Mutex
	wrote := func(o runtime.Object) {
		mu.Lock()
		defer mu.Unlock()
		rev = max(rev, loop.Revision(o))
	}
	for _, pod := range p.Release {
		out, err := k.own(ctx, pod, func(m *v1.Pod) bool { return release(m, w.Meta.GetUID()) })
		if err != nil {
			return rev, nil, err
		}
		wrote(out)
	}
	for _, pod := range p.Adopt {
		out, err := k.own(ctx, pod, func(m *v1.Pod) bool { return k.adopt(m, w.Meta) })
		if err != nil {
			return rev, nil, err
		}
		wrote(out)
	}
	if p.Create > 0 {
		if err := slowly(p.Create, func() error {
			out, err := k.create(ctx, obj, w)
			wrote(out)
			return err
		}); err != nil {
			return rev, &Failure{"FailedCreate", err.Error()}, err
		}
	}
	if len(p.Delete) > 0 {
		var i int
		if err := slowly(len(p.Delete), func() error {
			mu.Lock()
			pod := p.Delete[i]
			i++
			mu.Unlock()
			return k.remove(ctx, obj, pod)
		}); err != nil {
			return rev, &Failure{"FailedDelete", err.Error()}, err
		}
	}
	return rev, nil, nil
}

// own changes whose a pod is.
func (k *controller) own(ctx context.Context, pod *v1.Pod, change func(*v1.Pod) bool) (runtime.Object, error) {
	out, err := k.Client.Mutate(ctx, client.Pods.At(pod.Namespace, pod.Name), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Pod)
		return fresh.UID == pod.UID && change(fresh), nil
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return out, err
}

func (k *controller) adopt(pod *v1.Pod, m metav1.Object) bool {
	if metav1.GetControllerOf(pod) != nil || pod.DeletionTimestamp != nil {
		return false
	}
	pod.OwnerReferences = append(pod.OwnerReferences, *metav1.NewControllerRef(m, k.Kind.GVK))
	return true
}

func release(pod *v1.Pod, owner types.UID) bool {
	for i, ref := range pod.OwnerReferences {
		if ref.UID == owner {
			pod.OwnerReferences = append(pod.OwnerReferences[:i:i], pod.OwnerReferences[i+1:]...)
			return true
		}
	}
	return false
}

func (k *controller) create(ctx context.Context, obj runtime.Object, w Wanted) (runtime.Object, error) {
	t := w.Template.DeepCopy()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Meta.GetNamespace(), GenerateName: prefix(w.Meta.GetName()), Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.Meta, k.Kind.GVK)},
		},
		Spec: t.Spec,
	}
	out, err := k.Client.Create(ctx, client.Pods.At(pod.Namespace, ""), pod)
	if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
		return nil, nil // everything here is on its way out: nothing to tell anybody
	}
	if err != nil {
		k.Events.Eventf(obj, v1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return nil, err
	}
	k.Events.Eventf(obj, v1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", out.(*v1.Pod).Name)
	return out, nil
}

// prefix of a pod's name: without a dash when the name with one would be no name.
func prefix(name string) string {
	p := name + "-"
	if len(apivalidation.NameIsDNSSubdomain(p, true)) > 0 {
		return name
	}
	return p
}

func (k *controller) remove(ctx context.Context, obj runtime.Object, pod *v1.Pod) error {
	err := k.Client.Delete(ctx, client.Pods.At(pod.Namespace, pod.Name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		k.Events.Eventf(obj, v1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return err
	}
	k.Events.Eventf(obj, v1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
	return nil
}

// slowly does one thing n times: once, then twice as many at a time as before, until one fails. What cannot work, a quota used up,
// so costs one try and not hundreds.
func slowly(n int, do func() error) error {
	for batch := 1; n > 0; batch *= 2 {
		size := min(batch, n)
		errs := make(chan error, size)
		for range size {
			go func() {
				defer func() {
					if p := recover(); p != nil {
						errs <- fmt.Errorf("panic: %v", p)
					}
				}()
				errs <- do()
			}()
		}
		var failed error
		for range size {
			if err := <-errs; err != nil && failed == nil {
				failed = err
			}
		}
		if failed != nil {
			return failed
		}
		n -= size
	}
	return nil
}
