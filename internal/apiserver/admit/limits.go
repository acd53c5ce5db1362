package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// The bounds of limit ranges, in upstream's words.

// podBounds says where the pod's containers, or the pod as a whole, are out of bounds.
func podBounds(pod *v1.Pod, r *v1.LimitRange) (errs []error) {
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		switch item.Type {
		case v1.LimitTypeContainer:
			for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for j := range list {
					errs = append(errs, bounds(item, list[j].Resources.Requests, list[j].Resources.Limits)...)
				}
			}
		case v1.LimitTypePod:
			requests, limits := podTotals(pod)
			errs = append(errs, bounds(item, requests, limits)...)
		}
	}
	return errs
}

// podTotals are a pod's requests and limits without its overhead: the sum over its containers, or its own.
func podTotals(pod *v1.Pod) (requests, limits v1.ResourceList) {
	requests = podresource.AggregateContainerRequests(pod, podresource.PodResourcesOptions{})
	limits = podresource.AggregateContainerLimits(pod, podresource.PodResourcesOptions{})
	own := pod.Spec.Resources
	if own == nil {
		return requests, limits
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := own.Requests[name]; ok {
			requests[name] = q
		}
		if q, ok := own.Limits[name]; ok {
			limits[name] = q
		}
	}
	return requests, limits
}

// claimBounds says where the claim's request is out of bounds.
func claimBounds(c *v1.PersistentVolumeClaim, r *v1.LimitRange) (errs []error) {
	requests := c.Spec.Resources.Requests
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		if item.Type != v1.LimitTypePersistentVolumeClaim {
			continue
		}
		for _, name := range sortedNames(item.Min) {
			errs = append(errs, atLeast(string(item.Type), name, item.Min[name], requests, nil)...)
		}
		for _, name := range sortedNames(item.Max) {
			max := item.Max[name]
			asked, ok := requests[name]
			if request, _, bound := comparable(asked, resource.Quantity{}, max); !ok {
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, item.Type, max.String()))
			} else if request > bound {
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, item.Type, max.String(), asked.String()))
			}
		}
	}
	return errs
}

func bounds(item *v1.LimitRangeItem, requests, limits v1.ResourceList) (errs []error) {
	of := string(item.Type)
	for _, name := range sortedNames(item.Min) {
		errs = append(errs, atLeast(of, name, item.Min[name], requests, limits)...)
	}
	for _, name := range sortedNames(item.Max) {
		errs = append(errs, atMost(of, name, item.Max[name], requests, limits)...)
	}
	for _, name := range sortedNames(item.MaxLimitRequestRatio) {
		errs = append(errs, inRatio(of, name, item.MaxLimitRequestRatio[name], requests, limits)...)
	}
	return errs
}

// comparable brings three amounts to one unit: thousandths, unless one of them is too large for that.
func comparable(request, limit, bound resource.Quantity) (r, l, b int64) {
	r, l, b = request.Value(), limit.Value(), bound.Value()
	if r <= resource.MaxMilliValue && l <= resource.MaxMilliValue && b <= resource.MaxMilliValue {
		return request.MilliValue(), limit.MilliValue(), bound.MilliValue()
	}
	return r, l, b
}

func atLeast(of string, name v1.ResourceName, min resource.Quantity, requests, limits v1.ResourceList) []error {
	asked, hasRequest := requests[name]
	limit, hasLimit := limits[name]
	r, l, bound := comparable(asked, limit, min)
	switch {
	case !hasRequest:
		return []error{fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, of, min.String())}
	case r < bound:
		return []error{fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, of, min.String(), asked.String())}
	case hasLimit && l < bound:
		return []error{fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, of, min.String(), limit.String())}
	}
	return nil
}

func atMost(of string, name v1.ResourceName, max resource.Quantity, requests, limits v1.ResourceList) []error {
	asked, hasRequest := requests[name]
	limit, hasLimit := limits[name]
	r, l, bound := comparable(asked, limit, max)
	switch {
	case !hasLimit:
		return []error{fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, of, max.String())}
	case l > bound:
		return []error{fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, of, max.String(), limit.String())}
	case hasRequest && r > bound:
		return []error{fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, of, max.String(), asked.String())}
	}
	return nil
}

func inRatio(of string, name v1.ResourceName, max resource.Quantity, requests, limits v1.ResourceList) []error {
	asked, hasRequest := requests[name]
	limit, hasLimit := limits[name]
	r, l, _ := comparable(asked, limit, max)
	switch {
	case !hasRequest || r == 0:
		return []error{fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, of, max.String())}
	case !hasLimit || l == 0:
		return []error{fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, of, max.String())}
	}
	ratio := float64(l) / float64(r)
	scaled, bound := ratio, float64(max.Value())
	if max.Value() <= resource.MaxMilliValue {
		scaled, bound = ratio*1000, float64(max.MilliValue())
	}
	if scaled > bound {
		return []error{fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, of, max.String(), ratio)}
	}
	return nil
}
