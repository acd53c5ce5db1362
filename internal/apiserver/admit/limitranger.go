package admit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"podo.dev/podo/internal/view"
)

// LimitRanger gives containers the default requests and limits of their namespace, and enforces its bounds on pods and claims.
type LimitRanger struct{ View *view.View }

const limitRangerAnnotation = "kubernetes.io/limit-ranger"

var limitRanges = schema.GroupResource{Resource: "limitranges"}

// ranges are the LimitRanges that apply to the write. Pods are checked when they are created and when they are resized.
func (l *LimitRanger) ranges(a *Attributes) (out []*v1.LimitRange) {
	switch a.Object.(type) {
	case *v1.Pod:
		if !(a.Op == Create && a.Ref.Subresource == "") && !(a.Op == Update && a.Ref.Subresource == "resize") {
			return nil
		}
	case *v1.PersistentVolumeClaim:
		if a.Op != Create && a.Op != Update || a.Ref.Subresource != "" {
			return nil
		}
	default:
		return nil
	}
	if a.Old != nil {
		if m, err := meta.Accessor(a.Old); err != nil || m.GetDeletionTimestamp() != nil {
			return nil
		}
	}
	for e := range l.View.Snapshot().All(limitRanges, a.Ref.Namespace, view.Key{}) {
		out = append(out, e.Object.(*v1.LimitRange))
	}
	return out
}

// Mutate implements Mutator.
func (l *LimitRanger) Mutate(_ context.Context, a *Attributes) error {
	if pod, ok := a.Object.(*v1.Pod); ok {
		for _, r := range l.ranges(a) {
			applyDefaults(pod, r)
		}
	}
	return nil
}

// Validate implements Validator.
func (l *LimitRanger) Validate(_ context.Context, a *Attributes) error {
	for _, r := range l.ranges(a) {
		var errs []error
		switch obj := a.Object.(type) {
		case *v1.Pod:
			errs = podBounds(obj, r)
		case *v1.PersistentVolumeClaim:
			errs = claimBounds(obj, r)
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return forbidden(a, err.Error())
		}
	}
	return nil
}

// applyDefaults fills in the containers' resources, and annotates the pod with what was set.
func applyDefaults(pod *v1.Pod, r *v1.LimitRange) {
	requests, limits := v1.ResourceList{}, v1.ResourceList{}
	for _, item := range r.Spec.Limits {
		if item.Type == v1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	var notes []string
	complete := func(list []v1.Container, kind string) {
		for i := range list {
			c := &list[i]
			limited, requested := fill(&c.Resources.Limits, limits), fill(&c.Resources.Requests, requests)
			if len(requested) > 0 {
				notes = append(notes, fmt.Sprintf("%s request for %s %s", strings.Join(requested, ", "), kind, c.Name))
			}
			if len(limited) > 0 {
				notes = append(notes, fmt.Sprintf("%s limit for %s %s", strings.Join(limited, ", "), kind, c.Name))
			}
		}
	}
	complete(pod.Spec.Containers, "container")
	complete(pod.Spec.InitContainers, "init container")
	if len(notes) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[limitRangerAnnotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

// fill adds what list lacks, and names it.
func fill(list *v1.ResourceList, from v1.ResourceList) (set []string) {
	for _, name := range sortedNames(from) {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = v1.ResourceList{}
		}
		(*list)[name] = from[name].DeepCopy()
		set = append(set, string(name))
	}
	return set
}

func sortedNames[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
