package kubelet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet/kubelettest"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

func newPod(name string, cmd string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "a", Image: "busybox", Command: []string{"sh", "-c", cmd}}}},
	}
}

func bubble(t *testing.T, f func(t *testing.T, r *kubelettest.Rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := kubelettest.NewRig(t, nil)
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		f(t, r)
		r.Close()
	})
}

// moves are the times at which a container moved to a stage, since the pod's first record.
func moves(r *kubelettest.Rig, pod, to string) []string {
	recs := r.Records(pod)
	var out []string
	for _, rec := range recs {
		if rec.Stage == timeline.Container && rec.To == to {
			out = append(out, rec.At.Sub(recs[0].At).Round(time.Millisecond).String())
		}
	}
	return out
}

// The bubble proof: a crash loop with exact back-off times, and a restart of the agent in the middle which changes nothing.
func TestCrashLoopAndRestart(t *testing.T) {
	play := func(restarts ...time.Duration) (running []string, story string, st v1.PodStatus) {
		bubble(t, func(t *testing.T, r *kubelettest.Rig) {
			r.API.Create(newPod("p", "sleep 1; exit 1"))
			at := time.Duration(0)
			for _, x := range restarts {
				time.Sleep(x - at)
				at = x
				r.Restart()
			}
			time.Sleep(10*time.Minute - at)
			synctest.Wait()
			running = moves(r, "p", "Running")
			recs := slices.DeleteFunc(r.Records("p"), func(rec timeline.Record) bool {
				// What a restart may add: that it happened, and that volumes are made sure of.
				return rec.Stage == timeline.Restored || rec.Stage == timeline.Volumes
			})
			story = timeline.Lines(recs)
			st = r.API.Pod("p").Status
			if c := st.ContainerStatuses[0]; c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" {
				t.Errorf("%+v", c)
			}
		})
		return running, story, st
	}
	// Sandbox 90 ms, image 1 ms beside it, create 5 ms, start 40 ms; then a second of running, an image check and again.
	want := []string{"135ms", "1.181s", "12.227s", "33.273s", "1m14.319s", "2m35.365s", "5m16.411s"}
	running, story, status := play()
	if !slices.Equal(running, want) {
		t.Fatalf("running at %v, want %v\n%s", running, want, story)
	}
	for _, restarts := range [][]time.Duration{
		{500 * time.Millisecond}, {5 * time.Second}, {20 * time.Second}, {33500 * time.Millisecond}, {time.Minute, 2 * time.Minute, 4 * time.Minute},
	} {
		running, again, st := play(restarts...)
		if !slices.Equal(running, want) || again != story {
			t.Errorf("restarts at %v changed the story: running at %v\n%s\nwithout:\n%s", restarts, running, again, story)
		}
		if st.ContainerStatuses[0].RestartCount != status.ContainerStatuses[0].RestartCount || st.Phase != status.Phase {
			t.Errorf("restarts at %v: %+v", restarts, st)
		}
	}
}

// A pod comes and goes: everything that it held is returned, and nothing is remembered.
func TestComesAndGoes(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		r.API.Create(newPod("p", "sleep inf"))
		time.Sleep(time.Second)
		st := r.API.Pod("p").Status
		if st.Phase != v1.PodRunning || st.PodIP == "" || st.HostIP != "192.0.2.1" || !st.ContainerStatuses[0].Ready ||
			!strings.HasPrefix(st.ContainerStatuses[0].ContainerID, "fake://") {
			t.Fatalf("%+v", st)
		}
		if r.API.Statuses > 3 {
			t.Errorf("%d status writes until Running", r.API.Statuses)
		}
		r.API.Delete("p", 30)
		time.Sleep(time.Second)
		if r.API.Pod("p") != nil {
			t.Fatal("still there")
		}
		left := len(r.Runtime.Containers()) + len(r.Runtime.Sandboxes()) + r.Volumes.Mounted() + r.Cgroups.Count() + r.Checkpoints.Len() + len(r.Kubelet.Workers())
		if left != 0 {
			t.Errorf("left: %d containers, %d sandboxes, %d with volumes, %d cgroups, %d remembered, %d workers", len(r.Runtime.Containers()),
				len(r.Runtime.Sandboxes()), r.Volumes.Mounted(), r.Cgroups.Count(), r.Checkpoints.Len(), len(r.Kubelet.Workers()))
		}
	})
}

// A pod of the name of one that has not ended waits for its end.
func TestSameNameWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		r.Volumes.Fail = func(p *v1.Pod) error {
			return nil
		}
		r.API.Create(newPod("p", "trap '' TERM; sleep inf"))
		time.Sleep(time.Second)
		first := r.Runtime.Containers()[0]
		r.API.Delete("p", 0)
		r.API.Create(newPod("p", "sleep inf"))
		synctest.Wait()
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			running := 0
			for _, c := range r.Runtime.Containers() {
				if c.Running {
					running++
				}
			}
			if running > 1 {
				t.Fatal("two at once")
			}
		}
		time.Sleep(5 * time.Second)
		cs := r.Runtime.Containers()
		if len(cs) != 1 || !cs[0].Running || cs[0].ID == first.ID || r.API.Pod("p").Status.Phase != v1.PodRunning {
			t.Fatalf("%+v", cs)
		}
	})
}

