package view_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
	"podo.dev/podo/internal/view/viewtest"
)

func TestUndecodable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		put := func(key, value string) int64 {
			res, err := s.Txn(t.Context(), nil, []store.Op{{Key: key, Value: []byte(value)}})
			if err != nil {
				t.Fatal(err)
			}
			return res.Revision
		}
		put("/registry/pods/a/bad", "nonsense")
		put("/registry/pods/a/enc", "k8s:enc:aescbc:v1:key1:x")
		viewtest.Put(t, s, pod("a", "good", ""))
		log := &strings.Builder{}
		v := viewtest.Start(t, view.Config{Store: s, Logger: textLog(log)})
		if got := names(v.Snapshot().All(pods, "", view.Key{})); got != "a/good" {
			t.Errorf("loaded: %s", got)
		}
		w := watch(t, v, pods, v.Snapshot().Rev())
		put("/registry/pods/a/good", "k8s\x00broken") // its last good state stays
		put("/registry/pods/a/good", "k8s\x00broken again")
		put("/registry/pods/too/many/parts", "x") // no pod at all
		put("/registry/pods/b/x", `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"b","name":"y"}}`)
		put("/registry/pods/b/other", `{"apiVersion":"v1","kind":"Node","metadata":{"namespace":"b","name":"other"}}`)
		put("/registry/unknown/x", "x")
		rev := put("/registry/pods/b/json", `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"b","name":"json"}}`)
		snap := wait(t, v, rev)
		if got := names(snap.All(pods, "", view.Key{})); got != "a/good b/json" {
			t.Errorf("now: %s", got)
		}
		wantLines(t, w, "+json")
		now, ever := v.Undecodable()
		var keys []string
		for _, u := range now {
			keys = append(keys, strings.TrimPrefix(u.Key, "/registry/pods/"))
		}
		if got := strings.Join(keys, " "); got != "a/bad a/enc a/good b/other b/x" || ever != 6 {
			t.Errorf("undecodable: %s, %d ever", got, ever)
		}
		if n := strings.Count(log.String(), "cannot be decoded"); n != 5 {
			t.Errorf("logged %d times, want once for each of 5:\n%s", n, log)
		}
		viewtest.Put(t, s, pod("a", "bad", ""))
		wait(t, v, viewtest.Delete(t, s, pod("b", "x", "")))
		if now, _ = v.Undecodable(); len(now) != 3 {
			t.Errorf("after repair: %v", now)
		}
	})
}

// TestDecoderPanics: it is one object's fault like any other, not the view's end.
func TestDecoderPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		viewtest.Put(t, s, pod("a", "poison", ""))
		viewtest.Put(t, s, pod("a", "good", ""))
		v := viewtest.Start(t, view.Config{Store: s, Decode: func(k *registry.Kind, value []byte, rev int64, _ func() runtime.Object) (runtime.Object, error) {
			if strings.Contains(string(value), "poison") {
				panic("index out of range")
			}
			return codec.Decode(k, value, rev)
		}})
		snap := wait(t, v, viewtest.Put(t, s, pod("b", "poison", "")))
		if got := names(snap.All(pods, "", view.Key{})); got != "a/good" {
			t.Errorf("pods: %s", got)
		}
		if now, _ := v.Undecodable(); len(now) != 2 {
			t.Errorf("undecodable: %v", now)
		}
	})
}

func TestStoreGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := mem.New(mem.Options{Faults: func(c mem.Call) mem.Fault {
			if down.Load() && c.Op != "txn" {
				return mem.Fault{Err: store.ErrUnavailable}
			}
			return mem.Fault{}
		}})
		down.Store(true)
		time.AfterFunc(10*time.Second, func() { down.Store(false) })
		viewtest.Put(t, s, pod("a", "x", ""))
		v := viewtest.Start(t, view.Config{Store: s}) // returns when the store has come up
		x := v.Snapshot().Get(pods, "a", "x")
		w := watch(t, v, pods, v.Snapshot().Rev())

		s.BreakWatches(store.ErrUnavailable)
		down.Store(true)
		viewtest.Put(t, s, pod("a", "y", ""))
		time.Sleep(time.Minute)
		if _, err := v.Fresh(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("fresh without a store: %v", err)
		}
		down.Store(false)
		rev := viewtest.Delete(t, s, pod("a", "y", ""))
		wait(t, v, rev)
		wantLines(t, w, "+y -y") // nothing was lost
		if v.Snapshot().Get(pods, "a", "x") != x {
			t.Error("the pod became another pointer")
		}
	})
}

func TestCompactedUnderTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := mem.New(mem.Options{Faults: func(c mem.Call) mem.Fault {
			if down.Load() && c.Op == "watch" {
				return mem.Fault{Err: store.ErrUnavailable}
			}
			return mem.Fault{}
		}})
		viewtest.Put(t, s, pod("a", "kept", ""))
		viewtest.Put(t, s, pod("a", "gone", ""))
		v := viewtest.Start(t, view.Config{Store: s})
		kept := v.Snapshot().Get(pods, "a", "kept")
		w := watch(t, v, pods, v.Snapshot().Rev())
		down.Store(true)
		s.BreakWatches(store.ErrUnavailable)
		viewtest.Delete(t, s, pod("a", "gone", ""))
		rev := viewtest.Put(t, s, pod("a", "new", "n"))
		if err := s.Compact(t.Context(), rev); err != nil {
			t.Fatal(err)
		}
		down.Store(false)
		snap := wait(t, v, rev)
		if got := names(snap.All(pods, "", view.Key{})); got != "a/kept a/new" {
			t.Errorf("after loading anew: %s", got)
		}
		if got := names(snap.By(pods, "spec.nodeName", "n")); got != "a/new" {
			t.Errorf("index: %s", got)
		}
		if snap.Get(pods, "a", "kept") != kept {
			t.Error("the unchanged pod was decoded again")
		}
		if _, err := drain(t, w); !errors.Is(err, view.ErrGone) {
			t.Errorf("a watcher that lost changes: %v", err)
		}
		wantLines(t, watch(t, v, pods, snap.Rev()), "")
	})
}

func TestMutationIsFound(t *testing.T) {
	for name, end := range map[string]func(*testing.T, store.Store, *view.View){
		"when checked": func(_ *testing.T, _ store.Store, v *view.View) { v.CheckAll() },
		"when replaced": func(t *testing.T, s store.Store, v *view.View) {
			wait(t, v, viewtest.Put(t, s, pod("a", "x", "m")))
			v.CheckAll()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mem.New(mem.Options{})
				viewtest.Put(t, s, pod("a", "x", "n"))
				viewtest.Put(t, s, pod("a", "y", "n"))
				var mu sync.Mutex
				found := map[string]bool{}
				v := viewtest.Start(t, view.Config{Store: s, CheckMutation: true, Mutated: func(k *registry.Kind, e *view.Entry) {
					mu.Lock()
					defer mu.Unlock()
					found[k.GVK.Kind+" "+e.Key.Name] = true
				}})
				v.Snapshot().Get(pods, "a", "x").Object.(*v1.Pod).Spec.NodeName = "changed"
				end(t, s, v)
				mu.Lock()
				defer mu.Unlock()
				if !found["Pod x"] || len(found) != 1 {
					t.Errorf("found %v", found)
				}
			})
		})
	}
}

func TestEncodedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _ := viewtest.New(t, pod("a", "x", ""))
		e := v.Snapshot().Get(pods, "a", "x")
		var calls atomic.Int64
		encode := func(runtime.Object) ([]byte, error) {
			time.Sleep(time.Second)
			return fmt.Appendf(nil, "made by %d", calls.Add(1)), nil
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if b, err := e.Encoded("json", encode); err != nil || string(b) != "made by 1" {
					t.Errorf("got %s, %v", b, err)
				}
			})
		}
		wg.Wait()
		if _, err := e.Encoded("other form", encode); err != nil || calls.Load() != 2 {
			t.Errorf("%d calls, %v", calls.Load(), err)
		}
		// A failure, a panic included, is not kept and blocks nobody.
		func() {
			defer func() { _ = recover() }()
			_, _ = e.Encoded("third", func(runtime.Object) ([]byte, error) { panic("no") })
		}()
		if _, err := e.Encoded("third", func(runtime.Object) ([]byte, error) { return nil, errors.New("no") }); err == nil {
			t.Error("no error")
		}
		if b, err := e.Encoded("third", encode); err != nil || string(b) != "made by 3" {
			t.Errorf("got %s, %v", b, err)
		}
	})
}

func TestEncodingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		for i := range 100 {
			viewtest.Put(t, s, pod("a", fmt.Sprint(i), ""))
		}
		v := viewtest.Start(t, view.Config{Store: s, EncodingBytes: 50 << 10})
		made := 0
		encode := func(runtime.Object) ([]byte, error) { made++; return make([]byte, 4<<10), nil }
		hot := v.Snapshot().Get(pods, "a", "0")
		for e := range v.Snapshot().All(pods, "", view.Key{}) {
			for _, e := range []*view.Entry{e, hot} {
				if _, err := e.Encoded("json", encode); err != nil {
					t.Fatal(err)
				}
			}
		}
		if made != 100 {
			t.Errorf("made %d for 100 pods: the one in use was evicted", made)
		}
		if got := v.EncodingBytes(); got > 50<<10 || got < 30<<10 {
			t.Errorf("%d bytes kept", got)
		}
	})
}

func TestRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		v, err := view.New(view.Config{Store: s, Kinds: registry.All(), CheckMutation: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			viewtest.Put(t, s, pod("a", fmt.Sprint(i), ""))
			stop := run(t, v)
			wait(t, v, viewtest.Put(t, s, pod("b", fmt.Sprint(i), "")))
			stop()
		}
		wantLen := 6
		if got := v.Snapshot().Len(pods); got != wantLen {
			t.Errorf("%d pods, want %d", got, wantLen)
		}
	})
}
