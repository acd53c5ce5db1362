package podobject

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podfill"
	"podo.dev/podo/internal/registry/podspec"
)

// PrepareResize takes from the request only resources and resize policies. Containers that came, went or moved are left in for
// ValidateResize to refuse.
func PrepareResize(pod, old *v1.Pod) {
	if len(pod.Spec.Containers) == len(old.Spec.Containers) && len(pod.Spec.InitContainers) == len(old.Spec.InitContainers) {
		own := pod.Spec.Resources
		containers := resized(pod.Spec.Containers, old.Spec.Containers)
		inits := resized(pod.Spec.InitContainers, old.Spec.InitContainers)
		pod.Spec = *old.Spec.DeepCopy()
		pod.Spec.Resources = own
		pod.Spec.Containers, pod.Spec.InitContainers = containers, inits
		pod.Status = old.Status
		keepMeta(pod, old)
	}
	keepLevelResources(pod, old)
	podfill.LevelResources(pod)
	drop(pod, old)
	raiseGeneration(pod, old)
}

func resized(is, was []v1.Container) []v1.Container {
	if len(is) == 0 {
		return is
	}
	out := make([]v1.Container, len(was))
	for i := range was {
		if was[i].Name != is[i].Name {
			return is
		}
		out[i] = *was[i].DeepCopy()
		out[i].Resources, out[i].ResizePolicy = is[i].Resources, is[i].ResizePolicy
	}
	return out
}

// ValidateResize judges a resize: only cpu and memory change, nothing is taken away, the quality of service stays.
func ValidateResize(pod, old *v1.Pod) field.ErrorList {
	if _, ok := old.Annotations[v1.MirrorPodAnnotationKey]; ok {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if isWindows(old) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	var e check.Errors
	e.Add(validatePod(pod, options(pod, old)))
	if QOS(old) != ComputeQOS(pod) {
		e.Invalid(specPath, pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing")
	}
	if !nodeResizes(old) {
		e.Forbidden(specPath, "Pod running on node without support for resize")
	}
	rest := pod.Spec.DeepCopy()
	if amounts(old.Spec.Resources) > 0 || amounts(pod.Spec.Resources) > 0 {
		resizedPod(&e, rest, &old.Spec)
	}
	if !sameOrder(&e, &pod.Spec, &old.Spec) {
		return e.List()
	}
	for i := range old.Spec.InitContainers {
		kept(&e, specPath.Child("initContainers").Index(i).Child("resources"), "resource ",
			&pod.Spec.InitContainers[i].Resources, &old.Spec.InitContainers[i].Resources)
	}
	for i := range old.Spec.Containers {
		kept(&e, specPath.Child("containers").Index(i).Child("resources"), "resource ",
			&pod.Spec.Containers[i].Resources, &old.Spec.Containers[i].Resources)
	}
	onlyComputeChanged(&e, rest, &old.Spec)
	if !equality.Semantic.DeepEqual(pod.Spec.Volumes, old.Spec.Volumes) {
		e.Forbidden(specPath.Child("volumes"),
			"volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled")
	}
	if len(e.List()) == 0 && !sameSpec(rest, &old.Spec) {
		e.Forbidden(specPath, "only cpu and memory resources are mutable")
	}
	return e.List()
}

// nodeResizes: a kubelet that reports a running container's resources can change them. Where nothing runs yet, it is assumed.
func nodeResizes(pod *v1.Pod) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil {
			return s.Resources != nil
		}
	}
	return true
}

func amounts(r *v1.ResourceRequirements) int {
	if r == nil {
		return 0
	}
	return len(r.Requests) + len(r.Limits)
}

// resizedPod judges the pod's own resources, and sets cpu and memory back in rest.
func resizedPod(e *check.Errors, rest, old *v1.PodSpec) {
	p := specPath.Child("resources")
	if old.Resources != nil && rest.Resources == nil {
		e.Forbidden(p, "pod-level resources cannot be removed")
		return
	}
	was := old.Resources
	if was == nil {
		was = &v1.ResourceRequirements{}
	}
	kept(e, p, "pod-level resource ", rest.Resources, was)
	setBack(rest.Resources, was)
	if old.Resources == nil && amounts(rest.Resources) == 0 && len(rest.Resources.Claims) == 0 {
		rest.Resources = nil
	}
	if !equality.Semantic.DeepEqual(rest.Resources, old.Resources) {
		e.Forbidden(specPath, "only cpu and memory resources are mutable at pod-level")
	}
}

// kept refuses amounts that are gone.
func kept(e *check.Errors, p *field.Path, what string, is, was *v1.ResourceRequirements) {
	gone := func(is, was v1.ResourceList) bool {
		for name := range was {
			if _, ok := is[name]; !ok {
				return true
			}
		}
		return false
	}
	if gone(is.Requests, was.Requests) {
		e.Forbidden(p.Child("requests"), what+"requests cannot be removed")
	}
	if gone(is.Limits, was.Limits) {
		e.Forbidden(p.Child("limits"), what+"limits cannot be removed")
	}
}

// setBack gives cpu and memory the old amounts.
func setBack(r, was *v1.ResourceRequirements) {
	list := func(is, was v1.ResourceList) v1.ResourceList {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			delete(is, name)
			if q, ok := was[name]; ok {
				if is == nil {
					is = v1.ResourceList{}
				}
				is[name] = q
			}
		}
		return is
	}
	r.Requests, r.Limits = list(r.Requests, was.Requests), list(r.Limits, was.Limits)
}

func sameOrder(e *check.Errors, is, was *v1.PodSpec) bool {
	ok := true
	one := func(name string, is, was []v1.Container) {
		p := specPath.Child(name)
		if len(is) != len(was) {
			e.Forbidden(p, name+" may not be added or removed on resize")
			ok = false
			return
		}
		for i := range was {
			if is[i].Name != was[i].Name {
				e.Forbidden(p.Index(i).Child("name"), name+" may not be renamed or reordered on resize")
				ok = false
			}
		}
	}
	one("containers", is.Containers, was.Containers)
	one("initContainers", is.InitContainers, was.InitContainers)
	return ok
}

// onlyComputeChanged sets cpu and memory back in rest and refuses what else differs in a container.
func onlyComputeChanged(e *check.Errors, rest, old *v1.PodSpec) {
	for i := range rest.Containers {
		c := &rest.Containers[i]
		setBack(&c.Resources, &old.Containers[i].Resources)
		if !equality.Semantic.DeepEqual(*c, old.Containers[i]) {
			e.Forbidden(specPath, "only cpu and memory resources are mutable")
		}
	}
	for i := range rest.InitContainers {
		c, p := &rest.InitContainers[i], specPath.Child("initContainers").Index(i)
		changed := !equality.Semantic.DeepEqual(*c, old.InitContainers[i])
		setBack(&c.Resources, &old.InitContainers[i].Resources)
		if !equality.Semantic.DeepEqual(*c, old.InitContainers[i]) {
			e.Forbidden(p, "only cpu and memory resources for init or sidecar containers are mutable")
		}
		if !changed || podspec.IsSidecar(c) {
			continue
		}
		for _, r := range c.ResizePolicy {
			if r.RestartPolicy == v1.RestartContainer {
				e.Forbidden(p, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized")
			}
		}
	}
}
