package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler"
	"podo.dev/podo/internal/scheduler/shapes"
	"podo.dev/podo/internal/timeline"
)

// watched counts what a scheduler does about many pods.
type watched struct {
	*api
	attempts, events, writes int
	messages                 map[string]bool
}

func (w *watched) Eventf(_, _ runtime.Object, _, reason, _, format string, args ...any) {
	if reason != "FailedScheduling" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events++
	w.messages[fmt.Sprintf(format, args...)] = true
}

func (w *watched) Mutate(ctx context.Context, ref client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	return w.api.Mutate(ctx, ref, func(o runtime.Object) (bool, error) {
		changed, err := change(o)
		if changed {
			w.writes++ // under api's lock
		}
		return changed, err
	})
}

// watch runs a scheduler, whose attempts are counted, until stop is called.
func (w *watched) watch(t *testing.T) (stop func()) {
	sched, err := scheduler.New(scheduler.Config{View: w.view, Client: w, Events: func(string) scheduler.Recorder { return w }, Seed: 1, Append: func(r timeline.Record) {
		if r.Stage == timeline.Attempt {
			w.mu.Lock()
			w.attempts++
			w.mu.Unlock()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sched.Run(ctx, func() {}) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Ten thousand pods that go nowhere are tried once each, say why in one text, and cost nothing from then on: neither heartbeats nor changes
// of nodes that do not help them wake any. What helps some wakes them, and they go.
func TestTenThousandUnschedulable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 10_000
		w := &watched{api: newAPI(t), messages: map[string]bool{}}
		for i := range 10 {
			w.put(nodeKind, shapes.Node(i, nil))
		}
		for i := range count {
			p := shapes.Pod(fmt.Sprint("p-", i), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} })
			p.Namespace = "ns"
			w.put(podKind, p)
		}
		defer w.watch(t)()
		synctest.Wait()
		for i := range 20 { // heartbeats, and a cordon that helps nobody
			time.Sleep(10 * time.Second)
			n := shapes.Node(i%10, nil)
			n.Spec.Unschedulable = i%2 == 0
			n.Status.Conditions[0].LastHeartbeatTime.Time = time.Now()
			w.put(nodeKind, n)
			synctest.Wait()
		}
		if w.attempts != count || w.events != count || w.writes != count || len(w.messages) != 1 {
			t.Errorf("%d attempts, %d events of %d texts, %d writes; each pod has one", w.attempts, w.events, len(w.messages), w.writes)
		}
		w.left.Store(110)
		w.put(nodeKind, shapes.Node(0, map[string]string{"disk": "fast"}))
		<-w.done
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if woken := w.attempts - count; woken != 110 {
			t.Errorf("room for 110 woke %d", woken)
		}
	})
}

// Who was woken for room and does not take it, since it left or found better, leaves it to the next.
func TestRoomIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "1"))
		failing := false
		w.client.bind = func(ctx context.Context, b *v1.Binding) error {
			if failing {
				failing = false
				if err := w.admin.Delete(ctx, client.Pods.At("ns", b.Name), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
					t.Error(err)
				}
			}
			return w.client.really(ctx, b)
		}
		w.start()
		w.create(pod("first", "1"))
		w.on("first", "node-a")
		for i := range 5 {
			w.create(pod(fmt.Sprint("waits-", i), "1"))
		}
		synctest.Wait()
		failing = true // the one that is woken goes while it is being bound
		w.delete("first")
		time.Sleep(time.Minute)
		on := 0
		for i := range 5 {
			obj, err := w.admin.Get(context.Background(), client.Pods.At("ns", fmt.Sprint("waits-", i)))
			if err == nil && obj.(*v1.Pod).Spec.NodeName == "node-a" {
				on++
			}
		}
		if on != 1 || failing {
			t.Errorf("%d of those that waited are on the node", on)
		}
	})
}

// A node that vanishes between the decision and the bind: the pod is bound to what is not there any more, or not at all, as the API says; the
// room is nobody's twice, and everybody else goes elsewhere.
func TestNodeVanishesBeforeTheBind(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprint("refused=", refused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.node(node("node-a", "4"))
				first := true
				w.client.bind = func(ctx context.Context, b *v1.Binding) error {
					if first {
						first = false
						if err := w.admin.Delete(ctx, client.Nodes.At("", "node-a"), metav1.DeleteOptions{}); err != nil {
							t.Error(err)
						}
						if refused {
							return errors.New("no such node")
						}
					}
					return w.client.really(ctx, b)
				}
				w.start()
				w.create(pod("p", "3"))
				synctest.Wait()
				w.node(node("node-b", "4"))
				w.create(pod("q", "3"))
				time.Sleep(time.Minute)
				if refused { // both want node-b, which has room for one
					on := 0
					for _, name := range []string{"p", "q"} {
						if w.pod(name).Spec.NodeName == "node-b" {
							on++
						}
					}
					if on != 1 {
						t.Errorf("%d pods are on node-b", on)
					}
					return
				}
				w.on("p", "node-a")
				w.on("q", "node-b")
			})
		})
	}
}

