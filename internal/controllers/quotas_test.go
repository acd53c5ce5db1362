package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/quotas"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

var resourceQuotas = client.Resource{Resource: "resourcequotas"}

func (w *world) quotas() {
	w.t.Helper()
	w.everyNamespace()
	w.run(quotas.New(w.view, w.controllers, registry.All(), nil))
	synctest.Wait()
}

func quota(name string, hard v1.ResourceList) *v1.ResourceQuota {
	return &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.ResourceQuotaSpec{Hard: hard}}
}

func amounts(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// used is a quota's status in one line, "cpu 1/2".
func (w *world) used(name string) string {
	w.t.Helper()
	q := w.get(resourceQuotas.At("default", name)).(*v1.ResourceQuota)
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		used, hard := q.Status.Used[n], q.Status.Hard[n]
		parts = append(parts, fmt.Sprintf("%s %s/%s", n, used.String(), hard.String()))
	}
	return strings.Join(parts, ", ")
}

func (w *world) usedIs(name, want string) {
	w.t.Helper()
	if got := w.used(name); got != want {
		w.t.Errorf("%s: %s, want %s", name, got, want)
	}
}

func sized(name, cpu string) *v1.Pod {
	p := pod(name, "")
	p.Spec.Containers[0].Resources.Requests = amounts("cpu", cpu)
	return p
}

func (w *world) createPod(p *v1.Pod) error {
	_, err := w.admin.Create(context.Background(), client.Pods.At(p.Namespace, ""), p)
	return err
}

func (w *world) refused(err error, text string) {
	w.t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
		w.t.Errorf("got %v, want a refusal with %q", err, text)
	}
}

// A quota's story: it counts what is there, bounds what comes, says why it refuses, and gets back what ends, goes or shrinks.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := newWorld(t), context.Background()
		w.quotas()
		w.must(nil, w.createPod(sized("before", "1")))
		w.must(w.admin.Create(ctx, resourceQuotas.At("default", ""), quota("q", amounts("pods", "3", "requests.cpu", "3", "count/configmaps", "2"))))
		w.usedIs("q", "count/configmaps 1/2, pods 1/3, requests.cpu 1/3") // the certificate authority's is there

		w.must(nil, w.createPod(sized("a", "1500m")))
		w.usedIs("q", "count/configmaps 1/2, pods 2/3, requests.cpu 2500m/3")
		w.refused(w.createPod(sized("b", "1")),
			`pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=2500m, limited: requests.cpu=3`)
		w.refused(w.createPod(pod("c", "")), `pods "c" is forbidden: failed quota: q: must specify requests.cpu for: c`)
		generated := sized("", "1")
		generated.GenerateName = "g-"
		err := w.createPod(generated)
		w.refused(err, `" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=2500m, limited: requests.cpu=3`)
		if named := regexp.MustCompile(`^pods "g-[a-z0-9]{5}" `); err != nil && !named.MatchString(err.Error()) {
			t.Errorf("%v: want the generated name", err)
		}
		w.usedIs("q", "count/configmaps 1/2, pods 2/3, requests.cpu 2500m/3")

		w.must(w.admin.Mutate(ctx, client.Pods.At("default", "a").Sub("status"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Status.Phase = v1.PodSucceeded
			return true, nil
		}))
		w.usedIs("q", "count/configmaps 1/2, pods 1/3, requests.cpu 1/3")
		w.delete(client.Pods.At("default", "before"))
		w.usedIs("q", "count/configmaps 1/2, pods 0/3, requests.cpu 0/3")

		config := func(name string) error {
			_, err := w.admin.Create(ctx, client.ConfigMaps.At("default", ""), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
			return err
		}
		w.must(nil, config("one"))
		w.refused(config("two"), `configmaps "two" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2`)
		w.must(w.admin.Mutate(ctx, resourceQuotas.At("default", "q"), func(o runtime.Object) (bool, error) {
			o.(*v1.ResourceQuota).Spec.Hard = amounts("count/configmaps", "3")
			return true, nil
		}))
		w.usedIs("q", "count/configmaps 2/3")
		w.must(nil, config("two"))
		w.usedIs("q", "count/configmaps 3/3")
	})
}

