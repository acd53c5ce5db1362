package kubelet_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/admit"
	"podo.dev/podo/internal/kubelet/kubelettest"
)

// cpus is a pod that asks for as many.
func cpus(name, n string) *v1.Pod {
	p := newPod(name, "sleep inf")
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(n)}
	return p
}

func pending(r *kubelettest.Rig, pod string) string {
	for _, c := range r.API.Pod(pod).Status.Conditions {
		if c.Type == v1.PodResizePending {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// A cgroup and volumes that a pod left are removed, and no other's.
func TestWhatPodsLeft(t *testing.T) {
	var removed, failed int
	synctest.Test(t, func(t *testing.T) {
		r := kubelettest.NewRig(t, func(c *kubelet.Config) {
			c.Swept = func(r, f int) { removed, failed = removed+r, failed+f }
		})
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		r.API.Create(newPod("p", "sleep inf"))
		time.Sleep(time.Second)
		r.Cgroups.Leave("nobody")
		gone := newPod("gone", "")
		gone.UID = "nobody"
		if err := r.Volumes.Mount(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		uid := r.API.Pod("p").UID
		for what, list := range map[string]func() ([]types.UID, error){"cgroups": r.Cgroups.Pods, "volumes": r.Volumes.OnDisk} {
			if left, err := list(); err != nil || len(left) != 1 || left[0] != uid {
				t.Errorf("%s: %v, %v", what, left, err)
			}
		}
	})
	if removed != 1 || failed != 0 {
		t.Errorf("%d removed, %d failed", removed, failed)
	}
}

// A pod that comes back under its UID while what it left is being removed begins when that has gone, and keeps what is made for it then: in
// the form that its source has by then, and not at all when it went again.
func TestAPodComesBackToWhatItLeft(t *testing.T) {
	for _, went := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			goOn := make(chan struct{})
			r := kubelettest.NewRig(t, nil)
			defer r.Close()
			hold := func(uid types.UID) {
				if uid == "back" {
					<-goOn
				}
			}
			r.Volumes.Removing, r.Cgroups.Removing = hold, hold
			r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
			p := newPod("p", "sleep inf")
			p.UID = "back"
			r.Cgroups.Leave(p.UID)
			if err := r.Volumes.Mount(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			time.Sleep(31 * time.Second) // a look has begun
			var mounted []string
			r.Volumes.Fail = func(p *v1.Pod) error {
				mounted = append(mounted, p.Labels["form"])
				return nil
			}
			r.API.Create(p)
			time.Sleep(time.Second)
			r.API.Edit("p", func(p *v1.Pod) { p.Labels = map[string]string{"form": "newest"} })
			if went {
				r.API.Delete("p", 0)
			}
			time.Sleep(time.Second)
			if n := len(r.Kubelet.Workers()); n != 0 {
				t.Errorf("%d workers while what they own is removed", n)
			}
			close(goOn)
			time.Sleep(time.Second)
			synctest.Wait()
			if went {
				if n := r.Volumes.Mounted() + r.Cgroups.Count() + len(r.Kubelet.Workers()); n != 0 {
					t.Errorf("%d left of a pod that went", n)
				}
				return
			}
			if st := r.API.Pod("p").Status; st.Phase != v1.PodRunning {
				t.Errorf("%+v", st)
			}
			if len(mounted) == 0 || mounted[0] != "newest" {
				t.Errorf("mounted as %q", mounted)
			}
			if n := r.Volumes.Mounted(); n != 1 || r.Cgroups.Count() != 1 {
				t.Errorf("%d with volumes, %d cgroups", n, r.Cgroups.Count())
			}
		})
	}
}

// A pod that comes back under its UID when nothing is left of it begins when all who forget it have done so: they would forget the new one.
func TestAPodComesBackWhileItIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn, told := make(chan struct{}), 0
		r := kubelettest.NewRig(t, func(c *kubelet.Config) {
			c.Gone = func(*v1.Pod) {
				told++
				<-goOn
			}
		})
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		p := newPod("p", "sleep inf")
		p.UID = "back"
		r.API.Create(p)
		time.Sleep(time.Second)
		r.API.Delete("p", 0)
		time.Sleep(time.Minute)
		r.API.Create(p)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(r.Kubelet.Workers()); n != 0 || told != 1 {
			t.Errorf("%d workers, %d were told", n, told)
		}
		close(goOn)
		time.Sleep(time.Second)
		synctest.Wait()
		if st := r.API.Pod("p").Status; st.Phase != v1.PodRunning {
			t.Errorf("%+v", st)
		}
	})
}

