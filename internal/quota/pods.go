package quota

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
)

const podCount = v1.ResourceName("count/pods")

var podNames = []v1.ResourceName{
	podCount, v1.ResourcePods, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage,
	v1.ResourceRequestsCPU, v1.ResourceRequestsMemory, v1.ResourceRequestsEphemeralStorage,
	v1.ResourceLimitsCPU, v1.ResourceLimitsMemory, v1.ResourceLimitsEphemeralStorage,
}

// deviceClass begins the names of resources that stand for a class of devices.
const deviceClass = "deviceclass.resource.kubernetes.io/"

var pods = measure{
	tracks: tracksPods,
	usage:  func(obj runtime.Object, now time.Time) v1.ResourceList { return podUsage(obj.(*v1.Pod), now) },
	charged: func(subresource string, obj, old runtime.Object) bool {
		switch {
		case subresource == "resize":
			return old != nil
		case subresource != "":
			return false
		}
		return old == nil || otherwiseTerminating(obj, old)
	},
	moved:   otherwiseTerminating,
	inScope: podInScope,
	lacks:   podLacks,
}

func tracksPods(name v1.ResourceName) bool {
	if slices.Contains(podNames, name) || check.IsHugePages(name) || strings.HasPrefix(string(name), v1.ResourceRequestsHugePagesPrefix) {
		return true
	}
	rest, request := strings.CutPrefix(string(name), v1.DefaultResourceRequestsPrefix)
	return request && (!check.IsNative(name) || strings.HasPrefix(rest, deviceClass))
}

// podUsage: count/pods counts all that are stored; everything else ends with the pod's life.
func podUsage(pod *v1.Pod, now time.Time) v1.ResourceList {
	out := v1.ResourceList{podCount: one}
	if !alive(pod, now) {
		return out
	}
	o := resource.PodResourcesOptions{UseStatusResources: true}
	return add(out, compute(resource.PodRequests(pod, o), resource.PodLimits(pod, o)))
}

// alive says whether the pod is charged for: it has not ended, nor should it have long since.
func alive(pod *v1.Pod, now time.Time) bool {
	if pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		return false
	}
	due, ok := Overdue(pod)
	return !ok || !now.After(due)
}

// Overdue is when a pod that is being deleted stops being charged for although it is still there: its node may be lost.
func Overdue(pod *v1.Pod) (time.Time, bool) {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return time.Time{}, false
	}
	return pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second), true
}

// compute names requests and limits as quotas do.
func compute(requests, limits v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{v1.ResourcePods: one}
	for name, q := range requests {
		switch {
		case name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage || check.IsHugePages(name):
			out[name], out["requests."+name] = q, q
		case check.IsExtended(name) || strings.HasPrefix(string(name), deviceClass):
			out["requests."+name] = q
		}
	}
	for name, q := range limits {
		if name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage {
			out["limits."+name] = q
		}
	}
	return out
}

// mustSpecify are the bounds that every container has to say something to.
var mustSpecify = []v1.ResourceName{
	v1.ResourceCPU, v1.ResourceMemory, v1.ResourceRequestsCPU, v1.ResourceRequestsMemory, v1.ResourceLimitsCPU, v1.ResourceLimitsMemory,
}

func podLacks(obj runtime.Object, bounded []v1.ResourceName) string {
	pod := obj.(*v1.Pod)
	if resource.IsPodLevelResourcesSet(pod) {
		return ""
	}
	missing := map[v1.ResourceName]map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		has := compute(c.Resources.Requests, c.Resources.Limits)
		for _, name := range bounded {
			if _, ok := has[name]; ok || !slices.Contains(mustSpecify, name) {
				continue
			}
			if missing[name] == nil {
				missing[name] = map[string]bool{}
			}
			missing[name][c.Name] = true
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		parts = append(parts, string(name)+" for: "+join(slices.Sorted(maps.Keys(missing[name])), ","))
	}
	if len(parts) == 0 {
		return ""
	}
	return "must specify " + strings.Join(parts, "; ")
}

func terminating(pod *v1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

func otherwiseTerminating(obj, old runtime.Object) bool {
	return terminating(obj.(*v1.Pod)) != terminating(old.(*v1.Pod))
}

func podInScope(s v1.ScopedResourceSelectorRequirement, obj runtime.Object) bool {
	pod := obj.(*v1.Pod)
	switch s.ScopeName {
	case v1.ResourceQuotaScopeTerminating:
		return terminating(pod)
	case v1.ResourceQuotaScopeNotTerminating:
		return !terminating(pod)
	case v1.ResourceQuotaScopeBestEffort:
		return podobject.QOS(pod) == v1.PodQOSBestEffort
	case v1.ResourceQuotaScopeNotBestEffort:
		return podobject.QOS(pod) != v1.PodQOSBestEffort
	case v1.ResourceQuotaScopePriorityClass:
		if pod.Spec.PriorityClassName == "" {
			return selects(s)
		}
		return selects(s, pod.Spec.PriorityClassName)
	case v1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod.Spec.Affinity)
	}
	return false
}

// crossesNamespaces says whether a term about other pods looks beyond the pod's own namespace.
func crossesNamespaces(a *v1.Affinity) bool {
	if a == nil {
		return false
	}
	var required []v1.PodAffinityTerm
	var preferred []v1.WeightedPodAffinityTerm
	if p := a.PodAffinity; p != nil {
		required = append(required, p.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if p := a.PodAntiAffinity; p != nil {
		required = append(required, p.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, p.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, p := range preferred {
		required = append(required, p.PodAffinityTerm)
	}
	return slices.ContainsFunc(required, func(t v1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}
