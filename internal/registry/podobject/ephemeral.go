package podobject

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// PrepareEphemeral takes from the request only its ephemeral containers.
func PrepareEphemeral(pod, old *v1.Pod) {
	containers := pod.Spec.EphemeralContainers
	keepMeta(pod, old)
	pod.Spec = *old.Spec.DeepCopy()
	pod.Status = old.Status
	pod.Spec.EphemeralContainers = containers
	drop(pod, old)
	raiseGeneration(pod, old)
}

// keepMeta takes over the metadata that only a plain update may change.
func keepMeta(pod, old *v1.Pod) { metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &old.ObjectMeta) }

// ValidateEphemeral judges added ephemeral containers; those that are there stay as they are.
func ValidateEphemeral(pod, old *v1.Pod) field.ErrorList {
	if _, ok := old.Annotations[v1.MirrorPodAnnotationKey]; ok {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	var e check.Errors
	e.Add(validatePod(pod, options(pod, old)))
	annotationChanges(&e, pod, old)
	p := specPath.Child("ephemeralContainers")
	// A patch may change the order, so they are found by name.
	byName := make(map[string]*v1.EphemeralContainer, len(pod.Spec.EphemeralContainers))
	for i := range pod.Spec.EphemeralContainers {
		byName[pod.Spec.EphemeralContainers[i].Name] = &pod.Spec.EphemeralContainers[i]
	}
	for _, was := range old.Spec.EphemeralContainers {
		is, ok := byName[was.Name]
		switch {
		case !ok:
			e.Forbidden(p, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name))
		case !equality.Semantic.DeepEqual(was, *is):
			e.Forbidden(p, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(check.Shown(was), check.Shown(*is))))
		}
	}
	return e.List()
}
