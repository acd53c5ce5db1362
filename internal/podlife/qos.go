package podlife

import v1 "k8s.io/api/core/v1"

// QOS is the pod's quality of service class: BestEffort without cpu and memory numbers, Guaranteed when every container
// limits both and requests as much, Burstable otherwise. Pod-level resources, where given, speak for the containers.
func QOS(p *v1.Pod) v1.PodQOSClass {
	if p.Status.QOSClass != "" {
		return p.Status.QOSClass
	}
	var all []v1.ResourceRequirements
	if r := p.Spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		all = append(all, *r)
	} else {
		for i := range p.Spec.InitContainers {
			all = append(all, p.Spec.InitContainers[i].Resources)
		}
		for i := range p.Spec.Containers {
			all = append(all, p.Spec.Containers[i].Resources)
		}
	}
	any, guaranteed := false, true
	for _, r := range all {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			req, lim := r.Requests[name], r.Limits[name]
			any = any || !req.IsZero() || !lim.IsZero()
			guaranteed = guaranteed && !lim.IsZero() && (req.IsZero() || req.Cmp(lim) == 0)
		}
	}
	switch {
	case !any:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}
