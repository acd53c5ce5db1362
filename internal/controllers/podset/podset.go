// Package podset is what controllers of pods share: which pods are an object's, taking them and letting them go, and creating many
// without creating many in vain.
package podset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	"podo.dev/podo/internal/controllers/owning"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var pods = schema.GroupResource(client.Pods)

// Kind is a kind of objects that keep pods.
type Kind struct {
	Resource client.Resource
	GVK      schema.GroupVersionKind
	// Selector is which pods an object may take; false when that cannot be read.
	Selector func(obj runtime.Object) (labels.Selector, bool)
	// Finalizer, when set, is on every pod of an object: one that is taken gets it, one that is let go loses it.
	Finalizer string
}

// Watches are the changes of the objects and of their pods.
func (k Kind) Watches(v *view.View) []loop.Watch {
	return []loop.Watch{
		{Resource: schema.GroupResource(k.Resource), Keys: loop.Itself},
		{Resource: pods, Keys: func(c view.Change) []view.Key { return k.keys(v, c) }},
	}
}

// keys: whose the pod was and is; of one that nobody controls, everybody who might take it.
func (k Kind) keys(v *view.View, c view.Change) (out []view.Key) {
	for _, e := range []*view.Entry{c.Old, c.New} {
		if e == nil {
			continue
		}
		if ref := metav1.GetControllerOfNoCopy(e.Meta); ref != nil {
			if k.names(ref) {
				out = append(out, view.Key{Namespace: e.Key.Namespace, Name: ref.Name})
			}
			continue
		}
		if e != c.New || c.Old != nil && sameFor(c.Old.Meta, e.Meta) {
			continue
		}
		for o := range v.Snapshot().All(schema.GroupResource(k.Resource), e.Key.Namespace, view.Key{}) {
			if s, ok := k.Selector(o.Object); ok && s.Matches(labels.Set(e.Meta.GetLabels())) {
				out = append(out, o.Key)
			}
		}
	}
	return out
}

func (k Kind) names(ref *metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == k.GVK.Group && ref.Kind == k.GVK.Kind
}

// sameFor says that whoever did not take the pod before it changed will not now either.
func sameFor(old, now metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(old) == nil && maps.Equal(old.GetLabels(), now.GetLabels())
}

// Candidates are the pods that an object controls and those of its namespace that nobody does.
func Candidates(s view.Snapshot, m metav1.Object) (out []*v1.Pod) {
	for _, key := range []string{string(m.GetUID()), registry.Uncontrolled(m.GetNamespace())} {
		for e := range s.By(pods, registry.ControllerIndex, key) {
			out = append(out, e.Object.(*v1.Pod))
		}
	}
	return out
}

// Ending says that a namespace is being deleted: nothing can be made in it any more, and whatever is missing there stays so. Whoever
// tried nevertheless would try as often as one of its pods goes.
func Ending(s view.Snapshot, namespace string) bool {
	e := s.Get(schema.GroupResource(client.Namespaces), "", namespace)
	return e != nil && e.Meta.GetDeletionTimestamp() != nil
}

// Claim says of candidates which are the object's, which of those it takes now, and which it lets go. An object that is being deleted
// does neither.
func Claim(m metav1.Object, matches func(*v1.Pod) bool, candidates []*v1.Pod) (mine, adopt, release []*v1.Pod) {
	deleting := m.GetDeletionTimestamp() != nil
	for _, pod := range candidates {
		ref := metav1.GetControllerOfNoCopy(pod)
		switch {
		case ref != nil && ref.UID != m.GetUID():
		case ref != nil && matches(pod):
			mine = append(mine, pod)
		case ref != nil:
			if !deleting {
				release = append(release, pod)
			}
		case matches(pod) && !deleting && pod.DeletionTimestamp == nil:
			mine, adopt = append(mine, pod), append(adopt, pod)
		}
	}
	return mine, adopt, release
}

// Settle takes and lets go of pods, and returns the revision of the last write. It is a conflict when somebody was faster with one of them: whose the
// pod is by then is known to the view after that revision, and nothing else need happen that would have the object looked at again.
func (k Kind) Settle(ctx context.Context, c client.Client, m metav1.Object, adopt, release []*v1.Pod) (rev int64, err error) {
	var late error
	own := func(pod *v1.Pod, change func(*v1.Pod) bool) error {
		done := false
		out, err := c.Mutate(ctx, client.Pods.At(pod.Namespace, pod.Name), func(o runtime.Object) (bool, error) {
			fresh := o.(*v1.Pod)
			done = fresh.UID == pod.UID && change(fresh)
			return done, nil
		})
		if apierrors.IsNotFound(err) || err == nil && !done {
			late = apierrors.NewConflict(schema.GroupResource(client.Pods), pod.Name, errors.New("it is somebody else's by now, or gone"))
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			rev = max(rev, loop.Revision(out))
		}
		return err
	}
	for _, pod := range release {
		if err := own(pod, func(p *v1.Pod) bool { return k.disown(p, m.GetUID()) }); err != nil {
			return rev, err
		}
	}
	for _, pod := range adopt {
		if err := own(pod, func(p *v1.Pod) bool { return k.take(p, m) }); err != nil {
			return rev, err
		}
	}
	return rev, late
}

