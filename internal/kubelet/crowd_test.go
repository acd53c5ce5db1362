package kubelet_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/kubelettest"
)

// nothingLeft checks that the node holds and remembers nothing of any pod.
func nothingLeft(t *testing.T, r *kubelettest.Rig) {
	t.Helper()
	for what, n := range map[string]int{
		"containers": len(r.Runtime.Containers()), "sandboxes": len(r.Runtime.Sandboxes()), "pods with volumes": r.Volumes.Mounted(),
		"cgroups": r.Cgroups.Count(), "checkpoints": r.Checkpoints.Len(), "workers": len(r.Kubelet.Workers()),
	} {
		if n != 0 {
			t.Errorf("%d %s are left", n, what)
		}
	}
}

// A thousand pods run and are deleted at once, half of them by force: all go, and so does every goroutine that they had. Besides the end of
// each sandbox the runtime is asked about none of them.
func TestAThousandDeletedAtOnce(t *testing.T) {
	const pods = 1000
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		r.API.Create(newPod("first", "sleep inf"))
		time.Sleep(time.Second)
		r.API.Delete("first", 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range pods {
			r.API.Create(newPod(fmt.Sprintf("p%d", i), "sleep inf"))
		}
		time.Sleep(time.Minute)
		for i := range pods {
			if p := r.API.Pod(fmt.Sprintf("p%d", i)); p.Status.Phase != v1.PodRunning {
				t.Fatalf("%s is %s", p.Name, p.Status.Phase)
			}
		}
		asked := r.Runtime.Calls("PodSandboxStatus")
		for i := range pods {
			r.API.Delete(fmt.Sprintf("p%d", i), int64(30*(i%2)))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for i := range pods {
			if r.API.Pod(fmt.Sprintf("p%d", i)) != nil {
				t.Fatalf("p%d is still there", i)
			}
		}
		nothingLeft(t, r)
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
		if n := r.Runtime.Calls("PodSandboxStatus") - asked; n > pods {
			t.Errorf("%d questions about sandboxes", n)
		}
	})
}

// A name is given to a hundred pods, each deleted before the next comes, gently, by force, or before it runs: never do two run at once,
// and the last one stays.
func TestAHundredOfOneName(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		for i := range 100 {
			r.API.Create(newPod("p", "trap '' TERM; sleep inf"))
			time.Sleep(time.Duration(i%7) * 40 * time.Millisecond) // from not at all to running
			if n := running(r); n > 1 {
				t.Fatalf("%d run after %d pods", n, i+1)
			}
			if i < 99 {
				r.API.Delete("p", 0)
			}
		}
		last := r.API.Pod("p")
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if n := running(r); n > 1 {
				t.Fatalf("%d run at once", n)
			}
		}
		if p := r.API.Pod("p"); p.UID != last.UID || p.Status.Phase != v1.PodRunning || running(r) != 1 {
			t.Errorf("%s of %s, %d run", p.Status.Phase, p.UID, running(r))
		}
		if n := len(r.Runtime.Sandboxes()); n != 1 {
			t.Errorf("%d sandboxes for one pod", n)
		}
		r.API.Delete("p", 0)
		time.Sleep(time.Minute)
		nothingLeft(t, r)
	})
}

func running(r *kubelettest.Rig) int {
	n := 0
	for _, c := range r.Runtime.Containers() {
		if c.Running {
			n++
		}
	}
	return n
}
