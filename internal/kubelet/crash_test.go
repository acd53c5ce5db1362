package kubelet_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/kubelettest"
)

// boundaries runs a pod through its whole life, with an init container, a sidecar, hooks and a container that is restarted once, and
// ends the kubelet without warning at the nth boundary of an effect that it passes; 0 is never. It returns how many it passed, and the
// name of that one.
func boundaries(t *testing.T, nth int64) (passed int64, name string) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int64
		var crashed atomic.Bool
		var at atomic.Value
		at.Store("")
		var r *kubelettest.Rig
		r = kubelettest.NewRig(t, func(c *kubelet.Config) {
			c.Reached = func(point string) {
				if count.Add(1) == nth {
					at.Store(point)
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
				oneOfEach(t, r, at.Load())
			}
			name = at.Load().(string)
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
		passed = count.Load()
	})
	return passed, name
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

func oneOfEach(t *testing.T, r *kubelettest.Rig, name any) {
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
	last, _ := boundaries(t, 0)
	if last < 40 {
		t.Fatalf("only %d boundaries", last)
	}
	kinds := map[string]bool{}
	for n := int64(1); n <= last && !t.Failed(); n++ {
		_, name := boundaries(t, n)
		kinds[name] = true
	}
	for _, effect := range strings.Fields("Admit EnsureCgroup MountVolumes CreateSandbox PullImage CreateContainer StartContainer RunHook StopContainer " +
		"UnmountVolumes StopSandbox RemoveCgroup RemoveSandbox Save Tell WakeAt") {
		if !kinds[effect+".before"] {
			t.Error("never killed before " + effect)
		}
	}
}
