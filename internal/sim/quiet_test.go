package sim

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
)

// What a pod of which nothing is heard may cost: its share of the live heap with all that knows of it, and no goroutine but that of the fake
// runtime's container. Measured were 15.2 to 15.5 kB, of which 8 are the fakes' and the store's in memory. Nothing is asked about it, and nothing of it is
// written.
func TestAQuietPodCostsLittle(t *testing.T) {
	const (
		pods    = 50
		atMost  = 17_000 // bytes
		ofFakes = 1      // goroutines
	)
	synctest.Test(t, func(t *testing.T) {
		w := New(t, Options{Seed: 1, Nodes: pods / 10, Real: true})
		defer w.Stop()
		time.Sleep(time.Minute)
		// The first ones make what stays: maps, caches, the heap itself.
		w.run(pods)
		w.remove(pods)
		before, goroutines := w.inUse()
		w.run(pods)
		after, now := w.inUse()
		each := (int64(after) - int64(before)) / pods
		t.Logf("%d bytes and %.2f goroutines for each pod", each, float64(now-goroutines)/pods)
		if each > atMost {
			t.Errorf("each pod takes %d bytes, at most %d are wanted", each, atMost)
		}
		if now-goroutines > ofFakes*pods {
			t.Errorf("%d pods have %d goroutines", pods, now-goroutines)
		}
		w.nothingIsDone(t)
		w.remove(pods)
	})
}

// forgotten is when the view holds nothing of what came and went.
const forgotten = 8 * time.Minute

// run has so many pods run, and waits until what led there is forgotten.
func (w *World) run(pods int) {
	for i := range pods {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("quiet-%d", i)}}
		p.Spec.Containers = []v1.Container{{Name: "main", Image: Image, ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sleep", "inf"}}}
		_, err := w.admin.Create(w.ctx(), client.Pods.At("default", ""), p)
		w.must(err)
	}
	time.Sleep(forgotten)
	for i := range pods {
		e := w.View.Snapshot().Get(podKind, "default", fmt.Sprintf("quiet-%d", i))
		if e == nil || e.Object.(*v1.Pod).Status.Phase != v1.PodRunning {
			w.t.Fatalf("quiet-%d does not run", i)
		}
	}
}

func (w *World) remove(pods int) {
	for i := range pods {
		w.must(w.admin.Delete(w.ctx(), client.Pods.At("default", fmt.Sprintf("quiet-%d", i)), *metav1.NewDeleteOptions(0)))
	}
	time.Sleep(forgotten)
}

// inUse is what is alive in this process, without what the store remembers of the past.
func (w *World) inUse() (bytes uint64, goroutines int) {
	synctest.Wait()
	rev, err := w.store.Revision(w.ctx())
	w.must(err)
	w.must(w.store.Compact(w.ctx(), rev))
	runtime.GC()
	runtime.GC() // what had a finalizer, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
}

// nothingIsDone watches a while: what is asked and written is the nodes' affair, however many pods they have.
func (w *World) nothingIsDone(t *testing.T) {
	asked := func() (n int) {
		for _, m := range w.machines {
			n += m.Runtime.Calls("PodSandboxStatus") + m.Runtime.Calls("ContainerStatus")
		}
		return n
	}
	before, changed := asked(), w.View.Snapshot().ResourceRev(podKind)
	time.Sleep(20 * time.Minute)
	if n := asked() - before; n > 0 {
		t.Errorf("the runtime was asked %d times about pods of which nothing was heard", n)
	}
	if now := w.View.Snapshot().ResourceRev(podKind); now != changed {
		t.Errorf("a pod was written at revision %d, the last one before was %d", now, changed)
	}
}
