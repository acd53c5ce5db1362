package podobject

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/gate"
)

// ValidateBinding checks a binding by itself. Callers return the findings as one plain error, as upstream does.
func ValidateBinding(b *v1.Binding) field.ErrorList {
	var e check.Errors
	if k := b.Target.Kind; k != "" && k != "Node" {
		e.Put(field.NotSupported(field.NewPath("target", "kind"), k, []string{"Node", "<empty>"}))
	}
	switch at := field.NewPath("target", "name"); {
	case b.Target.Name == "":
		e.Required(at, "")
	case b.Target.Kind == "" || b.Target.Kind == "Node":
		e.ObjectName(at, b.Target.Name, false)
	}
	return e.List()
}

// Bind assigns a private copy of the stored pod to the binding's node. An error is a conflict: the pod is going, gated, or
// assigned already. The generation stays: it counts what users ask for, and which one was seen is for the kubelet to say.
func Bind(pod *v1.Pod, b *v1.Binding, now metav1.Time) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	pod.Spec.NodeName = b.Target.Name
	if gate.ClearingNominatedNodeNameAfterBinding {
		pod.Status.NominatedNodeName = ""
	}
	pod.Annotations = merged(pod.Annotations, b.Annotations)
	for _, k := range oldInitAnnotations {
		delete(pod.Annotations, k)
	}
	pod.Labels = merged(pod.Labels, b.Labels)
	setCondition(&pod.Status, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue}, now)
	return nil
}

// merged adds to a map, which may be nil when nothing is added.
func merged(m, add map[string]string) map[string]string {
	if len(add) == 0 {
		return m
	}
	if m == nil {
		m = make(map[string]string, len(add))
	}
	maps.Copy(m, add)
	return m
}