// A resize for which there is no room waits, through a restart too, and is granted when a pod goes: at that moment, and to the one
// whose turn it is.
func TestDeferredResize(t *testing.T) {
	node := &v1.Node{}
	node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("10")}
	synctest.Test(t, func(t *testing.T) {
		r := kubelettest.NewRig(t, func(c *kubelet.Config) {
			c.Admission = admit.Checker{Node: func() *v1.Node { return node }, Rules: admit.Rules{OS: "linux"}}
		})
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		for _, name := range []string{"low", "high", "other"} {
			r.API.Create(cpus(name, "1"))
		}
		time.Sleep(time.Second)
		ask := func(name, n string, priority int32) {
			r.API.Edit(name, func(p *v1.Pod) {
				p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(n)}
				p.Spec.Priority = &priority
			})
			time.Sleep(time.Second)
		}
		ask("low", "3", 1)
		ask("high", "3", 10)
		want := "Deferred: Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"
		if got := pending(r, "low"); got != want {
			t.Errorf("low: %q", got)
		}
		r.Restart()
		if got := pending(r, "high"); got != want {
			t.Errorf("high after a restart: %q", got)
		}
		r.API.Delete("other", 1)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		st := r.API.Pod("high").Status
		if got := pending(r, "high"); got != "" || st.ContainerStatuses[0].AllocatedResources.Cpu().String() != "3" || st.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("high: %q, %+v", got, st.ContainerStatuses[0])
		}
		if got := pending(r, "low"); !strings.Contains(got, "used: 3000") {
			t.Errorf("low: %q", got)
		}
		ask("high", "1", 10) // kubernetes/kubernetes#140646: what another gives back is room, too
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := pending(r, "low"); got != "" || r.API.Pod("low").Status.ContainerStatuses[0].AllocatedResources.Cpu().String() != "3" {
			t.Errorf("low: %q", got)
		}
	})
}

// kubernetes/kubernetes#130801: volumes show what a pod was granted, when it is granted: not before, and not only with the next change of
// something else.
func TestResizesReachVolumes(t *testing.T) {
	node := &v1.Node{}
	node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("10")}
	synctest.Test(t, func(t *testing.T) {
		r := kubelettest.NewRig(t, func(c *kubelet.Config) {
			c.Admission = admit.Checker{Node: func() *v1.Node { return node }, Rules: admit.Rules{OS: "linux"}}
		})
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		uid := r.API.Create(cpus("p", "1")).UID
		r.API.Create(cpus("other", "2"))
		time.Sleep(time.Second)
		shown := func() string { return r.Volumes.Shown(uid).Spec.Containers[0].Resources.Requests.Cpu().String() }
		for _, step := range []struct{ ask, show string }{{"1500m", "1500m"}, {"3", "1500m"}} {
			r.API.Edit("p", func(p *v1.Pod) {
				p.Generation++
				p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(step.ask)}
			})
			time.Sleep(time.Second)
			if got := shown(); got != step.show {
				t.Errorf("asked for %s, volumes show %s", step.ask, got)
			}
		}
		r.API.Delete("other", 0)
		time.Sleep(10 * time.Second)
		if got := shown(); got != "3" {
			t.Errorf("when there is room, volumes show %s", got)
		}
	})
}
