package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

func configMap(name, value string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: map[string]string{"v": value}}
}

// world is a view with one controller over its ConfigMaps, supervised.
type world struct {
	t     *testing.T
	view  *view.View
	store store.Store
	board *Board
}

func newWorld(t *testing.T) *world {
	v, s := viewtest.New(t)
	return &world{t, v, s, NewBoard()}
}

func (w *world) put(name, value string) int64 {
	return viewtest.Put(w.t, w.store, configMap(name, value))
}

func (w *world) loop(name string, reconcile func(ctx context.Context, now view.Snapshot, key view.Key) (Result, error)) component.Component {
	return component.Func(name, func(ctx context.Context, ready func()) error {
		l, err := New(Config{Name: name, View: w.view, Reconcile: reconcile, Watches: []Watch{{Resource: configMaps, Keys: func(c view.Change) []view.Key {
			if c.New == nil {
				return nil
			}
			return []view.Key{c.New.Key}
		}}}})
		if err != nil {
			return err
		}
		return w.board.Run(ctx, l, ready)
	})
}

func (w *world) supervise(all ...component.Component) *component.Supervisor {
	s := component.NewSupervisor(component.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.Run(ctx, func() { close(ready) }, all...) }()
	<-ready
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	return s
}

func (w *world) page() string {
	r := httptest.NewRecorder()
	w.board.ServeHTTP(r, httptest.NewRequest("GET", "/debug/controllers", nil))
	return r.Body.String()
}

// gauge reads one of the metrics of a queue.
func (w *world) metric(name, queue string) float64 {
	r := prometheus.NewRegistry()
	r.MustRegister(w.board)
	families, err := r.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == queue {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	w.t.Fatalf("no metric %s of %s", name, queue)
	return 0
}

// A panic ends and restarts its own controller; the other one does not notice.
func TestAPanicIsItsControllersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var calm, hurt atomic.Int32
		s := w.supervise(
			w.loop("hurt", func(_ context.Context, _ view.Snapshot, key view.Key) (Result, error) {
				if hurt.Add(1) == 1 && key.Name == "bad" {
					panic("oh")
				}
				return Result{}, nil
			}),
			w.loop("calm", func(context.Context, view.Snapshot, view.Key) (Result, error) { calm.Add(1); return Result{}, nil }),
		)
		w.put("bad", "1")
		time.Sleep(time.Minute)
		h := s.Health()
		if h[0].Restarts != 1 || h[0].State != component.Ready || !strings.Contains(h[0].LastError, "panic: oh") || h[1].Restarts != 0 {
			t.Errorf("%+v", h)
		}
		if hurt.Load() != 2 || calm.Load() != 1 {
			t.Errorf("looked %d and %d times", hurt.Load(), calm.Load())
		}
	})
}

// What fails comes again ever later, is shown with its error, and holds nobody up.
func TestWhatFailsBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var tries, others atomic.Int32
		var healed atomic.Bool
		w.supervise(w.loop("c", func(_ context.Context, _ view.Snapshot, key view.Key) (Result, error) {
			if key.Name != "bad" {
				others.Add(1)
				return Result{}, nil
			}
			tries.Add(1)
			if healed.Load() {
				return Result{}, nil
			}
			return Result{}, errors.New("it is broken")
		}))
		w.put("bad", "1")
		for i := range 50 {
			w.put(fmt.Sprint("good", i), "1")
		}
		time.Sleep(10 * time.Minute)
		if n := tries.Load(); n < 10 || n > 20 {
			t.Errorf("%d tries in ten minutes", n)
		}
		if others.Load() != 50 {
			t.Errorf("%d of the others", others.Load())
		}
		if page := w.page(); !strings.Contains(page, "c: 0 waiting, 0 at work") || !strings.Contains(page, "a/bad failed ") || !strings.Contains(page, "it is broken") {
			t.Errorf("the page says\n%s", page)
		}
		if got := w.metric("workqueue_retries_total", "c"); got != float64(tries.Load()) {
			t.Errorf("%v retries are counted, %d were", got, tries.Load())
		}
		healed.Store(true)
		time.Sleep(2 * time.Minute)
		if page := w.page(); !strings.Contains(page, "0 failing\n") || strings.Contains(page, "bad") {
			t.Errorf("healed, the page says\n%s", page)
		}
		if depth, adds := w.metric("workqueue_depth", "c"), w.metric("workqueue_adds_total", "c"); depth != 0 || adds < 51 {
			t.Errorf("depth %v, adds %v", depth, adds)
		}
		if got := w.metric("workqueue_work_duration_seconds", "c"); got < 51 {
			t.Errorf("%v keys worked on", got)
		}
	})
}

