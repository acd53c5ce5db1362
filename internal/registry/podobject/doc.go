// Package podobject has the rules of the Pod object around its spec: what a create, an update, a status report, a resize, a
// binding and a deletion may do, and how `kubectl get` shows a pod. It is pure: times are arguments or come from the object.
//
// Each endpoint is a pair: Prepare… takes over from the stored pod what the endpoint may not touch, and raises
// metadata.generation when the spec changed; Validate… judges what is left of the change.
//
//	PUT pods/x            PrepareUpdate      ValidateUpdate       spec: images, deadline, tolerations, gates; no status
//	PUT pods/x/status     PrepareStatus      ValidateStatus       status only
//	PUT pods/x/ephemeralc PrepareEphemeral   ValidateEphemeral    spec.ephemeralContainers only, append-only
//	PUT pods/x/resize     PrepareResize      ValidateResize       cpu and memory only
//	POST pods/x/binding   Bind               ValidateBinding      spec.nodeName, once
package podobject

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/podspec"
)

// specPath and the like are the roots of findings' paths.
var (
	metaPath        = field.NewPath("metadata")
	annotationsPath = metaPath.Child("annotations")
	specPath        = field.NewPath("spec")
	statusPath      = field.NewPath("status")
)

// options are the spec's options for a change of pod from old, nil on create.
func options(pod, old *v1.Pod) podspec.Options {
	var o podspec.Options
	if old == nil {
		o = podspec.OptionsFor(nil)
	} else {
		o = podspec.OptionsFor(&old.Spec)
	}
	o.IsPod = true
	o.PodName = pod.Name
	_, o.Mirror = pod.Annotations[v1.MirrorPodAnnotationKey]
	return o
}

// sameSpec compares as upstream does: empty and nil lists are the same.
func sameSpec(a, b *v1.PodSpec) bool { return equality.Semantic.DeepEqual(a, b) }

// raiseGeneration counts changes of the spec.
func raiseGeneration(pod, old *v1.Pod) {
	if !sameSpec(&pod.Spec, &old.Spec) {
		pod.Generation++
	}
}

// setCondition puts a condition in its place by type; its transition time is now unless the status stays.
func setCondition(s *v1.PodStatus, c v1.PodCondition, now metav1.Time) {
	c.LastTransitionTime = now
	for i := range s.Conditions {
		if old := &s.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}