func (k Kind) take(pod *v1.Pod, m metav1.Object) bool {
	if pod.DeletionTimestamp != nil || !owning.Take(pod, m, k.GVK) {
		return false
	}
	if k.Finalizer != "" && !slices.Contains(pod.Finalizers, k.Finalizer) {
		pod.Finalizers = append(pod.Finalizers, k.Finalizer)
	}
	return true
}

func (k Kind) disown(pod *v1.Pod, who types.UID) bool {
	if !owning.Drop(pod, who) {
		return false
	}
	pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == k.Finalizer })
	return true
}

// New is the pod that an object's template describes; it shares nothing with it.
func (k Kind) New(m metav1.Object, template *v1.PodTemplateSpec) *v1.Pod {
	t := template.DeepCopy()
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.GetNamespace(), GenerateName: prefix(m.GetName()), Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m, k.GVK)},
		},
		Spec: t.Spec,
	}
}

// Create makes a pod and tells of it on the object whose it is. A namespace that is on its way out takes none: nothing to tell anybody.
func (k Kind) Create(ctx context.Context, c client.Client, events record.EventRecorder, obj runtime.Object, pod *v1.Pod) (runtime.Object, error) {
	out, err := c.Create(ctx, client.Pods.At(pod.Namespace, ""), pod)
	if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
		return nil, nil
	}
	if err != nil {
		events.Eventf(obj, v1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return nil, err
	}
	events.Eventf(obj, v1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", out.(*v1.Pod).Name)
	return out, nil
}

// Delete deletes a pod, as Remove, and tells of it on the object whose it was.
func (k Kind) Delete(ctx context.Context, c client.Client, events record.EventRecorder, obj runtime.Object, pod *v1.Pod) error {
	err := Remove(ctx, c, pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		events.Eventf(obj, v1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return err
	}
	events.Eventf(obj, v1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
	return nil
}

// Remove deletes a pod, that very one. When it has changed it is looked at again: somebody may have taken it from its owner meanwhile, to
// keep it, or have deleted it. Then the error is NotFound: what was to go is not there, and there is nothing to tell.
func Remove(ctx context.Context, c client.Client, pod *v1.Pod) error {
	ref, owner := client.Pods.At(pod.Namespace, pod.Name), metav1.GetControllerOfNoCopy(pod)
	remove := func(p *v1.Pod) error {
		return c.Delete(ctx, ref, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion}})
	}
	err := remove(pod)
	for range 5 {
		if !apierrors.IsConflict(err) {
			break
		}
		now, gerr := c.Get(ctx, ref)
		if gerr != nil {
			return gerr
		}
		p := now.(*v1.Pod)
		if is := metav1.GetControllerOfNoCopy(p); p.UID != pod.UID || p.DeletionTimestamp != nil || owner == nil || is == nil || is.UID != owner.UID {
			return apierrors.NewNotFound(v1.Resource("pods"), pod.Name)
		}
		err = remove(p)
	}
	return err
}

// prefix of a pod's name: without a dash when the name with one would be no name.
func prefix(name string) string {
	p := name + "-"
	if len(apivalidation.NameIsDNSSubdomain(p, true)) > 0 {
		return name
	}
	return p
}

// Slowly does n things: one, then twice as many at a time as before, until one fails. What cannot work, a quota used up, so costs one
// try and not hundreds.
func Slowly(n int, do func(i int) error) error {
	for from, batch := 0, 1; from < n; batch *= 2 {
		size := min(batch, n-from)
		errs := make(chan error, size)
		for i := from; i < from+size; i++ {
			go func() {
				defer func() {
					if p := recover(); p != nil {
						errs <- fmt.Errorf("panic: %v", p)
					}
				}()
				errs <- do(i)
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
		from += size
	}
	return nil
}

// Ready says whether a pod is ready, and since when.
func Ready(pod *v1.Pod) (since time.Time, ok bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.LastTransitionTime.Time, c.Status == v1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// Available says whether a pod has been ready for as long as its owner wants it to be, and of a ready one that has not, how long it
// still takes.
func Available(pod *v1.Pod, minReadySeconds int32, now time.Time) (ok bool, left time.Duration) {
	since, ready := Ready(pod)
	if !ready {
		return false, 0
	}
	if minReadySeconds == 0 {
		return true, 0
	}
	left = time.Duration(minReadySeconds)*time.Second - now.Sub(since)
	if since.IsZero() || left > 0 {
		return false, max(left, time.Second)
	}
	return true, 0
}

// Restarts puts the pod first whose containers have been restarted more often, by the one that was most often; of pods that are alike in
// that, the one whose sidecars have. What other init containers did is over.
func Restarts(a, b *v1.Pod) int {
	main, sidecar := mostRestarts(a)
	ofMain, ofSidecar := mostRestarts(b)
	return cmp.Or(cmp.Compare(ofMain, main), cmp.Compare(ofSidecar, sidecar))
}

func mostRestarts(pod *v1.Pod) (main, sidecar int32) {
	for i := range pod.Status.ContainerStatuses {
		main = max(main, pod.Status.ContainerStatuses[i].RestartCount)
	}
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool {
			return c.Name == s.Name && c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		}) {
			sidecar = max(sidecar, s.RestartCount)
		}
	}
	return main, sidecar
}