// Two controllers that undo each other's work do it in no hurry, and what else they do goes on.
func TestAFightIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		writes, others := 0, 0
		fighter := func(value string) func(context.Context, view.Snapshot, view.Key) (Result, error) {
			return func(_ context.Context, s view.Snapshot, key view.Key) (Result, error) {
				mu.Lock()
				defer mu.Unlock()
				if key.Name != "prize" {
					others++
					return Result{}, nil
				}
				if s.Get(configMaps, key.Namespace, key.Name).Object.(*v1.ConfigMap).Data["v"] == value {
					return Result{}, nil
				}
				writes++
				return Result{Wrote: w.put("prize", value)}, nil
			}
		}
		w.supervise(w.loop("left", fighter("left")), w.loop("right", fighter("right")))
		w.put("prize", "")
		time.Sleep(time.Minute)
		mu.Lock()
		before := writes
		mu.Unlock()
		w.put("other", "1")
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if rate := writes - before; rate < 60 || rate > 2*60*int(paceSecond)+10 {
			t.Errorf("%d writes in the second minute", rate)
		}
		if others != 2 {
			t.Errorf("the other key was looked at %d times", others)
		}
	})
}

// A controller whose own kind is quiet does not keep the other kinds' objects as they were when it last heard of anything.
func TestAQuietKindHoldsNothingElse(t *testing.T) {
	s := mem.New(mem.Options{})
	v := viewtest.Start(t, view.Config{Store: s, Retained: 1, HistoryChanges: 1})
	w := &world{t, v, s, NewBoard()}
	secret := func(value string) *v1.Secret {
		return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}, Data: map[string][]byte{"v": []byte(value)}}
	}
	fresh := func() view.Snapshot {
		now, err := v.Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	viewtest.Put(t, s, secret("first"))
	first := weak.Make(fresh().Get(schema.GroupResource{Resource: "secrets"}, "a", "s").Object.(*v1.Secret))
	reconciled := make(chan struct{}, 1)
	w.supervise(w.loop("quiet", func(context.Context, view.Snapshot, view.Key) (Result, error) {
		reconciled <- struct{}{}
		return Result{}, nil
	}))
	w.put("c", "1")
	<-reconciled
	for i := range 200 { // the history keeps some of them
		viewtest.Put(t, s, secret(fmt.Sprint(i)))
		fresh()
	}
	runtime.GC()
	runtime.GC()
	if first.Value() != nil {
		t.Error("the first version of an object of another kind is held")
	}
}

// A change that asks for a key while the view does not have what its controller wrote is counted, once for each wait, and the key is looked at
// once the view has it.
func TestLooksArePutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var looks atomic.Int32
		l, err := New(Config{
			Name: "ahead", View: w.view, Skips: SkippedLooks("ahead_controller"), Watches: []Watch{{Resource: configMaps, Keys: Itself}},
			Reconcile: func(_ context.Context, s view.Snapshot, _ view.Key) (Result, error) {
				if looks.Add(1) > 1 {
					return Result{}, nil
				}
				return Result{Wrote: s.Rev() + 2}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.supervise(component.Func("ahead", func(ctx context.Context, ready func()) error { return w.board.Run(ctx, l, ready) }))
		told := func() float64 { return w.metric("ahead_controller_stale_sync_skips_total", "") }
		w.put("a", "1")
		synctest.Wait()
		w.put("a", "2") // its controller waits for one more
		synctest.Wait()
		if looks.Load() != 1 || told() != 1 {
			t.Errorf("%d looks, %v were put off", looks.Load(), told())
		}
		w.put("b", "1")
		synctest.Wait()
		if looks.Load() != 3 || told() != 1 { // a again, and b
			t.Errorf("%d looks, %v were put off", looks.Load(), told())
		}
	})
}

