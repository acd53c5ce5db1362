package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/profile"
)

// soon is when everybody who was woken has been tried, and nobody who was not.
const soon = 12 * time.Second

func change[T runtime.Object](w *world, ref client.Ref, f func(T)) {
	w.t.Helper()
	if _, err := w.admin.Mutate(context.Background(), ref, func(o runtime.Object) (bool, error) { f(o.(T)); return true, nil }); err != nil {
		w.t.Fatal(err)
	}
}

// waits wants a pod to be unschedulable.
func (w *world) waits(name string) {
	w.t.Helper()
	if p := w.pod(name); p.Spec.NodeName != "" || condition(p, v1.PodScheduled).Reason != v1.PodReasonUnschedulable {
		w.t.Fatalf("pod %s is on %q and told %+v", name, p.Spec.NodeName, condition(p, v1.PodScheduled))
	}
}

func apart(p *v1.Pod, of, key string) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(of, key)}}
	return p
}

func together(p *v1.Pod, of, key string) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(of, key)}}
	return p
}

// The labels of a pod decide who wants it near, and whether it means itself: when they change, it is tried as the one that it is now.
func TestLabelsOfAWaitingPodChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(inZone("node-a", "a"))
		w.start()
		w.create(apart(labelled("loner", "loner"), "web", v1.LabelHostname))
		w.on("loner", "node-a")
		w.create(labelled("kept-away", "web"))
		w.create(together(labelled("first", "other"), "group", v1.LabelTopologyZone))
		w.waits("kept-away")
		w.waits("first")
		change(w, client.Pods.At("ns", "kept-away"), func(p *v1.Pod) { p.Labels["app"] = "api" })
		change(w, client.Pods.At("ns", "first"), func(p *v1.Pod) { p.Labels["app"] = "group" })
		time.Sleep(soon)
		w.on("kept-away", "node-a")
		w.on("first", "node-a")
	})
}

// A node that moves to another domain takes its pods with it, and one that goes leaves its domain to others: whom that concerns may be waiting
// for a node that has not changed at all.
func TestDomainsChange(t *testing.T) {
	for _, how := range []string{"joins", "moves", "goes"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.node(inZone("node-a", map[string]string{"joins": "other", "moves": "b", "goes": "b"}[how]))
				w.start()
				switch how {
				case "joins":
					w.create(labelled("web", "web"))
				default:
					w.create(apart(labelled("loner", "loner"), "cache", v1.LabelTopologyZone))
				}
				synctest.Wait()
				w.cordon("node-a", true)
				w.node(inZone("node-b", "b"))
				p := labelled("cache", "cache")
				if how == "joins" {
					p = together(p, "web", v1.LabelTopologyZone)
				}
				w.create(p)
				w.waits("cache")
				at := client.Nodes.At("", "node-a")
				switch how {
				case "joins":
					change(w, at, func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = "b" })
				case "moves":
					change(w, at, func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = "c" })
				case "goes":
					if err := w.admin.Delete(context.Background(), at, metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(soon)
				w.on("cache", "node-b")
			})
		})
	}
}

// Whom others want to be away from may be said by the labels of its namespace.
func TestANamespaceIsMeantNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		change(w, client.Namespaces.At("", "ns"), func(n *v1.Namespace) { n.Labels = map[string]string{"team": "noisy"} })
		w.node(node("node-a", "4"))
		w.start()
		loner := apart(labelled("loner", "loner"), "web", v1.LabelHostname)
		loner.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "noisy"}}
		w.create(loner)
		w.on("loner", "node-a")
		w.create(labelled("web", "web"))
		w.waits("web")
		change(w, client.Namespaces.At("", "ns"), func(n *v1.Namespace) { n.Labels["team"] = "quiet" })
		time.Sleep(soon)
		w.on("web", "node-a")
	})
}

// Who waits for room on a node that goes away looks elsewhere at once.
func TestNodeWithRoomThatIsMadeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		w.node(node("node-a", "1"))
		w.node(node("node-b", "1"))
		w.start()
		w.create(ranked("one", "1", 1))
		w.create(ranked("two", "1", 1))
		synctest.Wait()
		w.create(ranked("high", "1", 100))
		first := w.pod("high").Status.NominatedNodeName
		if err := w.admin.Delete(context.Background(), client.Nodes.At("", first), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(soon)
		second := map[string]string{"node-a": "node-b", "node-b": "node-a"}[first]
		if p := w.pod("high"); second == "" || p.Status.NominatedNodeName != second {
			t.Errorf("high waited on %q and waits on %q", first, p.Status.NominatedNodeName)
		}
	})
}