// Of a hundred who create at once, exactly as many succeed as the quota allows, and each of them at the first attempt.
func TestAHundredCreatorsUnderAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.quotas()
		w.must(w.admin.Create(context.Background(), resourceQuotas.At("default", ""), quota("q", amounts("pods", "37", "requests.cpu", "100"))))
		w.must(w.admin.Create(context.Background(), resourceQuotas.At("default", ""), quota("other", amounts("requests.cpu", "50"))))
		synctest.Wait()
		var created atomic.Int32
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				switch err := w.createPod(sized(fmt.Sprint("p", i), "1")); {
				case err == nil:
					created.Add(1)
				case !apierrors.IsForbidden(err):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := created.Load(); n != 37 {
			t.Errorf("%d were created", n)
		}
		w.usedIs("q", "pods 37/37, requests.cpu 37/100")
		w.usedIs("other", "requests.cpu 37/50")
		// No two at one revision: a watch resumes behind one.
		at := map[int64]string{}
		for e := range w.view.Snapshot().All(client.Pods.At("", "").Resource, "default", view.Key{}) {
			if other := at[e.Rev]; other != "" {
				t.Errorf("%s and %s share revision %d", e.Key.Name, other, e.Rev)
			}
			at[e.Rev] = e.Key.Name
		}
	})
}

// meeting runs something just before a transaction that writes a key is committed, once, when skip such ones have been.
type meeting struct {
	store.Store
	key string

	mu   sync.Mutex
	skip int
	meet func()
}

func (m *meeting) at(skip int, meet func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skip, m.meet = skip, meet
}

func (m *meeting) Txn(ctx context.Context, conds []store.Cond, ops []store.Op) (store.TxnResult, error) {
	if slices.ContainsFunc(ops, func(op store.Op) bool { return op.Key == m.key }) {
		if meet := m.next(); meet != nil {
			meet()
		}
	}
	return m.Store.Txn(ctx, conds, ops)
}

func (m *meeting) next() func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.skip--; m.skip >= 0 {
		return nil
	}
	meet := m.meet
	m.meet = nil
	return meet
}

// A creation that was admitted when there was no quota yet, or one that nobody had counted for, is charged all the same.
func TestANewQuotaMeetsACreation(t *testing.T) {
	for _, c := range []struct{ name, key string }{
		{"the quota is made and counted while the pod is on its way", "/registry/pods/default/p"},
		{"the pod is made while the count is on its way", "/registry/resourcequotas/default/q"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, s := viewtest.New(t)
				m := &meeting{Store: s, key: c.key}
				vs, err := verbs.New(verbs.Config{Store: m, View: v, Kinds: registry.All()})
				if err != nil {
					t.Fatal(err)
				}
				w := worldOf(t, v, s, vs)
				w.quotas()
				first := func() {
					w.must(w.admin.Create(context.Background(), resourceQuotas.At("default", ""), quota("q", amounts("pods", "3"))))
				}
				second := func() { w.must(nil, w.createPod(pod("p", ""))) }
				if c.key == "/registry/pods/default/p" {
					m.at(0, func() { first(); synctest.Wait() })
					second()
				} else {
					m.at(1, second) // the second write of the quota is the count
					first()
				}
				w.usedIs("q", "pods 1/3")
			})
		})
	}
}

// Of those who create the same name at once one succeeds, is charged, and leaves the others' creations beside it unharmed.
func TestTheSameNameUnderAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.quotas()
		w.must(w.admin.Create(context.Background(), resourceQuotas.At("default", ""), quota("q", amounts("pods", "100"))))
		synctest.Wait()
		var created, taken atomic.Int32
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				switch err := w.createPod(sized(fmt.Sprint("p", i%20), "1")); {
				case err == nil:
					created.Add(1)
				case apierrors.IsAlreadyExists(err):
					taken.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if created.Load() != 20 || taken.Load() != 40 {
			t.Errorf("%d were created, %d were told that the name is taken", created.Load(), taken.Load())
		}
		w.usedIs("q", "pods 20/100")
	})
}

// TestQuotaProperty: whatever is created, deleted, ended and rebounded at the same time, what is used never exceeds a bound that
// nobody has lowered, a quota never says less than what there is, and when all is quiet it says what there is.
func TestQuotaProperty(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { quotaProperty(newWorld(t), seed) })
		})
	}
}

