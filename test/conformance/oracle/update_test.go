package oracle

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
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
	} else if k.Update["status"] != nil && m.IntN(2) == 0 {
		obj := old.DeepCopyObject()
		m.Mutate(reflect.ValueOf(obj).Elem().FieldByName("Status").Addr().Interface(), 1+m.IntN(3))
		if o := k.UpstreamUpdate("status", obj, old); o.Object != nil {
			old = o.Object
		}
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
	if pod, ok := obj.(*v1.Pod); ok && endpoint == "ephemeralcontainers" {
		return &pod.Spec.EphemeralContainers
	} else if ok && endpoint == "resize" {
		if m.IntN(3) == 0 {
			return &pod.Spec
		}
		list := pod.Spec.Containers
		if n := len(pod.Spec.InitContainers); n > 0 && m.IntN(3) == 0 {
			list = pod.Spec.InitContainers
		}
		if len(list) == 0 {
			return obj
		}
		return &list[m.IntN(len(list))].Resources
	}
	part := "Spec"
	if endpoint == "status" {
		part = "Status"
	}
	if f := reflect.ValueOf(obj).Elem().FieldByName(part); f.IsValid() {
		return f.Addr().Interface()
	}
	return obj
}

func TestUpdate(t *testing.T) {
	each(t, func(t *testing.T, k Kind) {
		for _, endpoint := range slices.Sorted(maps.Keys(k.Update)) {
			t.Run(cmp.Or(endpoint, "object"), func(t *testing.T) { k.testUpdate(t, endpoint, k.at(endpoint)) })
		}
	})
}

// at names an endpoint of the kind.
func (k Kind) at(endpoint string) string {
	if endpoint == "" {
		return "update " + k.name()
	}
	return "update " + k.name() + "/" + endpoint
}

func (k Kind) testUpdate(t *testing.T, endpoint, what string) {
	m := mutatorFor(t)
	pop := newPopulation(seeds(t, k))
	var r Report
	differ := func(c change) []Difference {
		return compare(k.UpstreamUpdate(endpoint, c.new, c.old), k.PodoUpdate(endpoint, c.new, c.old))
	}
	for range rounds(0.5) {
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

// TestResets: the fields that a write through an endpoint leaves alone, whose owner it therefore does not become.
func TestResets(t *testing.T) {
	each(t, func(t *testing.T, k Kind) {
		for endpoint, s := range k.Update {
			theirs := []string{}
			if r, ok := s.(rest.ResetFieldsStrategy); ok {
				if set := r.GetResetFields()[fieldpath.APIVersion(k.Podo.GroupVersion().String())]; set != nil {
					set.Iterate(func(p fieldpath.Path) { theirs = append(theirs, strings.TrimPrefix(p.String(), ".")) })
				}
			}
			ours := slices.Clone(k.Podo.Updates[endpoint].Resets)
			slices.Sort(ours)
			slices.Sort(theirs)
			if !slices.Equal(ours, theirs) {
				t.Errorf("%q: upstream %q, podo %q", endpoint, theirs, ours)
			}
		}
	})
}
