package oracle

import (
	"sort"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// change is an update: the object as stored and as sent.
type change struct{ old, new runtime.Object }

// stored makes an object as it might be in the store: accepted by upstream, and for some kinds further along in its life. nil
// when upstream refuses it.
func (k Kind) stored(m *mutator, pop *population) runtime.Object {
	obj := pop.pick(m)
	m.Mutate(obj, m.IntN(3))
	k.complete(obj)
	o := k.UpstreamCreate(obj)
	if o.Object == nil {
		return nil
	}
	pop.keep(m, obj)
	old := o.Object
	md := meta1(old)
	md.SetResourceVersion("7")
	if m.IntN(10) == 0 && len(md.GetFinalizers()) > 0 {
		at := metav1.NewTime(created.Add(time.Hour))
		md.SetDeletionTimestamp(&at)
	}
	if pod, ok := old.(*v1.Pod); ok {
		m.advance(pod)
	}
	return old
}

// advance lets a pod be scheduled and have a status.
func (m *mutator) advance(pod *v1.Pod) {
	if len(pod.Spec.SchedulingGates) == 0 && m.IntN(3) > 0 {
		pod.Spec.NodeName = "n1"
	}
	if m.IntN(2) == 0 {
		return
	}
	started := true
	pod.Status.Phase = v1.PodRunning
	pod.Status.HostIP, pod.Status.HostIPs = "1.2.3.4", []v1.HostIP{{IP: "1.2.3.4"}}
	pod.Status.PodIP, pod.Status.PodIPs = "10.0.0.1", []v1.PodIP{{IP: "10.0.0.1"}}
	pod.Status.StartTime = &created
	pod.Status.Conditions = []v1.PodCondition{
		{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: created},
		{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "ContainersNotReady", LastTransitionTime: created, ObservedGeneration: 1},
	}
	status := func(list []v1.Container) (out []v1.ContainerStatus) {
		for _, c := range list {
			s := v1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "sha256:1", ContainerID: "containerd://1", Started: &started, Ready: m.IntN(2) == 0}
			switch m.IntN(4) {
			case 0:
				s.State.Waiting = &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
				s.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", ContainerID: "containerd://0"}
				s.RestartCount = 2
			case 1:
				s.State.Terminated = &v1.ContainerStateTerminated{ExitCode: int32(m.IntN(2)), Reason: "Completed", ContainerID: "containerd://1", FinishedAt: created}
			default:
				s.State.Running = &v1.ContainerStateRunning{StartedAt: created}
			}
			out = append(out, s)
		}
		return out
	}
	pod.Status.ContainerStatuses = status(pod.Spec.Containers)
	pod.Status.InitContainerStatuses = status(pod.Spec.InitContainers)
	if m.IntN(2) == 0 {
		for i, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses[i].AllocatedResources = c.Resources.Requests
			pod.Status.ContainerStatuses[i].Resources = c.Resources.DeepCopy()
		}
	}
}

// root is the part of an object that an endpoint is for; changes outside of it are rarer.
func root(m *mutator, endpoint string, obj runtime.Object) any {
	if m.IntN(6) == 0 {
		return obj
	}
	switch o := obj.(type) {
	case *v1.Pod:
		switch endpoint {
		case "status":
			return &o.Status
		case "ephemeralcontainers":
			return &o.Spec.EphemeralContainers
		case "resize":
			if m.IntN(3) == 0 {
				return &o.Spec
			}
			list := o.Spec.Containers
			if n := len(o.Spec.InitContainers); n > 0 && m.IntN(3) == 0 {
				list = o.Spec.InitContainers
			}
			if len(list) == 0 {
				return obj
			}
			return &list[m.IntN(len(list))].Resources
		case "":
			return &o.Spec
		}
	case *v1.Node:
		if endpoint == "status" {
			return &o.Status
		}
	case *v1.Namespace:
		if endpoint == "status" {
			return &o.Status
		}
		return &o.Spec
	}
	return obj
}

func TestUpdate(t *testing.T) {
	for _, k := range Kinds {
		endpoints := make([]string, 0, len(k.Update))
		for e := range k.Update {
			endpoints = append(endpoints, e)
		}
		sort.Strings(endpoints)
		for _, endpoint := range endpoints {
			what := "update " + k.Podo.Resource
			if endpoint != "" {
				what += "/" + endpoint
			}
			t.Run(k.Podo.Resource+"/"+endpoint, func(t *testing.T) { k.testUpdate(t, endpoint, what) })
		}
	}
}

func (k Kind) testUpdate(t *testing.T, endpoint, what string) {
	m := mutatorFor(t)
	pop := newPopulation(seeds(t, k))
	var r Report
	differ := func(c change) []Difference {
		return compare(k.UpstreamUpdate(endpoint, c.new, c.old), k.PodoUpdate(endpoint, c.new, c.old))
	}
	for end := time.Now().Add(budget()); time.Now().Before(end); {
		old := k.stored(m, pop)
		if old == nil {
			continue
		}
		for range 4 {
			c := change{old, old.DeepCopyObject()}
			for range changes(m) {
				m.Mutate(root(m, endpoint, c.new), 1)
			}
			meta1(c.new).SetName(meta1(old).GetName()) // the verbs refuse another name before any rule runs
			r.ran()
			r.found(what, differ(c), func(sig string) string { return k.smallestChange(what, sig, c, differ) })
		}
	}
	r.fail(t)
}

// smallestChange shrinks what is sent, then what is stored, and both at once where they are equal.
func (k Kind) smallestChange(what, sig string, c change, differ func(change) []Difference) string {
	shows := func(c change) bool {
		_, ok := signatures(what, differ(c))[sig]
		return ok
	}
	// The stored object must stay one that upstream accepts: shrink it only by what both have.
	c.old = shrink(c.old, func(o runtime.Object) bool { return k.storable(o) && shows(change{o, c.new}) })
	c.new = shrink(c.new, func(o runtime.Object) bool { return shows(change{c.old, o}) })
	c.old = shrink(c.old, func(o runtime.Object) bool { return k.storable(o) && shows(change{o, c.new}) })
	d := signatures(what, differ(c))[sig]
	return "upstream: " + d.Upstream + "\npodo:     " + d.Podo + "\nstored:\n" + manifest(c.old) + "sent:\n" + manifest(c.new)
}

func (k Kind) storable(obj runtime.Object) bool {
	fresh := obj.DeepCopyObject()
	m := meta1(fresh)
	m.SetResourceVersion("")
	m.SetDeletionTimestamp(nil)
	if pod, ok := fresh.(*v1.Pod); ok {
		pod.Spec.EphemeralContainers = nil
	}
	return k.UpstreamCreate(fresh).Object != nil
}