// localVolume is one of a gigabyte on a node.
func localVolume(name, node string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv.Spec.StorageClassName, pv.Spec.VolumeMode = "local", new(v1.PersistentVolumeFilesystem)
	pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	pv.Spec.Local = &v1.LocalVolumeSource{Path: "/mnt"}
	pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	pv.Status.Phase = v1.VolumeAvailable
	return pv
}

// The volume that was chosen for a pod's claim goes to another claim before it is bound: the pod is not bound to that node, but goes where the
// other volume is.
func TestVolumeIsTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local", UID: "local"}, Provisioner: "kubernetes.io/no-provisioner"}
		class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "data"}}
		claim.Spec.AccessModes, claim.Spec.StorageClassName = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, new("local")
		claim.Spec.VolumeMode = new(v1.PersistentVolumeFilesystem)
		claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		claim.Status.Phase = v1.ClaimPending
		w := newWorld(t, class, claim, localVolume("pv-a", "node-a"), localVolume("pv-b", "node-b"))
		w.node(node("node-a", "4"))
		w.node(node("node-b", "4"))
		change := func(ctx context.Context, ref client.Ref, f func(runtime.Object)) {
			if _, err := w.admin.Mutate(ctx, ref, func(o runtime.Object) (bool, error) { f(o); return true, nil }); err != nil {
				t.Error(err)
			}
		}
		taken := ""
		w.client.before = func(ctx context.Context, ref client.Ref) {
			if ref.Resource == client.Volumes.At("", "").Resource && taken == "" {
				taken = ref.Name
				change(ctx, ref, func(o runtime.Object) {
					o.(*v1.PersistentVolume).Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "ns", Name: "faster", UID: "faster"}
				})
			}
		}
		w.client.after = func(ctx context.Context, ref client.Ref) {
			if ref.Resource != client.Volumes.At("", "").Resource {
				return
			}
			data := client.Claims.At("ns", "data") // the volume controller's part
			change(ctx, data, func(o runtime.Object) {
				o.(*v1.PersistentVolumeClaim).Spec.VolumeName = ref.Name
				metav1.SetMetaDataAnnotation(&o.(*v1.PersistentVolumeClaim).ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
			})
			change(ctx, data.Sub("status"), func(o runtime.Object) { o.(*v1.PersistentVolumeClaim).Status.Phase = v1.ClaimBound })
		}
		w.start()
		p := pod("p", "1")
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		w.create(p)
		w.on("p", "")
		time.Sleep(time.Minute)
		want := map[string]string{"pv-a": "node-b", "pv-b": "node-a"}[taken]
		if want == "" {
			t.Fatal("no volume was chosen")
		}
		w.on("p", want)
	})
}

// Hours pass at once, as timers have it after a machine has slept: who is unschedulable has been tried every five minutes and not more often, a bind
// that fails every ten seconds at most, room that is being made is not made again, and the next pod is bound as if nothing had been.
func TestHoursPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		w.node(node("node-a", "2"))
		tried := 0
		w.client.bind = func(ctx context.Context, b *v1.Binding) error {
			if b.Name == "fails" {
				tried++
				return apierrors.NewConflict(podKind, b.Name, errors.New("not now"))
			}
			return w.client.really(ctx, b)
		}
		w.start()
		low := ranked("low", "2", 1)
		low.Finalizers = []string{"example.com/stays"} // it leaves, but not for hours
		w.create(low)
		w.on("low", "node-a")
		w.create(pod("large", "100"))
		w.create(ranked("high", "2", 100))
		w.create(pod("fails", "0"))
		const slept = 6 * time.Hour
		time.Sleep(slept)
		attempts, events := map[string]int{}, 0
		w.mu.Lock()
		for _, r := range w.records {
			if r.Stage == timeline.Attempt {
				attempts[r.Pod.Name]++
			}
		}
		for _, e := range w.events {
			if strings.HasPrefix(e, "Normal Preempted") {
				events++
			}
		}
		w.mu.Unlock()
		rounds := int(slept / (5 * time.Minute))
		for _, name := range []string{"large", "high"} {
			if n := attempts[name]; n < rounds || n > rounds+2 {
				t.Errorf("%s was tried %d times in %v", name, n, slept)
			}
		}
		if most := int(slept / (10 * time.Second)); tried < most-1 || tried > most+5 {
			t.Errorf("a bind that fails was tried %d times in %v", tried, slept)
		}
		if events != 1 {
			t.Errorf("%d pods were told to leave", events)
		}
		w.create(pod("next", "0"))
		w.on("next", "node-a")
	})
}