// What runs without a pod is ended: the pod was deleted by force while the kubelet was away.
func TestOrphansAreEnded(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		r.API.Create(newPod("p", "sleep inf"))
		r.API.Create(newPod("q", "sleep inf"))
		time.Sleep(time.Second)
		r.Stop()
		r.API.Delete("p", 0)
		time.Sleep(time.Minute)
		r.Start()
		time.Sleep(10 * time.Second)
		cs := r.Runtime.Containers()
		if len(cs) != 1 || cs[0].Pod != "q" || !cs[0].Running || len(r.Runtime.Sandboxes()) != 1 || r.Checkpoints.Len() != 1 {
			t.Fatalf("%+v, %d remembered", cs, r.Checkpoints.Len())
		}
	})
}

// What could not be saved while the disk was full is saved when there is room, without anything that happens to the pod; a pod that has
// gone meanwhile leaves nothing.
func TestSavedWhenThereIsRoom(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		r.Checkpoints.Full(errors.New("no space left on device"))
		r.API.Create(newPod("p", "sleep inf"))
		r.API.Create(newPod("q", "sleep inf"))
		time.Sleep(10 * time.Minute)
		if phase := r.API.Pod("p").Status.Phase; phase != v1.PodRunning || r.Checkpoints.Len() != 0 {
			t.Fatalf("%s, %d remembered", phase, r.Checkpoints.Len())
		}
		r.API.Delete("q", 0)
		time.Sleep(10 * time.Second)
		r.Checkpoints.Full(nil)
		time.Sleep(time.Minute)
		if n := r.Checkpoints.Len(); n != 1 {
			t.Errorf("%d are remembered", n)
		}
		saves := r.Checkpoints.Saves
		time.Sleep(time.Hour)
		if r.Checkpoints.Saves != saves {
			t.Errorf("at rest it is saved %d times an hour", r.Checkpoints.Saves-saves)
		}
	})
}

// Events that are lost are made up for by relists, and a stream that broke comes back.
func TestLostEvents(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		end := r.Runtime.Fail(fake.Fault{Op: "event", Err: errors.New("lost")})
		r.API.Create(newPod("p", "sleep 5; exit 1"))
		time.Sleep(3 * time.Minute)
		if n := r.API.Pod("p").Status.ContainerStatuses[0].RestartCount; n < 2 {
			t.Fatalf("%d restarts without events", n)
		}
		end()
		r.Runtime.DropEvents()
		r.API.Create(newPod("q", "sleep 1; exit 0"))
		time.Sleep(2 * time.Second)
		if n := r.API.Pod("q").Status.ContainerStatuses[0].RestartCount; n != 1 {
			t.Fatalf("%d restarts after the stream broke", n)
		}
	})
}

// A runtime that hangs for a minute: the pods concerned wait, and all goes on afterwards.
func TestRuntimeHangs(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		r.API.Create(newPod("before", "sleep inf"))
		time.Sleep(time.Second)
		resume := r.Runtime.Hang()
		r.API.Create(newPod("during", "sleep inf"))
		time.Sleep(time.Minute)
		if p := r.API.Pod("during").Status; p.Phase != v1.PodPending {
			t.Errorf("%+v", p)
		}
		if p := r.API.Pod("before").Status; p.Phase != v1.PodRunning {
			t.Errorf("%+v", p)
		}
		resume()
		time.Sleep(5 * time.Second)
		if p := r.API.Pod("during").Status; p.Phase != v1.PodRunning {
			t.Errorf("%+v", p)
		}
		if err := r.Kubelet.Healthy(); err != nil {
			t.Error(err)
		}
		resume = r.Runtime.Hang()
		time.Sleep(10 * time.Minute)
		if r.Kubelet.Healthy() == nil {
			t.Error("healthy though the runtime has not answered for ten minutes")
		}
		resume()
		time.Sleep(time.Minute)
		if err := r.Kubelet.Healthy(); err != nil {
			t.Error(err)
		}
	})
}

// An eviction is final: the status says so, and it stays so across a restart.
func TestEvictionIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		r.API.Create(newPod("p", "trap 'exit 5' TERM; sleep inf"))
		time.Sleep(time.Second)
		uid := r.API.Pod("p").UID
		r.Kubelet.Signal(uid, podlife.StopAsked{Why: podlife.Evicted, Reason: "Evicted", Message: "too much"})
		time.Sleep(time.Second)
		check := func() {
			t.Helper()
			st := r.API.Pod("p").Status
			c := st.ContainerStatuses[0]
			if st.Phase != v1.PodFailed || st.Reason != "Evicted" || st.Message != "too much" || c.State.Terminated == nil || c.State.Terminated.ExitCode != 5 ||
				c.RestartCount != 0 {
				t.Fatalf("%+v", st)
			}
		}
		check()
		r.Restart()
		time.Sleep(2 * time.Minute)
		check()
		if n := r.Runtime.Calls("CreateContainer"); n != 1 {
			t.Errorf("%d containers created", n)
		}
	})
}

