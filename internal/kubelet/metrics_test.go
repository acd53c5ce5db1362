package kubelet_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/kubelettest"
	"podo.dev/podo/internal/kubelet/metrics"
	"podo.dev/podo/internal/kubelet/source"
	"podo.dev/podo/internal/kubelet/worker"
)

// told notes some of what metrics are told.
type told struct {
	worker.Metrics
	mu      sync.Mutex
	worked  []string
	orphans int
	again   int
}

func (m *told) Restarted(*v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.again++
}

func (m *told) Worked(on worker.Operation, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.worked = append(m.worked, fmt.Sprintf("%s %s", on, took))
}

func (m *told) Orphan() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.orphans++
}

func counted(t *testing.T, f func(r *kubelettest.Rig, m *told)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &told{Metrics: metrics.New(false)}
		r := kubelettest.NewRig(t, func(c *kubelet.Config) { c.Metrics = m })
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		f(r, m)
	})
}

// A pod's work is measured from what makes it necessary until nothing is under way any more.
func TestWorkIsMeasured(t *testing.T) {
	counted(t, func(r *kubelettest.Rig, m *told) {
		r.API.Create(newPod("p", "sleep 1; exit 1"))
		time.Sleep(5 * time.Second)
		r.API.Edit("p", func(p *v1.Pod) { p.Labels = map[string]string{"a": "1"} }) // nothing to do
		r.API.Delete("p", 1)
		time.Sleep(5 * time.Second)
		// The sandbox 90 ms, create 5, start 40; again without a sandbox, after a look for the image; the end of the sandbox; its removal
		// when the pod has gone, which may be before the worker has come to rest and is the same work then.
		want := []string{"create 135ms", "sync 46ms", "update 30ms", "kill 10ms"}
		inOne := []string{"create 135ms", "sync 46ms", "update 40ms"}
		m.mu.Lock()
		defer m.mu.Unlock()
		if !slices.Equal(m.worked, want) && !slices.Equal(m.worked, inOne) {
			t.Errorf("%q, want %q or %q", m.worked, want, inOne)
		}
	})
}

// What is only remembered, or has ended, is no orphan.
func TestOrphansAreCounted(t *testing.T) {
	counted(t, func(r *kubelettest.Rig, m *told) {
		r.API.Create(newPod("runs", "sleep inf"))
		r.API.Create(newPod("lost", "sleep inf"))
		time.Sleep(time.Second)
		r.Stop()
		r.Runtime.Vanish("lost")
		r.API.Delete("runs", 0)
		r.API.Delete("lost", 0)
		r.Start()
		time.Sleep(time.Minute)
		m.mu.Lock()
		defer m.mu.Unlock()
		if left := len(r.Kubelet.Workers()) + r.Checkpoints.Len(); m.orphans != 1 || left != 0 {
			t.Errorf("%d orphans, want 1; %d left", m.orphans, left)
		}
	})
}

// A static pod whose manifest goes and comes back while it ends has the same UID: it runs anew once it has ended.
func TestTheSamePodAgainWhileItEnds(t *testing.T) {
	counted(t, func(r *kubelettest.Rig, m *told) {
		p := newPod("p", "trap '' TERM; sleep inf")
		p.UID = "same"
		p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		r.API.Create(p)
		time.Sleep(time.Second)
		first := r.Runtime.Containers()[0].ID
		r.API.Delete("p", 0)
		synctest.Wait()
		r.API.Create(p)
		time.Sleep(time.Minute)
		cs := r.Runtime.Containers()
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(cs) != 1 || !cs[0].Running || cs[0].ID == first || m.again != 1 {
			t.Errorf("%+v, begun anew %d times", cs, m.again)
		}
		c := r.Kubelet.Workers()[0].Status().ContainerStatuses[0]
		if last := c.LastTerminationState.Terminated; c.RestartCount != 1 || c.State.Running == nil || last == nil || !strings.HasSuffix(last.ContainerID, first) {
			t.Errorf("%+v", c)
		}
	})
}

