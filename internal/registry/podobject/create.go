package podobject

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/gate"
	"podo.dev/podo/internal/registry/podfill"
	"podo.dev/podo/internal/registry/podspec"
)

// PrepareCreate sets what only the server may say about a new pod: generation 1, phase Pending, its quality of service. Its
// creationTimestamp must be set.
func PrepareCreate(pod *v1.Pod) {
	pod.Generation = 1
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
	drop(pod, nil)
	if len(pod.Spec.SchedulingGates) > 0 {
		setCondition(&pod.Status, v1.PodCondition{
			Type:    v1.PodScheduled,
			Status:  v1.ConditionFalse,
			Reason:  v1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		}, pod.CreationTimestamp)
	}
	mergeLabelKeys(pod)
	appArmorFields(pod)
	if gate.PodLevelResourcesFixDefaulting {
		podfill.LevelResources(pod)
	}
	pod.Status.QOSClass = QOS(pod)
}

// mergeLabelKeys turns matchLabelKeys into expressions of the selectors, with the pod's own label values.
func mergeLabelKeys(pod *v1.Pod) {
	merge := func(s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator) {
		if s == nil {
			return
		}
		for _, k := range keys {
			if value, ok := pod.Labels[k]; ok {
				s.MatchExpressions = append(s.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: k, Operator: op, Values: []string{value}})
			}
		}
	}
	term := func(t *v1.PodAffinityTerm) {
		merge(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
		merge(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
	terms := func(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
		for i := range preferred {
			term(&preferred[i].PodAffinityTerm)
		}
		for i := range required {
			term(&required[i])
		}
	}
	if a := pod.Spec.Affinity; a != nil {
		if p := a.PodAffinity; p != nil {
			terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if p := a.PodAntiAffinity; p != nil {
			terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	if !gate.MatchLabelKeysSelectorMerge {
		return
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		merge(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}

// ValidateCreate judges a new pod, its metadata's general rules excepted.
func ValidateCreate(pod *v1.Pod) field.ErrorList {
	var e check.Errors
	e.Add(validatePod(pod, options(pod, nil)))
	if len(pod.Spec.EphemeralContainers) > 0 {
		e.Forbidden(specPath.Child("ephemeralContainers"), "cannot be set on create")
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		e.Forbidden(specPath.Child("nodeName"), "cannot be set until all schedulingGates have been cleared")
	}
	profilesMatch(&e, specPath, pod)
	return e.List()
}

// validatePod checks a pod whole: its annotations with a meaning, its spec, and what templates are spared.
func validatePod(pod *v1.Pod, o podspec.Options) field.ErrorList {
	var e check.Errors
	annotations(&e, annotationsPath, pod, o)
	e.Add(podspec.Validate(&pod.Spec, specPath, o))
	if pod.Spec.ServiceAccountName == "" {
		for i := range pod.Spec.Volumes {
			projected := pod.Spec.Volumes[i].Projected
			if projected == nil {
				continue
			}
			for j := range projected.Sources {
				if projected.Sources[j].ServiceAccountToken != nil {
					e.Forbidden(specPath.Child("volumes").Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
						"must not be specified when serviceAccountName is not set")
				}
			}
		}
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		e.NonNegative(specPath.Child("terminationGracePeriodSeconds"), *s)
	}
	images(&e, specPath.Child("containers"), pod.Spec.Containers)
	images(&e, specPath.Child("initContainers"), pod.Spec.InitContainers)
	return e.List()
}

// PrepareUpdate keeps the status, which has its own endpoint.
func PrepareUpdate(pod, old *v1.Pod) {
	pod.Status = old.Status
	keepLevelResources(pod, old)
	drop(pod, old)
	raiseGeneration(pod, old)
}

// keepLevelResources: where the pod's own resources are gone, a client that does not know the field has dropped it.
func keepLevelResources(pod, old *v1.Pod) {
	if gate.PodLevelResourcesFixDefaulting && pod.Spec.Resources == nil {
		pod.Spec.Resources = old.Spec.Resources.DeepCopy()
	}
}

// Grace is how long a deletion lets the pod end, in seconds; 0 removes it at once.
func Grace(pod *v1.Pod, o *metav1.DeleteOptions) int64 {
	if pod.Spec.NodeName == "" || pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		return 0 // nothing of it runs
	}
	var grace int64
	switch {
	case o != nil && o.GracePeriodSeconds != nil:
		grace = *o.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if grace < 0 {
		return 1
	}
	return grace
}