// A running pod's new labels and annotations reach its volumes at once; another change of it does not touch them.
func TestLabelsReachVolumes(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		uid := r.API.Create(newPod("p", "sleep inf")).UID
		time.Sleep(time.Second)
		first := r.Volumes.Shown(uid)
		r.API.Edit("p", func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1000)) })
		synctest.Wait()
		if r.Volumes.Shown(uid) != first {
			t.Error("a change of the spec wrote the volumes anew")
		}
		for _, change := range []func(*v1.Pod){
			func(p *v1.Pod) { p.Labels = map[string]string{"a": "1"} },
			func(p *v1.Pod) { p.Annotations = map[string]string{"b": "2"} },
		} {
			r.API.Edit("p", change)
			synctest.Wait()
			want, got := r.API.Pod("p"), r.Volumes.Shown(uid)
			if got.Labels["a"] != want.Labels["a"] || got.Annotations["b"] != want.Annotations["b"] {
				t.Errorf("volumes show %v %v, the pod has %v %v", got.Labels, got.Annotations, want.Labels, want.Annotations)
			}
		}
	})
}

// What a pod becomes before its mount has begun reaches its volumes, too.
func TestLabelsReachVolumesThatAreAboutToBeMounted(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		goOn := make(chan struct{})
		r.Volumes.Mounting = func(types.UID) { <-goOn }
		uid := r.API.Create(newPod("p", "sleep inf")).UID
		synctest.Wait()
		r.API.Edit("p", func(p *v1.Pod) { p.Labels = map[string]string{"a": "1"} })
		synctest.Wait()
		close(goOn)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.Volumes.Shown(uid); got == nil || got.Labels["a"] != "1" {
			t.Errorf("volumes show %+v", got)
		}
	})
}

// A sandbox that the runtime makes when its pod has long ended is ended, though the pod is still there; also when the kubelet began anew meanwhile.
func TestASandboxThatComesAfterTheEnd(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, alone := range []bool{false, true} { // no sandbox came in time
			bubble(t, func(t *testing.T, r *kubelettest.Rig) {
				r.Runtime.Fail(fake.Fault{
					Op: "RunPodSandbox", Err: status.Error(codes.DeadlineExceeded, "context deadline exceeded"), Times: 1, Late: time.Minute,
				})
				p := newPod("p", "exit 0")
				p.Spec.RestartPolicy = v1.RestartPolicyNever
				ended := v1.PodSucceeded
				if alone {
					ended = v1.PodFailed
					p.Spec.ActiveDeadlineSeconds = new(int64(10))
					r.Runtime.Fail(fake.Fault{Op: "RunPodSandbox", Err: errors.New("no")})
				}
				r.API.Create(p)
				stand := func() (n int) {
					for _, b := range r.Runtime.Sandboxes() {
						if b.Running {
							n++
						}
					}
					return n
				}
				time.Sleep(50 * time.Second)
				if st := r.API.Pod("p").Status; st.Phase != ended || stand() != 0 {
					t.Errorf("alone %v: %s, %d sandboxes", alone, st.Phase, stand())
				}
				time.Sleep(11 * time.Second)
				synctest.Wait()
				if stand() != 1 {
					t.Errorf("alone %v: %d sandboxes came", alone, stand())
				}
				if restart {
					r.Restart()
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if n := stand(); n != 0 {
					t.Errorf("alone %v, restarted %v: %d sandboxes stand", alone, restart, n)
				}
			})
		}
	}
}

// A pod that is back under its UID before the runtime's events have told that the former one is gone, as a static pod may be, begins as new.
func TestBackBeforeTheEvents(t *testing.T) {
	bubble(t, func(t *testing.T, r *kubelettest.Rig) {
		p := newPod("p", "sleep inf")
		p.UID = "back"
		r.API.Create(p.DeepCopy())
		time.Sleep(time.Minute) // it has been listed
		r.Runtime.Fail(fake.Fault{Op: "event", Err: errors.New("late")})
		r.API.Delete("p", 1)
		time.Sleep(2 * time.Second)
		if n := len(r.Kubelet.Workers()); n != 0 {
			t.Fatalf("%d workers", n)
		}
		r.API.Create(p.DeepCopy())
		time.Sleep(time.Second)
		if st := r.API.Pod("p").Status; st.Phase != v1.PodRunning || st.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("%+v", st)
		}
		if all := r.Runtime.Containers(); len(all) != 1 || !all[0].Running {
			t.Errorf("it is said to run, and there is %+v", all)
		}
	})
}