// The same over a restart: the manifest went, the kubelet died while the pod ended, and the manifest is back.
func TestTheSamePodAgainAfterARestart(t *testing.T) {
	for name, dead := range map[string]time.Duration{"while it ends": 0, "after its containers' end": time.Minute} {
		t.Run(name, func(t *testing.T) {
			counted(t, func(r *kubelettest.Rig, m *told) {
				p := newPod("p", "trap '' TERM; sleep inf")
				p.UID = "same"
				p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
				r.API.Create(p)
				time.Sleep(time.Second)
				first := r.Runtime.Containers()[0].ID
				r.API.Delete("p", 0)
				time.Sleep(time.Second)
				r.Stop()
				time.Sleep(dead)
				r.API.Create(p)
				r.Start()
				time.Sleep(2 * time.Minute)
				cs := r.Runtime.Containers()
				if len(cs) != 1 || !cs[0].Running || cs[0].ID == first {
					t.Fatalf("%+v", cs)
				}
				if c := r.Kubelet.Workers()[0].Status().ContainerStatuses[0]; c.RestartCount != 1 || c.State.Running == nil {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// Another manifest, or the first one again, while podo is away or dies while pods end: there are never two of the name, and the last one runs.
func TestManifestsThatChangeOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		static := func(uid types.UID) *v1.Pod {
			p := newPod("p", "trap '' TERM; sleep inf")
			p.Namespace, p.UID, p.Annotations = "default", uid, map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": string(uid)}
			p.Spec.TerminationGracePeriodSeconds = new(int64(20))
			p.Spec.RestartPolicy = v1.RestartPolicyAlways
			return p
		}
		manifests := pods{static("a")}
		r := kubelettest.NewRig(t, func(c *kubelet.Config) { c.Sources = append(c.Sources, &manifests) })
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		time.Sleep(time.Minute)
		for i, uid := range []types.UID{"b", "a", "b", "b", "a"} {
			r.Stop()
			manifests = pods{static(uid)}
			r.Start()
			for range 10 + 90*(i%2) { // the one before has ended, or not
				time.Sleep(300 * time.Millisecond)
				if n := running(r); n > 1 {
					t.Fatalf("%d run at once, after %s", n, uid)
				}
			}
		}
		for range 400 {
			time.Sleep(300 * time.Millisecond)
			if n := running(r); n > 1 {
				t.Fatalf("%d run at once", n)
			}
		}
		if ws := r.Kubelet.Workers(); len(ws) != 1 || ws[0].Pod.UID != "a" || ws[0].Status().Phase != v1.PodRunning || running(r) != 1 {
			t.Errorf("%d workers, %d run", len(ws), running(r))
		}
	})
}

// pods are a source of their own.
type pods []*v1.Pod

func (s pods) Run(ctx context.Context, out chan<- source.Change) error {
	for _, p := range s {
		out <- source.Change{Source: "file", Op: source.Add, Pod: p}
	}
	out <- source.Change{Source: "file", Op: source.Synced}
	<-ctx.Done()
	return nil
}

// A static pod brings no status: what users were told of its containers a kubelet that begins anew takes from its mirror, and nothing else.
func TestAStaticPodIsAsItsMirrorSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, grace := newPod("p", "sleep inf"), int64(30)
		p.Namespace, p.UID, p.Spec.RestartPolicy, p.Spec.TerminationGracePeriodSeconds = "default", "static", v1.RestartPolicyAlways, &grace
		p.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "h"}
		p.Spec.Containers[0].ReadinessProbe, p.Spec.Containers[0].StartupProbe = &v1.Probe{}, &v1.Probe{} // nobody runs them here
		r := kubelettest.NewRig(t, func(c *kubelet.Config) { c.Sources = append(c.Sources, pods{p}) })
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		time.Sleep(time.Minute)
		told := func() v1.PodStatus { return r.Kubelet.Workers()[0].Status() }
		for hash, want := range map[string]bool{"another": false, "h": true} {
			mirror, yes := p.DeepCopy(), true
			mirror.UID, mirror.Status = types.UID("mirror-"+hash), told()
			mirror.Annotations[v1.MirrorPodAnnotationKey] = hash
			mirror.Status.Phase, mirror.Status.ContainerStatuses[0].Ready, mirror.Status.ContainerStatuses[0].Started = v1.PodFailed, true, &yes
			r.API.Create(mirror)
			r.Restart()
			if st := told(); st.Phase != v1.PodRunning || st.ContainerStatuses[0].Ready != want || *st.ContainerStatuses[0].Started != want {
				t.Errorf("%s: %+v", hash, st)
			}
			r.API.Delete("p", 0)
			synctest.Wait()
		}
		if cs := r.Runtime.Containers(); len(cs) != 1 || !cs[0].Running {
			t.Errorf("%+v", cs)
		}
	})
}

