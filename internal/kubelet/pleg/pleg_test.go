package pleg_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet/kubelettest"
	"podo.dev/podo/internal/kubelet/observe"
	"podo.dev/podo/internal/kubelet/pleg"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

type rig struct {
	t  *testing.T
	rt *fake.Runtime
	g  *pleg.Generator

	stop        context.CancelFunc
	asked, told atomic.Int64 // questions for one pod
}

// start runs a generator of node "n" until the test ends.
func start(t *testing.T) *rig {
	rt := fake.New()
	rt.Offer(fake.Image{Name: "busybox", Local: true})
	r := startOn(t, rt)
	time.Sleep(time.Second) // the stream stands, and the list that this brings is behind us
	return r
}

// startOn runs one on a runtime that is there.
func startOn(t *testing.T, rt *fake.Runtime) *rig {
	r := &rig{t: t, rt: rt}
	obs := observe.New(r.rt)
	g, err := pleg.New(pleg.Config{
		Runtime: r.rt, Read: obs.Event, Node: "n", Log: slog.New(slog.DiscardHandler),
		Inspect: func(ctx context.Context, uid types.UID) (podlife.Observed, error) {
			r.asked.Add(1)
			return obs.Pod(ctx, uid)
		},
		Inspected: func(time.Duration) { r.told.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.g = g
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- g.Run(ctx, func() { close(ready) }) }()
	<-ready
	r.stop = cancel
	t.Cleanup(func() {
		for _, s := range r.rt.Sandboxes() {
			r.rt.KillSandbox(s.Pod)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if r.asked.Load() != r.told.Load() {
			t.Errorf("%d questions for a pod, %d are told of", r.asked.Load(), r.told.Load())
		}
	})
	return r
}

// run makes a pod with one container on a node.
func (r *rig) run(node, name, cmd string) types.UID {
	r.t.Helper()
	specs := kubelettest.Specs{Node: node}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)}}
	sandbox, err := specs.Sandbox(pod, 0, "")
	if err != nil {
		r.t.Fatal(err)
	}
	ctx := r.t.Context()
	box, err := r.rt.RunPodSandbox(ctx, sandbox, "")
	if err != nil {
		r.t.Fatal(err)
	}
	c := &v1.Container{Name: "a", Image: "busybox", Command: []string{"sh", "-c", cmd}}
	cfg, err := specs.Container(ctx, worker.ContainerInput{Pod: pod, Container: c, ImageRef: "busybox", Sandbox: sandbox})
	if err != nil {
		r.t.Fatal(err)
	}
	id, err := r.rt.CreateContainer(ctx, box, cfg, sandbox)
	if err == nil {
		err = r.rt.StartContainer(ctx, id)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return pod.UID
}

// next is the next change, or false when there is none within d.
func (r *rig) next(d time.Duration) (pleg.Change, bool) {
	select {
	case c := <-r.g.Changes():
		return c, true
	case <-time.After(d):
		return pleg.Change{}, false
	}
}

// A sandbox that starts beside another one of its pod is told: it may be of a call that was given up. The first one of a pod is not.
func TestASecondSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		uid := r.run("n", "p", "sleep inf")
		if c, ok := r.next(5 * time.Second); ok {
			t.Errorf("a pod's beginning is told: %+v", c)
		}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: uid}}
		config, err := kubelettest.Specs{Node: "n"}.Sandbox(pod, 1, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.rt.RunPodSandbox(t.Context(), config, ""); err != nil {
			t.Fatal(err)
		}
		c, ok := r.next(time.Second)
		if !ok || c.UID != uid || len(c.Observed.Sandboxes) != 2 || c.Observed.At.IsZero() {
			t.Errorf("%v %+v", ok, c)
		}
	})
}

// An end is told at once, with all there is of the pod; another node's containers are nobody's business.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		uid := r.run("n", "p", "sleep 3; exit 4")
		r.run("elsewhere", "q", "sleep 3; exit 4")
		at := time.Now()
		c, ok := r.next(time.Minute)
		if !ok || c.UID != uid || c.Owner.Pod != "p" || len(c.Observed.Containers) != 1 || c.Observed.Containers[0].ExitCode != 4 {
			t.Fatalf("%v %+v", ok, c)
		}
		if time.Since(at) != 3*time.Second {
			t.Errorf("told after %s", time.Since(at))
		}
		if c, ok := r.next(10 * time.Minute); ok {
			t.Errorf("more: %+v", c)
		}
		if o, ok := r.g.Get(uid); !ok || o.Containers[0].State != podlife.InstanceExited {
			t.Errorf("%v %+v", ok, o)
		}
	})
}

