package podlife

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// InstanceResources are what the runtime reports that a container runs with; nil is what it does not report.
type InstanceResources struct{ CPURequest, CPULimit, MemoryLimit *resource.Quantity }

// Amounts up to these look to the kernel like none, and are shown as they were granted.
const (
	leastCPURequest = 2  // thousandths of a cpu
	leastCPULimit   = 10 // likewise
)

// resizeConditions are the pod's resize conditions; a pod that has ended has none.
func (s *State) resizeConditions() []v1.PodCondition {
	var out []v1.PodCondition
	add := func(t v1.PodConditionType, r *Resize) {
		if r == nil || s.Stage > Stopping {
			return
		}
		since := metav1.NewTime(r.Since)
		out = append(out, v1.PodCondition{
			Type: t, Status: v1.ConditionTrue, Reason: r.Reason, Message: r.Message, ObservedGeneration: r.Generation,
			LastProbeTime: since, LastTransitionTime: since,
		})
	}
	add(v1.PodResizePending, s.Pending)
	add(v1.PodResizeInProgress, s.Progress)
	return out
}

// runsWith is the resources in a container's status: what it was granted, corrected by what it runs with.
func (s *State) runsWith(c *Container, in *Instance) *v1.ResourceRequirements {
	out := c.spec.Resources.DeepCopy()
	if in.State != InstanceRunning {
		return out
	}
	var is InstanceResources
	if in.Resources != nil {
		is = *in.Resources
	} else if in == c.Cur {
		is = known(s.Applied.of(c.Name))
	}
	if out.Limits != nil {
		show(out.Limits, v1.ResourceCPU, is.CPULimit, leastCPULimit)
		show(out.Limits, v1.ResourceMemory, is.MemoryLimit, 0)
	}
	if out.Requests != nil {
		show(out.Requests, v1.ResourceCPU, is.CPURequest, leastCPURequest)
		if applied := s.Applied.of(c.Name); in == c.Cur {
			show(out.Requests, v1.ResourceMemory, applied.Requests.Memory(), 0)
		}
	}
	return out
}

// known is what was last set, for runtimes that do not report.
func known(r v1.ResourceRequirements) InstanceResources {
	return InstanceResources{CPURequest: r.Requests.Cpu(), CPULimit: r.Limits.Cpu(), MemoryLimit: r.Limits.Memory()}
}

// show puts the measured amount into a list, unless it and the granted one are both too small for the kernel to tell from none.
func show(list v1.ResourceList, name v1.ResourceName, is *resource.Quantity, least int64) {
	granted := list[name]
	if is != nil && !is.IsZero() && (is.MilliValue() > least || granted.MilliValue() > least) {
		list[name] = *is
	}
}

// podResources are the pod's own: what its cgroup is set to once it runs, and what it will be set to before.
func (s *State) podResources(phase v1.PodPhase) (runs *v1.ResourceRequirements, allocated v1.ResourceList) {
	allocated = resourcehelper.PodRequests(s.given, resourcehelper.PodResourcesOptions{})
	if phase != v1.PodRunning {
		return &v1.ResourceRequirements{
			Requests: allocated, Limits: resourcehelper.PodLimits(s.given, resourcehelper.PodResourcesOptions{}),
		}, allocated
	}
	out := v1.ResourceRequirements{}
	if r := s.given.Spec.Resources; r != nil {
		out = *r.DeepCopy()
	}
	if out.Requests == nil {
		out.Requests = v1.ResourceList{}
	}
	if out.Limits == nil {
		out.Limits = v1.ResourceList{}
	}
	set := s.given
	if s.cgroupOf != nil {
		set = s.cgroupOf.Over(s.given)
	}
	requests, limits := resourcehelper.PodRequests(set, resourcehelper.PodResourcesOptions{}), CgroupLimits(set)
	// What the pod itself does not request, its containers do. Granted cpu requests count even if the kernel cannot tell them
	// from none.
	least := func(list v1.ResourceList, n int64) int64 {
		_, granted := list[v1.ResourceCPU]
		return either(granted, n, 0)
	}
	show(out.Requests, v1.ResourceCPU, requests.Cpu(), least(out.Requests, leastCPURequest))
	if _, ok := out.Requests[v1.ResourceMemory]; !ok {
		show(out.Requests, v1.ResourceMemory, allocated.Memory(), 0)
	}
	if !s.cfg.NoCPUQuota {
		show(out.Limits, v1.ResourceCPU, limits.Cpu(), least(out.Limits, leastCPULimit))
	}
	show(out.Limits, v1.ResourceMemory, limits.Memory(), 0)
	return &out, allocated
}

// CgroupLimits are the cpu and memory limits of a pod's own cgroup. A limit holds only when the pod itself or each of its
// containers has it: one unlimited container makes the whole pod unlimited.
func CgroupLimits(p *v1.Pod) v1.ResourceList {
	out := v1.ResourceList{}
	if QOS(p) == v1.PodQOSBestEffort {
		return out
	}
	limits := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		all := true
		for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				q := list[i].Resources.Limits[name]
				all = all && !q.IsZero()
			}
		}
		if r := p.Spec.Resources; r != nil {
			q := r.Limits[name]
			all = all || !q.IsZero()
		}
		if q := limits[name]; all && !q.IsZero() {
			out[name] = q
		}
	}
	return out
}

// restoreGrant restores what the pod was granted. If nothing was saved, it is what the API's status says.
func (s *State) restoreGrant(saved *Saved) {
	if s.Stage == New {
		return
	}
	if saved != nil && saved.Granted != nil {
		s.Granted, s.Applied, s.InDoubt, s.Pending, s.Progress = saved.Granted, saved.Applied, saved.InDoubt, saved.Pending, saved.Progress
		s.cgroupOf = saved.Cgroup
	} else {
		s.Pending, s.Progress = s.toldResize(v1.PodResizePending), s.toldResize(v1.PodResizeInProgress)
		s.Granted, s.Applied = GrantOf(s.Pod), &Grant{Pod: s.Pod.Spec.Resources}
		for _, list := range [][]v1.ContainerStatus{s.Pod.Status.InitContainerStatuses, s.Pod.Status.ContainerStatuses} {
			for i := range list {
				st := &list[i]
				if st.Resources == nil {
					continue
				}
				if s.Pending != nil { // the spec asks for more than was granted
					s.Granted = s.Granted.with(st.Name, v1.ResourceRequirements{
						Requests: st.AllocatedResources, Limits: st.Resources.Limits, Claims: st.Resources.Claims,
					})
				}
				s.Applied = s.Applied.with(st.Name, Effective(s.Pod.Spec.Resources, *st.Resources))
			}
		}
	}
	s.observed = s.Pod.Status.ObservedGeneration
	s.takePod(s.Pod)
}

func (s *State) toldResize(t v1.PodConditionType) *Resize {
	for _, c := range s.Pod.Status.Conditions {
		if c.Type == t && c.Status == v1.ConditionTrue {
			return &Resize{Reason: c.Reason, Message: c.Message, Generation: c.ObservedGeneration, Since: c.LastTransitionTime.Time}
		}
	}
	return nil
}