// Nobody knows what an extender goes by: whatever changes about a node or the pod itself has it asked again about whom it rejected, also
// where it says nothing of why.
func TestAnExtenderChangesItsMind(t *testing.T) {
	colour := func(o metav1.Object) {
		o.SetAnnotations(map[string]string{"example.com/colour": "red"})
	}
	for name, happens := range map[string]func(w *world){
		"a node changes":  func(w *world) { change(w, client.Nodes.At("", "node-a"), func(n *v1.Node) { colour(n) }) },
		"the pod changes": func(w *world) { change(w, client.Pods.At("ns", "red"), func(p *v1.Pod) { colour(p) }) },
		"its labels change": func(w *world) {
			change(w, client.Pods.At("ns", "red"), func(p *v1.Pod) { p.Labels = map[string]string{"colour": "red"} })
		},
		"a node leaves": func(w *world) {
			if err := w.admin.Delete(context.Background(), client.Nodes.At("", "node-b"), metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
		},
		"another pod is placed": func(w *world) { w.create(pod("other", "100m")) },
	} {
		for filter, message := range map[string]string{"2 wrong colour.": "2 No preemption victims found for incoming pod.", "": "2 Preemption is not helpful for scheduling."} {
			t.Run(name+" "+filter, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					p := extended(t, w, colours)
					w.node(node("node-a", "4"))
					w.node(node("node-b", "4"))
					p.answer["filter"] = only("none")
					if filter == "" {
						p.answer["filter"] = func([]byte) any { return `{"NodeNames": []}` }
					}
					w.start()
					w.create(coloured("red"))
					w.waits("red")
					want := strings.TrimSpace("0/2 nodes are available: "+filter) + " preemption: 0/2 nodes are available: " + message
					if c := condition(w.pod("red"), v1.PodScheduled); c.Message != want {
						t.Errorf("%q, want %q", c.Message, want)
					}
					p.mu.Lock()
					p.answer["filter"] = only("node-a")
					p.mu.Unlock()
					happens(w)
					time.Sleep(soon)
					w.on("red", "node-a")
				})
			})
		}
	}
}

func claim(name, class string, mode v1.PersistentVolumeAccessMode) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "claim"}}
	c.Spec.AccessModes, c.Spec.StorageClassName = []v1.PersistentVolumeAccessMode{mode}, &class
	c.Spec.VolumeMode = new(v1.PersistentVolumeFilesystem)
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	c.Status.Phase = v1.ClaimPending
	return c
}

func mounting(p *v1.Pod, claim string) *v1.Pod {
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	return p
}

// A claim that one pod may have is free for the next, which may not go where the first was: as with a drain.
func TestAClaimOfOnePodIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := claim("data", "shared", v1.ReadWriteOncePod)
		c.Spec.VolumeName, c.Status.Phase = "pv", v1.ClaimBound
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "pv"}}
		pv.Spec.Capacity, pv.Spec.AccessModes = c.Spec.Resources.Requests, c.Spec.AccessModes
		pv.Spec.StorageClassName, pv.Spec.VolumeMode = "shared", c.Spec.VolumeMode
		pv.Spec.NFS = &v1.NFSVolumeSource{Server: "nfs", Path: "/"}
		pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "ns", Name: "data", UID: c.UID}
		pv.Status.Phase = v1.VolumeBound
		w := newWorld(t, c, pv)
		w.node(node("node-a", "4"))
		w.start()
		w.create(mounting(pod("old", "1"), "data"))
		w.on("old", "node-a")
		w.cordon("node-a", true)
		w.node(node("node-b", "4"))
		w.create(mounting(pod("new", "1"), "data"))
		w.waits("new")
		w.delete("old")
		time.Sleep(soon)
		w.on("new", "node-b")
	})
}

// A pod waits for room, and when that is there, for something else: it says so, and goes when that comes.
func TestOneReasonHidesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local", UID: "local"}, Provisioner: "kubernetes.io/no-provisioner"}
		class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
		w := newWorld(t, class, claim("data", "local", v1.ReadWriteOnce))
		w.node(node("node-a", "4"))
		w.start()
		w.create(pod("large", "4"))
		w.on("large", "node-a")
		w.create(mounting(pod("p", "1"), "data"))
		w.waits("p")
		w.delete("large")
		time.Sleep(soon)
		const want = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. " +
			"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
		if c := condition(w.pod("p"), v1.PodScheduled); c.Message != want {
			t.Errorf("%q", c.Message)
		}
		tried := w.attempts("p")
		for i := range 5 { // that room comes and goes is nothing to it
			w.create(pod(fmt.Sprint("q", i), "4"))
			synctest.Wait()
			w.delete(fmt.Sprint("q", i))
			time.Sleep(soon)
		}
		if n := w.attempts("p"); n != tried {
			t.Errorf("tried %d times more, though nothing that helps has happened", n-tried)
		}
		w.client.after = func(_ context.Context, ref client.Ref) {
			if ref.Resource == client.Volumes.At("", "").Resource {
				change(w, client.Claims.At("ns", "data"), func(c *v1.PersistentVolumeClaim) {
					c.Spec.VolumeName = ref.Name
					metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
				})
				change(w, client.Claims.At("ns", "data").Sub("status"), func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimBound })
			}
		}
		pv := localVolume("pv", "node-a")
		if _, err := w.admin.Create(context.Background(), client.Volumes.At("", ""), pv); err != nil {
			t.Fatal(err)
		}
		change(w, client.Volumes.At("", "pv").Sub("status"), func(pv *v1.PersistentVolume) { pv.Status.Phase = v1.VolumeAvailable })
		time.Sleep(soon)
		w.on("p", "node-a")
	})
}