// What happened while nobody listened is told late, as it was then: what the runtime says now is newer.
func TestWhatHappenedWhileNobodyListened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		uid := r.run("n", "p", "sleep 3; exit 4")
		time.Sleep(time.Second)
		r.stop()
		time.Sleep(3 * time.Second) // the container has ended in a sandbox that stood
		box := r.rt.Sandboxes()[0].ID
		if err := r.rt.StopPodSandbox(t.Context(), box); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		r = startOn(t, r.rt)
		told := 0
		for c, ok := r.next(time.Minute); ok; c, ok = r.next(time.Minute) {
			told++
			if len(c.Observed.Sandboxes) != 1 || c.Observed.Sandboxes[0].Ready || c.Observed.Containers[0].State != podlife.InstanceExited {
				t.Errorf("%+v", c)
			}
		}
		if o, ok := r.g.Get(uid); told == 0 || !ok || o.Sandboxes[0].Ready {
			t.Errorf("%d told, now %+v", told, o)
		}
	})
}

// A pod's whole life costs no question but the one about the end of its sandbox: events carry the rest, also into the cache.
func TestEventsSayEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		uid := r.run("n", "p", "sleep 3; exit 4")
		asked := r.rt.Calls("ContainerStatus")
		c, ok := r.next(time.Minute)
		if !ok || !c.Observed.At.IsZero() || c.Observed.Containers[0].State != podlife.InstanceExited {
			t.Fatalf("%v %+v", ok, c)
		}
		time.Sleep(5 * time.Minute) // relists find in the cache what they list
		if n := r.rt.Calls("ContainerStatus") - asked; n != 0 {
			t.Errorf("%d questions about a container whose events told all", n)
		}
		box := c.Observed.Sandboxes[0].ID
		if err := errors.Join(r.rt.StopPodSandbox(t.Context(), box), r.rt.RemovePodSandbox(t.Context(), box)); err != nil {
			t.Fatal(err)
		}
		if c, ok = r.next(time.Second); !ok || c.Observed.At.IsZero() {
			t.Errorf("the end of the sandbox: %v %+v", ok, c)
		}
		synctest.Wait()
		if o, ok := r.g.Get(uid); ok {
			t.Errorf("after the removal: %+v", o)
		}
	})
}

// Relists get rarer while they find nothing, and frequent again once they had something to repair.
func TestAdaptiveRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.run("n", "p", "sleep 1800; exit 0")
		lists := func(d time.Duration) int {
			n := r.rt.Calls("ListPodSandbox")
			time.Sleep(d)
			return r.rt.Calls("ListPodSandbox") - n
		}
		lists(10 * time.Minute)
		if n := lists(10 * time.Minute); n != 5 {
			t.Errorf("%d lists in 10 quiet minutes, want one every 2 minutes", n)
		}
		for len(r.g.Changes()) > 0 {
			<-r.g.Changes()
		}
		r.rt.Fail(fake.Fault{Op: "event", Err: errors.New("lost"), Times: 1})
		time.Sleep(14 * time.Minute) // the end is not told, the next list finds it
		c, ok := r.next(time.Second)
		if !ok || c.Observed.Containers[0].State != podlife.InstanceExited {
			t.Fatalf("%v %+v", ok, c)
		}
		if r.told.Load() == 0 {
			t.Error("no question for the pod is told of")
		}
		// A broken stream is made up for by a list every second, until it stands again.
		end := r.rt.Fail(fake.Fault{Op: "Events", Err: errors.New("refused")})
		r.rt.DropEvents()
		time.Sleep(time.Second)
		if n := lists(30 * time.Second); n < 28 || n > 32 {
			t.Errorf("%d lists in 30 s without a stream", n)
		}
		if r.g.Stream() == "" {
			t.Error("the stream is said to stand")
		}
		end()
		time.Sleep(time.Minute)
		if n := lists(10 * time.Minute); n > 12 || r.g.Stream() != "" {
			t.Errorf("%d lists in 10 min with a stream, broken: %q", n, r.g.Stream())
		}
	})
}

// Of a pod that is forgotten nothing is known, and an answer that was asked for before does not bring it back.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		uid := r.run("n", "p", "sleep 23")
		time.Sleep(22 * time.Second) // it has been listed, and is listed again after half a minute
		if _, there := r.g.Get(uid); !there {
			t.Fatal("it is not known")
		}
		r.g.Forget(uid)
		if o, there := r.g.Get(uid); there {
			t.Errorf("forgotten, and known: %+v", o)
		}
		r.rt.Latency("ListPodSandbox", 2*time.Second)
		asked := r.asked.Load()
		time.Sleep(2 * time.Second)
		if r.asked.Load() != asked+1 || r.told.Load() != asked {
			t.Fatal("its end is not being asked about")
		}
		r.g.Forget(uid)
		if c, ok := r.next(2 * time.Second); ok {
			t.Errorf("an answer of before is told: %+v", c)
		}
		if o, there := r.g.Get(uid); there {
			t.Errorf("an answer of before is taken in: %+v", o)
		}
	})
}