func quotaProperty(w *world, seed uint64) {
	w.quotas()
	ctx := context.Background()
	w.must(w.admin.Create(ctx, resourceQuotas.At("default", ""), quota("fixed", amounts("pods", "8", "requests.cpu", "6"))))
	w.must(w.admin.Create(ctx, resourceQuotas.At("default", ""), quota("moving", amounts("requests.cpu", "9"))))
	synctest.Wait()
	var all sync.WaitGroup
	for worker := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, worker))
		all.Go(func() {
			for range 40 {
				w.disturb(r)
				w.neverLess()
				time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
			}
		})
	}
	all.Wait()
	synctest.Wait()
	cpu, pods := w.truth()
	q := w.get(resourceQuotas.At("default", "fixed")).(*v1.ResourceQuota)
	if n, c := q.Status.Used["pods"], q.Status.Used["requests.cpu"]; n.Value() != pods || c.MilliValue() != cpu {
		w.t.Errorf("%d pods use %dm, the quota says %s", pods, cpu, w.used("fixed"))
	}
	if pods > 8 || cpu > 6000 {
		w.t.Errorf("%d pods use %dm", pods, cpu)
	}
	for e := range w.view.Snapshot().All(resourceQuotas.At("", "").Resource, "default", view.Key{}) {
		if c := e.Object.(*v1.ResourceQuota).Status.Used["requests.cpu"]; c.MilliValue() != cpu {
			w.t.Errorf("%dm are used, the quota %s says %s", cpu, e.Key.Name, w.used(e.Key.Name))
		}
	}
}

// disturb does something random. Most of it may fail.
func (w *world) disturb(r *rand.Rand) {
	ctx, name := context.Background(), fmt.Sprint("p", r.IntN(20))
	switch r.IntN(10) {
	case 0, 1, 2, 3, 4:
		_ = w.createPod(sized(name, fmt.Sprintf("%dm", 100*(1+r.IntN(12)))))
	case 5, 6:
		_ = w.admin.Delete(ctx, client.Pods.At("default", name), metav1.DeleteOptions{})
	case 7:
		_, _ = w.admin.Mutate(ctx, client.Pods.At("default", name).Sub("status"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Status.Phase = v1.PodFailed
			return true, nil
		})
	case 8:
		_, _ = w.admin.Mutate(ctx, resourceQuotas.At("default", "moving"), func(o runtime.Object) (bool, error) {
			o.(*v1.ResourceQuota).Spec.Hard = amounts("requests.cpu", fmt.Sprint(3+r.IntN(9)))
			return true, nil
		})
	case 9: // a new quota finds creations on their way
		name := fmt.Sprint("new", r.IntN(3))
		if r.IntN(2) == 0 {
			_ = w.admin.Delete(ctx, resourceQuotas.At("default", name), metav1.DeleteOptions{})
			return
		}
		_, _ = w.admin.Create(ctx, resourceQuotas.At("default", ""), quota(name, amounts("requests.cpu", "20")))
	}
}

// truth is what the pods that are charged for use, as of the newest snapshot.
func (w *world) truth() (cpu, pods int64) {
	s, err := w.view.Fresh(context.Background())
	if err != nil {
		w.t.Error(err)
	}
	return truthIn(s)
}

func truthIn(s view.Snapshot) (cpu, pods int64) {
	for e := range s.All(client.Pods.At("", "").Resource, "default", view.Key{}) {
		if p := e.Object.(*v1.Pod); p.Status.Phase != v1.PodFailed && p.Status.Phase != v1.PodSucceeded {
			cpu += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			pods++
		}
	}
	return cpu, pods
}

// neverLess looks at one moment: no quota that has been counted says less than what is used, and the fixed one is not exceeded.
func (w *world) neverLess() {
	s := w.view.Snapshot()
	cpu, pods := truthIn(s)
	if cpu > 6000 || pods > 8 {
		w.t.Errorf("at %d %d pods use %dm", s.Rev(), pods, cpu)
	}
	for e := range s.All(resourceQuotas.At("", "").Resource, "default", view.Key{}) {
		q := e.Object.(*v1.ResourceQuota)
		used, ok := q.Status.Used["requests.cpu"]
		if ok && q.Name == "fixed" && used.MilliValue() < cpu {
			w.t.Errorf("at %d pods use %dm, and %s says %s", s.Rev(), cpu, q.Name, used.String())
		}
	}
}