// churn writes and deletes ConfigMaps at random. One that comes after another one of its name is another.
type churn struct {
	t     *testing.T
	store store.Store
	rand  *rand.Rand
	there map[string]types.UID
	all   map[types.UID]bool // those that there are
}

func newChurn(t *testing.T, s store.Store, r *rand.Rand) *churn {
	return &churn{t: t, store: s, rand: r, there: map[string]types.UID{}, all: map[types.UID]bool{}}
}

func (c *churn) write(times int) {
	c.t.Helper()
	for range times {
		o := configMap(fmt.Sprint(c.rand.IntN(12)), fmt.Sprint(c.rand.Int()))
		uid, is := c.there[o.Name]
		o.UID = uid
		if is && c.rand.IntN(2) == 0 {
			viewtest.Delete(c.t, c.store, o)
			delete(c.there, o.Name)
			delete(c.all, uid)
			continue
		}
		if !is {
			o.UID = types.UID(fmt.Sprint(c.rand.Int()))
			c.there[o.Name], c.all[o.UID] = o.UID, true
		}
		viewtest.Put(c.t, c.store, o)
	}
}

// However far a controller falls behind, and whatever changes are lost by that: in the end it has been told of all that is there, and of
// nothing else that it has not been told of as gone. An object that comes after another one of its name is another.
func TestWhoFallsBehindIsToldOfAllThatIsGone(t *testing.T) {
	for seed := range uint64(16) {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New(mem.Options{})
			v := viewtest.Start(t, view.Config{Store: s, Retained: 1, HistoryChanges: 1})
			w := &world{t, v, s, NewBoard()}
			r := rand.New(rand.NewPCG(seed, 0))
			pass, told, objects := make(chan struct{}), map[types.UID]bool{}, newChurn(t, s, r)
			supervisor := w.supervise(component.Func("slow", func(ctx context.Context, ready func()) error {
				l, err := New(Config{
					Name: "slow", View: v, Reconcile: func(context.Context, view.Snapshot, view.Key) (Result, error) { return Result{}, nil },
					Watches: []Watch{{Resource: configMaps, Keys: func(c view.Change) []view.Key {
						<-pass
						if c.New != nil {
							told[c.New.Meta.GetUID()] = true
						} else {
							if !told[c.Old.Meta.GetUID()] {
								t.Errorf("seed %d: %s is told as gone, and was not there", seed, c.Old.Meta.GetUID())
							}
							delete(told, c.Old.Meta.GetUID())
						}
						return nil
					}}},
				})
				if err != nil {
					return err
				}
				return w.board.Run(ctx, l, ready)
			}))
			lost := false
			for range 20 {
				objects.write(r.IntN(300))
				now, err := v.Fresh(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if r.IntN(2) == 0 {
					if err := s.Compact(t.Context(), now.Rev()); err != nil {
						t.Fatal(err)
					}
					lost = true
				}
				for range r.IntN(60) { // it hears of as many changes, and stops in the middle of one
					synctest.Wait()
					select {
					case pass <- struct{}{}:
					default:
					}
				}
			}
			close(pass)
			synctest.Wait()
			if !maps.Equal(told, objects.all) {
				t.Errorf("seed %d: told of %v, there are %v", seed, told, objects.all)
			}
			if h := supervisor.Health(); h[0].Restarts != 0 || !lost {
				t.Errorf("seed %d: lost: %t, %+v", seed, lost, h)
			}
		})
	}
}
