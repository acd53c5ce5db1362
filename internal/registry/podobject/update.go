package podobject

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podspec"
)

// changeable is what a plain update of a pod may change, in the words of the message.
const changeable = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// ValidateUpdate judges a plain update of a pod.
func ValidateUpdate(pod, old *v1.Pod) field.ErrorList {
	var e check.Errors
	o := options(pod, old)
	e.Add(validatePod(pod, o))
	annotationChanges(&e, pod, old)
	if !sameCount(&e, "containers", pod.Spec.Containers, old.Spec.Containers) ||
		!sameCount(&e, "initContainers", pod.Spec.InitContainers, old.Spec.InitContainers) ||
		!deadline(&e, pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds) {
		return e.List()
	}
	addedTolerations(&e, pod.Spec.Tolerations, old.Spec.Tolerations, o)
	removedGates(&e, pod.Spec.SchedulingGates, old.Spec.SchedulingGates)
	if sameSpec(&pod.Spec, &old.Spec) {
		return e.List()
	}

	// Whatever may change is set back to what it was; what differs then may not.
	rest := pod.Spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	rest.SchedulingGates = old.Spec.SchedulingGates
	rest.Tolerations = old.Spec.Tolerations
	if was, is := old.Spec.TerminationGracePeriodSeconds, rest.TerminationGracePeriodSeconds; was != nil && *was < 0 && is != nil && *is == 1 {
		rest.TerminationGracePeriodSeconds = was
	}
	if len(old.Spec.SchedulingGates) > 0 {
		gatedPlacement(&e, rest, &old.Spec)
	}
	if !sameSpec(rest, &old.Spec) {
		e.Forbidden(specPath, fmt.Sprintf("pod updates may not change fields other than %s\n%v", changeable, diff.Diff(check.Shown(old.Spec), check.Shown(*rest))))
	}
	return e.List()
}

// images: a pod's images are given and not padded; templates are spared the latter.
func images(e *check.Errors, p *field.Path, containers []v1.Container) {
	for i := range containers {
		if image := containers[i].Image; strings.TrimSpace(image) != image {
			e.Invalid(p.Index(i).Child("image"), image, "must not have leading or trailing whitespace")
		}
	}
}

func sameCount(e *check.Errors, name string, containers, old []v1.Container) bool {
	p := specPath.Child(name)
	if len(containers) != len(old) {
		e.Forbidden(p, "pod updates may not add or remove containers")
		return false
	}
	for i := range containers {
		if containers[i].Image == "" {
			e.Required(p.Index(i).Child("image"), "")
		}
	}
	images(e, p, containers)
	return true
}

// deadline: one may be set, and brought forward; false ends the checks.
func deadline(e *check.Errors, is, was *int64) bool {
	p := specPath.Child("activeDeadlineSeconds")
	switch {
	case is == nil:
		if was != nil {
			e.Invalid(p, is, "must not update from a positive integer to nil value")
		}
	case *is < 0 || *is > math.MaxInt32:
		e.Invalid(p, *is, validation.InclusiveRangeError(0, math.MaxInt32))
		return false
	case was != nil && *was < *is:
		e.Invalid(p, *is, "must be less than or equal to previous value")
		return false
	}
	return true
}

func addedTolerations(e *check.Errors, is, was []v1.Toleration, o podspec.Options) {
	p := specPath.Child("tolerations")
	for _, old := range was {
		kept := false
		for _, t := range is {
			old.TolerationSeconds = t.TolerationSeconds // the one thing that may change
			kept = kept || reflect.DeepEqual(old, t)
		}
		if !kept {
			e.Forbidden(p, "existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
	e.Add(podspec.Tolerations(p, is, o))
}

func removedGates(e *check.Errors, is, was []v1.PodSchedulingGate) {
	known := make(map[string]bool, len(was))
	for _, g := range was {
		known[g.Name] = true
	}
	for i, g := range is {
		if !known[g.Name] {
			e.Forbidden(specPath.Child("schedulingGates").Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name))
		}
	}
}

// gatedPlacement: while gates hold a pod back, where it may run can still be narrowed. What was judged is set back in rest.
func gatedPlacement(e *check.Errors, rest, old *v1.PodSpec) {
	if !equality.Semantic.DeepEqual(rest.NodeSelector, old.NodeSelector) {
		for k, was := range old.NodeSelector {
			if is, ok := rest.NodeSelector[k]; !ok || is != was {
				e.Invalid(specPath.Child("nodeSelector"), rest.NodeSelector,
					"only additions to spec.nodeSelector are allowed (no mutations or deletions)")
				break
			}
		}
		rest.NodeSelector = old.NodeSelector
	}
	nodeAffinity := func(a *v1.Affinity) *v1.NodeAffinity {
		if a == nil {
			return nil
		}
		return a.NodeAffinity
	}
	is, was := nodeAffinity(rest.Affinity), nodeAffinity(old.Affinity)
	if equality.Semantic.DeepEqual(was, is) {
		return
	}
	narrowedTerms(e, is, was)
	switch {
	case rest.Affinity == nil && was == nil:
	case rest.Affinity == nil:
		rest.Affinity = &v1.Affinity{NodeAffinity: was}
	case old.Affinity == nil && rest.Affinity.PodAffinity == nil && rest.Affinity.PodAntiAffinity == nil:
		rest.Affinity = nil
	default:
		rest.Affinity.NodeAffinity = was
	}
}

// narrowedTerms: requirements may be added to the terms of required node affinity; terms may not come or go.
func narrowedTerms(e *check.Errors, is, was *v1.NodeAffinity) {
	terms := func(a *v1.NodeAffinity) []v1.NodeSelectorTerm {
		if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			return nil
		}
		return a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	p := specPath.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	before, after := terms(was), terms(is)
	if len(before) > 0 && len(before) != len(after) {
		e.Invalid(p, after, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
		return
	}
	for i := range before {
		if !extends(after[i], before[i]) {
			e.Invalid(p.Index(i), after[i], "only additions are allowed (no mutations or deletions)")
		}
	}
}

// extends says whether a term only adds requirements to another. An empty term matches nothing: adding to it would widen.
func extends(is, was v1.NodeSelectorTerm) bool {
	if len(was.MatchExpressions) == 0 && len(was.MatchFields) == 0 {
		return len(is.MatchExpressions) == 0 && len(is.MatchFields) == 0
	}
	begins := func(is, was []v1.NodeSelectorRequirement) bool {
		return len(is) >= len(was) && equality.Semantic.DeepEqual(is[:len(was)], was)
	}
	return (len(was.MatchExpressions) == 0 || begins(is.MatchExpressions, was.MatchExpressions)) &&
		(len(was.MatchFields) == 0 || begins(is.MatchFields, was.MatchFields))
}
