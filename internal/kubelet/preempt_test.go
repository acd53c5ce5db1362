package kubelet_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/admit"
	"podo.dev/podo/internal/kubelet/kubelettest"
)

// A critical pod that finds no room waits, with others turned away meanwhile, until the pod that ends for it has used its grace; a restart of
// the kubelet in between changes nothing.
func TestACriticalPodPreempts(t *testing.T) {
	for _, restart := range []bool{false, true} {
		node := &v1.Node{}
		node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("3"), v1.ResourcePods: resource.MustParse("10")}
		synctest.Test(t, func(t *testing.T) {
			r := kubelettest.NewRig(t, func(c *kubelet.Config) {
				c.Admission = admit.Checker{Node: func() *v1.Node { return node }, Rules: admit.Rules{OS: "linux"}}
			})
			defer r.Close()
			r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
			victim := cpus("victim", "2")
			victim.Spec.Containers[0].Command = []string{"sh", "-c", "trap '' TERM; sleep inf"}
			grace := int64(10)
			victim.Spec.TerminationGracePeriodSeconds = &grace
			r.API.Create(victim)
			r.API.Create(cpus("stays", "1"))
			time.Sleep(time.Second)
			critical, first := cpus("critical", "2"), int32(2_000_000_000)
			critical.Spec.Priority = &first
			r.API.Create(critical)
			time.Sleep(time.Second)
			if restart {
				r.Restart()
				time.Sleep(time.Second)
			}
			r.API.Create(cpus("late", "1"))
			time.Sleep(3 * time.Second)
			if p := r.API.Pod("critical").Status.Phase; p == v1.PodRunning {
				t.Errorf("the critical pod runs before there is room")
			}
			if st := r.API.Pod("late").Status; st.Reason != "OutOfcpu" {
				t.Errorf("the room was given away: %+v", st)
			}
			time.Sleep(15 * time.Second)
			synctest.Wait()
			st := r.API.Pod("victim").Status
			if st.Phase != v1.PodFailed || st.Reason != "Preempting" || st.Message != "Preempted in order to admit critical pod" {
				t.Errorf("victim: %s %s %s", st.Phase, st.Reason, st.Message)
			}
			i := slices.IndexFunc(st.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget })
			if i < 0 || st.Conditions[i].Message != "Pod was preempted by Kubelet to accommodate a critical pod." {
				t.Errorf("victim: %+v", st.Conditions)
			}
			for _, name := range []string{"critical", "stays"} {
				if p := r.API.Pod(name).Status.Phase; p != v1.PodRunning {
					t.Errorf("%s: %s", name, p)
				}
			}
		})
	}
}
