package kubelet_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/kubelettest"
	"podo.dev/podo/internal/podlife"
)

// boundaries runs a pod through its whole life, with an init container, a sidecar, hooks and a container that is restarted once, and
// ends the kubelet without warning at the nth boundary of that name; nth 0 is never. It returns how many of each name it passed.
func boundaries(t *testing.T, name string, nth int) map[string]int {
	passed := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var crashed atomic.Bool
		var r *kubelettest.Rig
		r = kubelettest.NewRig(t, func(c *kubelet.Config) {
			c.Reached = func(_ *v1.Pod, point string) {
				mu.Lock()
				defer mu.Unlock()
				if passed[point]++; point == name && passed[point] == nth {
					crashed.Store(true)
					r.Crash()
				}
			}
		})
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		pass := func(d time.Duration) {
			for range d / (20 * time.Millisecond) {
				time.Sleep(20 * time.Millisecond)
				synctest.Wait()
				if crashed.Swap(false) {
					r.Restart()
				}
				oneOfEach(t, r, name)
			}
		}
		r.API.Create(livelyPod())
		pass(6500 * time.Millisecond)
		st := r.API.Pod("p").Status
		if st.Phase != v1.PodRunning || !st.ContainerStatuses[0].Ready || st.ContainerStatuses[0].RestartCount != 1 || len(r.Runtime.Sandboxes()) != 1 {
			t.Errorf("%s: %d sandboxes, %+v", name, len(r.Runtime.Sandboxes()), st)
		}
		for _, c := range st.InitContainerStatuses {
			if c.RestartCount != 0 || !c.Ready {
				t.Errorf("%s: %+v", name, c)
			}
		}
		r.API.Delete("p", 30)
		pass(50 * time.Second)
		left := len(r.Runtime.Containers()) + len(r.Runtime.Sandboxes()) + r.Volumes.Mounted() + r.Cgroups.Count() + r.Checkpoints.Len() + len(r.Kubelet.Workers())
		if r.API.Pod("p") != nil || left != 0 {
			t.Errorf("%s: left: %d containers, %d sandboxes, %d with volumes, %d cgroups, %d remembered, %d workers", name, len(r.Runtime.Containers()),
				len(r.Runtime.Sandboxes()), r.Volumes.Mounted(), r.Cgroups.Count(), r.Checkpoints.Len(), len(r.Kubelet.Workers()))
		}
	})
	return passed
}

func livelyPod() *v1.Pod {
	p := newPod("p", "sleep 3; exit 1")
	always := v1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []v1.Container{
		{Name: "i", Image: "busybox", Command: []string{"sh", "-c", "sleep 1"}},
		{Name: "s", Image: "busybox", Command: []string{"sh", "-c", "sleep inf"}, RestartPolicy: &always},
	}
	hook := &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: hook, PreStop: hook}
	return p
}

func oneOfEach(t *testing.T, r *kubelettest.Rig, name string) {
	t.Helper()
	running := map[string]bool{}
	for _, c := range r.Runtime.Containers() {
		if c.Running && running[c.Name] {
			t.Fatalf("%s: two containers %s run", name, c.Name)
		}
		running[c.Name] = running[c.Name] || c.Running
	}
}

// A kubelet that is killed at any boundary of any effect changes nothing for the pod: it comes to run, once, and goes without a trace.
func TestKilledAtEveryBoundary(t *testing.T) {
	all := boundaries(t, "", 0)
	for name, times := range all {
		for n := 1; n <= times && !t.Failed(); n++ {
			if got := boundaries(t, name, n); got[name] < n {
				t.Errorf("%s was passed %d times only", name, got[name])
			}
		}
	}
	for _, e := range podlife.Effects {
		switch e.(type) {
		case podlife.Allocate, podlife.ResizePod, podlife.RemoveContainer, podlife.SetProbes, podlife.Observe:
			continue // not in this pod's life: TestKilledAtEveryEffect of test/e2e walks through all
		}
		if all[podlife.Name(e)+".before"] == 0 || all[podlife.Name(e)+".after"] == 0 {
			t.Error("never killed before and after " + podlife.Name(e))
		}
	}
}
