package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	features "k8s.io/component-helpers/nodedeclaredfeatures"
	helper "k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/release"
)

// granted is what a pod has been given by its status, which counts besides the spec's requests as long as a resize is under way.
type granted struct {
	Infeasible bool                       `json:",omitempty"`
	Pod        [2]v1.ResourceList         `json:",omitempty"` // allocated, actual
	Containers map[int][2]v1.ResourceList `json:",omitempty"` // by their place, those of init containers counted down from -1
}

// grantedTo is nil when the status adds nothing to the spec, as for nearly every pod, so that equal pods share a Shape.
func grantedTo(pod *v1.Pod) *granted {
	g := granted{Containers: map[int][2]v1.ResourceList{}}
	if pod.Status.AllocatedResources != nil || pod.Status.Resources != nil {
		g.Pod[0] = pod.Status.AllocatedResources
		if pod.Status.Resources != nil {
			g.Pod[1] = pod.Status.Resources.Requests
		}
	}
	look := func(cs []v1.Container, of []v1.ContainerStatus, place func(int) int) {
		for i := range cs {
			s := statusOf(of, cs[i].Name)
			if s == nil {
				continue
			}
			var actual v1.ResourceList
			if s.Resources != nil {
				actual = s.Resources.Requests
			}
			if !asAsked(s.AllocatedResources, cs[i].Resources.Requests) || !asAsked(actual, cs[i].Resources.Requests) {
				g.Containers[place(i)] = [2]v1.ResourceList{s.AllocatedResources, actual}
			}
		}
	}
	look(pod.Spec.Containers, pod.Status.ContainerStatuses, func(i int) int { return i })
	look(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, func(i int) int { return -1 - i })
	if len(g.Containers) == 0 && g.Pod[0] == nil && g.Pod[1] == nil {
		return nil
	}
	g.Infeasible = helper.IsPodResizeInfeasible(pod)
	return &g
}

func statusOf(list []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// asAsked tells whether a status says nothing, or the same as the spec.
func asAsked(has, asked v1.ResourceList) bool {
	if has == nil {
		return true
	}
	if len(has) != len(asked) {
		return false
	}
	for name, q := range has {
		if want, ok := asked[name]; !ok || q.Cmp(want) != 0 {
			return false
		}
	}
	return true
}

// current is the release whose features are looked at.
var current = version.MustParse(release.Kubernetes)

// featuresOf are those that a node must declare for a pod.
func featuresOf(spec *v1.PodSpec) features.FeatureSet {
	// Only a release that is missing is an error.
	f, _ := features.DefaultFramework.InferForPodScheduling(&features.PodInfo{Spec: spec}, current)
	return f
}
