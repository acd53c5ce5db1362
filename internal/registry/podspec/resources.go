package podspec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/registry/check"
)

// Resources checks limits and requests by themselves, as those of a container.
func Resources(p *field.Path, r *v1.ResourceRequirements, o Options) field.ErrorList {
	v := &validator{o: o}
	v.resources(p, r, v.ContainerResourceName)
	return v.List()
}

// resources checks limits and requests; name checks which resources may stand there.
func (v *validator) resources(p *field.Path, r *v1.ResourceRequirements, name func(*field.Path, v1.ResourceName)) {
	limits, requests := child(p, "limits"), child(p, "requests")
	main, huge := false, false // cpu or memory; huge pages
	note := func(n v1.ResourceName) {
		main = main || n == v1.ResourceCPU || n == v1.ResourceMemory
		huge = huge || check.IsHugePages(n)
	}
	for _, n := range check.Sorted(r.Limits) {
		q := r.Limits[n]
		note(n)
		name(keyed(limits, string(n)), n)
		v.Quantity(keyed(limits, string(n)), n, q)
		if check.IsHugePages(n) && !v.o.IndivisibleHugePages {
			v.HugePages(keyed(limits, string(n)), n, q)
		}
	}
	for _, n := range check.Sorted(r.Requests) {
		q := r.Requests[n]
		note(n)
		name(keyed(requests, string(n)), n)
		v.Quantity(keyed(requests, string(n)), n, q)
		limit, limited := r.Limits[n]
		switch {
		case limited && !check.CanOvercommit(n) && q.Cmp(limit) != 0:
			v.Invalid(requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", n, limit.String()))
		case limited && q.Cmp(limit) > 0:
			v.Invalid(requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", n, limit.String()))
		case !limited && !check.CanOvercommit(n):
			v.Required(limits, "Limit must be set for non overcommitable resources")
		}
		if check.IsHugePages(n) && !v.o.IndivisibleHugePages {
			v.HugePages(keyed(requests, string(n)), n, q)
		}
	}
	if huge && !main {
		v.Forbidden(p, "HugePages require cpu or memory")
	}
}

// podResources checks the pod's own limits and requests, and that its containers fit into them.
func (v *validator) podResources(p *field.Path) {
	own := v.spec.Resources
	if own == nil {
		return
	}
	p = child(p, "resources")
	if v.spec.OS != nil && v.spec.OS.Name == v1.Windows {
		v.Forbidden(p, "may not be set for a windows pod")
		return
	}
	if own.Claims != nil {
		v.Forbidden(child(p, "claims"), "claims may not be set for Resources at pod-level")
	}
	v.resources(p, own, func(p *field.Path, n v1.ResourceName) {
		if v.ResourceName(p, n) && !resource.IsSupportedPodLevelResource(n) {
			v.Put(field.NotSupported(p, n, sets.List(resource.SupportedPodLevelResources())))
		}
	})
	v.claimNames(child(p, "claims"), own.Claims)

	pod := &v1.Pod{Spec: *v.spec}
	requests := resource.AggregateContainerRequests(pod, resource.PodResourcesOptions{})
	for _, n := range check.Sorted(requests) {
		q := requests[n]
		if mine, ok := own.Requests[n]; ok && q.Cmp(mine) > 0 {
			v.Invalid(keyed(child(p, "requests"), string(n)), mine.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", q.String()))
		}
	}
	limits := resource.AggregateContainerLimits(pod, resource.PodResourcesOptions{})
	for _, n := range check.Sorted(limits) {
		q := limits[n]
		if mine, ok := own.Limits[n]; ok && check.IsHugePages(n) && q.Cmp(mine) > 0 {
			v.Invalid(keyed(child(p, "limits"), string(n)), mine.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container limits of %s", q.String()))
		}
	}
	for i := range v.spec.Containers {
		list := v.spec.Containers[i].Resources.Limits
		for _, n := range check.Sorted(list) {
			q := list[n]
			if mine, ok := own.Limits[n]; ok && q.Cmp(mine) > 0 {
				v.Invalid(child(keyed(item(child(p, "containers"), i), string(n)), "limits"), q.String(),
					fmt.Sprintf("must be less than or equal to pod limits of %s", mine.String()))
			}
		}
	}
}