// Whoever keeps a static pod's mirror hears of each form of it, also where that is no other pod.
func TestAStaticPodsFormsAreHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		r := kubelettest.NewRig(t, func(c *kubelet.Config) { c.Mirror = func(types.NamespacedName) { heard.Add(1) } })
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		p := newPod("p", "sleep inf")
		p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		r.API.Create(p)
		time.Sleep(time.Minute)
		before := heard.Load()
		r.API.Edit("p", func(p *v1.Pod) { p.Annotations["kubernetes.io/config.hash"] = "another" })
		time.Sleep(time.Second)
		if n := heard.Load(); n == before {
			t.Errorf("heard %d times before and after", n)
		}
	})
}

// A static pod that has the name of a pod of the API waits for that one's end, and then is in the API itself: what is heard of the other
// one meanwhile does not hide it. Who asks by the name finds the one that runs.
func TestAStaticPodWithTheNameOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		static := newPod("p", "sleep inf")
		static.Namespace, static.UID = "default", "static"
		static.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "static"}
		manifests := pods{}
		r := kubelettest.NewRig(t, func(c *kubelet.Config) { c.Sources = append(c.Sources, &manifests) })
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		p := r.API.Create(newPod("p", "sleep inf"))
		time.Sleep(time.Minute)
		manifests = pods{static}
		r.Restart()
		time.Sleep(time.Minute)
		if got := r.Kubelet.Pod("default", "p"); got == nil || got.UID != p.UID {
			t.Errorf("by its name is found %v", got)
		}
		r.API.Delete("p", 1)
		time.Sleep(time.Minute)
		now, _ := r.Kubelet.Static(types.NamespacedName{Namespace: "default", Name: "p"})
		if now == nil || now.UID != "static" {
			t.Errorf("the mirror is made of %v", now)
		}
		if got := r.Kubelet.Pod("default", "p"); got == nil || got.UID != "static" || got.Status.Phase != v1.PodRunning {
			t.Errorf("by its name is found %v", got)
		}
	})
}

// A manifest that changed while no kubelet ran: the pod of the old one ends first, and is not known for a static one any more. Its mirror may
// have gone by then; whoever keeps mirrors hears when the new pod can have one.
func TestTheNextStaticPodHasItsMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPod("p", "sleep inf")
		p.Namespace, p.UID = "default", "one"
		p.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "one"}
		manifests := pods{p}
		var heard atomic.Int64 // when last
		r := kubelettest.NewRig(t, func(c *kubelet.Config) {
			c.Sources = append(c.Sources, &manifests)
			c.Mirror = func(types.NamespacedName) { heard.Store(time.Now().UnixNano()) }
		})
		defer r.Close()
		r.Runtime.Offer(fake.Image{Name: "busybox", Local: true})
		time.Sleep(time.Minute)
		next := p.DeepCopy()
		next.UID, next.Annotations["kubernetes.io/config.hash"] = "two", "two"
		manifests = pods{next}
		r.Restart()
		time.Sleep(time.Minute)
		var gone time.Time
		for _, rec := range r.Records("p") {
			if rec.Pod.UID == "one" {
				gone = rec.At
			}
		}
		now, _ := r.Kubelet.Static(types.NamespacedName{Namespace: "default", Name: "p"})
		if at := time.Unix(0, heard.Load()); at.Before(gone) || now == nil || now.UID != "two" {
			t.Errorf("heard of %v at %s; the one before it went at %s", now, at, gone)
		}
	})
}