// A profile's own constraints hold pods that say nothing; they go when the others have left, or a node comes.
func TestDefaultConstraintsThatHold(t *testing.T) {
	for _, how := range []string{"pod leaves", "node goes"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var err error
				w.profiles, err = profile.Read([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - {name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}}
`), profile.Given{Like: func(*v1.Pod) labels.Selector { return labels.SelectorFromSet(labels.Set{"app": "web"}) }})
				if err != nil {
					t.Fatal(err)
				}
				w.node(inZone("node-a", "a"))
				w.node(inZone("node-b", "b"))
				w.cordon("node-b", true)
				w.start()
				w.create(labelled("one", "web"))
				w.on("one", "node-a")
				w.create(labelled("two", "web"))
				w.waits("two")
				if how == "pod leaves" {
					w.node(inZone("node-a2", "a"))
					w.cordon("node-a", true)
					time.Sleep(soon)
					w.waits("two")
					w.delete("one")
				} else if err := w.admin.Delete(context.Background(), client.Nodes.At("", "node-b"), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(soon)
				w.on("two", map[string]string{"pod leaves": "node-a2", "node goes": "node-a"}[how])
			})
		})
	}
}

// Others may say where a pod is to go: room there is held for it until they say something else.
func TestOthersNominate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		w.node(node("node-a", "1"))
		w.node(node("node-b", "4"))
		w.cordon("node-b", true)
		w.start()
		w.create(ranked("rival", "4", 50)) // and has waited for longer
		w.waits("rival")
		w.create(ranked("suggested", "4", 50))
		w.waits("suggested")
		suggest := func(node string) {
			change(w, client.Pods.At("ns", "suggested").Sub("status"), func(p *v1.Pod) { p.Status.NominatedNodeName = node })
			synctest.Wait()
		}
		suggest("node-a")
		w.create(ranked("low", "1", 1))
		w.waits("low")
		suggest("node-b") // and nobody holds node-a any more
		time.Sleep(soon)
		w.on("low", "node-a")
		w.cordon("node-b", false)
		time.Sleep(soon)
		w.on("suggested", "node-b")
	})
}

// Where a pod will be is known while what must happen before it is bound lasts, and it does not hold up others when it is deleted meanwhile.
func TestWhatComesBeforeTheBindTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := withDisks(w)
		d.hangs = make(chan struct{})
		w.node(node("node-a", "1"))
		w.disk("x", "node-a")
		w.start()
		p := needs("p", "x")
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
		p.Finalizers = []string{"example.com/stays"}
		w.create(p)
		if got := w.pod("p").Status.NominatedNodeName; got != "node-a" {
			t.Errorf("nominated to %q", got)
		}
		w.create(pod("q", "1"))
		w.waits("q")
		w.delete("p")
		time.Sleep(soon)
		w.on("q", "node-a")
		close(d.hangs)
		w.on("p", "")
	})
}

// Somebody else's word of where a pod is to go makes no room: what the scheduler can do elsewhere it does as for any other.
func TestASuggestionMakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowdedWorld(t, node("node-a", "1"), ranked("low", "1", 1))
		w.cordon("node-a", true)
		w.create(ranked("high", "1", 100))
		w.waits("high")
		change(w, client.Pods.At("ns", "high").Sub("status"), func(p *v1.Pod) { p.Status.NominatedNodeName = "to-come" })
		synctest.Wait()
		w.cordon("node-a", false)
		time.Sleep(soon)
		if got := w.pod("high").Status.NominatedNodeName; got != "node-a" {
			t.Errorf("waits on %q", got)
		}
	})
}

// What the scheduler wanted before, and wrote so late that it wants something else by then, is nobody's suggestion: the room that is made
// stays the pod's.
func TestAnOldNominationIsNoSuggestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		w.node(node("node-a", "1"))
		w.start()
		w.create(ranked("one", "1", 1))
		w.on("one", "node-a")
		writing := make(chan struct{})
		told := 0 // by one reporter at a time, as it is of one pod
		w.client.before = func(_ context.Context, ref client.Ref) {
			if ref.Name == "high" {
				<-writing
				told++
			}
		}
		w.create(ranked("high", "1", 100))
		synctest.Wait()
		other := node("node-b", "1")
		other.Spec.Unschedulable = true
		w.node(other)
		two := ranked("two", "1", 1)
		two.Spec.NodeName = "node-b"
		w.create(two)
		w.cordon("node-b", false)
		if err := w.admin.Delete(context.Background(), client.Nodes.At("", "node-a"), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.create(ranked("middle", "1", 50))
		w.waits("middle")
		time.Sleep(1500 * time.Millisecond) // would be tried before high, which has been tried twice
		writing <- struct{}{}               // that node-a is wanted
		synctest.Wait()
		if told != 1 || w.pod("high").Status.NominatedNodeName != "node-a" {
			t.Fatalf("told %d times: %+v", told, w.pod("high").Status)
		}
		if n := w.attempts("middle"); n != 1 {
			t.Errorf("middle was tried %d times", n)
		}
		w.delete("two")
		w.on("high", "node-b")
		close(writing)
	})
}
