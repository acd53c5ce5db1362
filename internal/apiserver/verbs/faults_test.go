package verbs

import (
	"context"
	"errors"
	"path"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// sick is a world over a store that fails as it is told.
type sick struct {
	*world
	mem   *mem.Store
	fault atomic.Pointer[func(mem.Call) mem.Fault]
}

func newSick(t *testing.T) *sick {
	s := &sick{}
	s.mem = mem.New(mem.Options{Faults: func(c mem.Call) mem.Fault {
		if f := s.fault.Load(); f != nil {
			return (*f)(c)
		}
		return mem.Fault{}
	}})
	viewtest.Put(t, s.mem, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns-1"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}})
	s.world = worldOver(t, viewtest.Start(t, view.Config{Store: s.mem}), s.mem)
	return s
}

func (s *sick) with(f func(mem.Call) mem.Fault) { s.fault.Store(&f) }
func (s *sick) well()                           { s.fault.Store(nil) }

func (s *sick) tryCreate(ctx context.Context, name string) error {
	_, err := s.Create(ctx, admin, client.ConfigMaps.At("default", ""), configMap(name), Options{})
	return err
}

// A store that takes a second for each commit is waited for, as long as the client wants to wait.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSick(t)
		s.with(func(c mem.Call) mem.Fault {
			if c.Op == "txn" {
				return mem.Fault{Delay: time.Second}
			}
			return mem.Fault{}
		})
		if err := s.tryCreate(s.ctx, "patient"); err != nil {
			t.Errorf("patient: %v", err)
		}
		short, cancel := context.WithTimeout(s.ctx, time.Second/2)
		defer cancel()
		if err := s.tryCreate(short, "hasty"); !apierrors.IsTimeout(err) {
			t.Errorf("hasty: %v", err)
		}
		if s.get(client.ConfigMaps.At("default", "patient")) == nil || s.get(client.ConfigMaps.At("default", "hasty")) != nil {
			t.Error("what was acknowledged is not what is there")
		}
	})
}

// Of two who put what there is not, one creates it and the other one replaces that, or is told as one who would.
func TestTwoPutWhatThereIsNot(t *testing.T) {
	for of, want := range map[client.Ref]func(error) bool{
		client.Resource{Resource: "endpoints"}.At("default", "x"): func(err error) bool { return err == nil },
		client.Leases.At("default", "x"):                          apierrors.IsInvalid, // which are not written without a version
	} {
		s := newSick(t)
		put := func(by string) (created bool, err error) {
			obj := s.Kind(of.Resource).New()
			accessor(obj).SetName(of.Name)
			accessor(obj).SetAnnotations(map[string]string{"by": by})
			_, created, err = s.Update(s.ctx, admin, of, obj, Options{})
			return created, err
		}
		var once atomic.Bool
		s.with(func(c mem.Call) mem.Fault {
			if c.Op == "txn" && path.Base(c.Key) == of.Name && !once.Swap(true) {
				if created, err := put("other"); !created || err != nil {
					t.Errorf("%s: the other: %v", of.Resource, err)
				}
			}
			return mem.Fault{}
		})
		created, err := put("me")
		if by := accessor(s.get(of)).GetAnnotations()["by"]; created || !want(err) || (by == "me") != (err == nil) {
			t.Errorf("%s: created %v, %v; it is %q", of.Resource, created, err, by)
		}
	}
}

// A full store takes no writes, says so, and is read from as before.
func TestFullStore(t *testing.T) {
	s := newSick(t)
	s.create(configMap("before"))
	s.with(func(c mem.Call) mem.Fault {
		if c.Op == "txn" {
			return mem.Fault{Err: store.ErrNoSpace}
		}
		return mem.Fault{}
	})
	if err := s.tryCreate(s.ctx, "more"); !errors.Is(err, errNoSpace) {
		t.Errorf("%v", err)
	}
	if s.get(client.ConfigMaps.At("default", "before")) == nil {
		t.Error("it cannot be read either")
	}
	s.well()
	if err := s.tryCreate(s.ctx, "more"); err != nil {
		t.Errorf("after room was made: %v", err)
	}
}

// A store that is gone for a minute: clear refusals, stale reads that were asked for, and watches that go on where they were.
func TestStoreGoneForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSick(t)
		s.create(configMap("before"))
		stream, err := s.Watch(s.ctx, admin, client.ConfigMaps.At("default", ""), &internalversion.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if events, err := stream.Next(s.ctx); err != nil || len(events) != 1 {
			t.Fatalf("%v, %v", events, err)
		}
		s.with(func(mem.Call) mem.Fault { return mem.Fault{Err: store.ErrUnavailable} })
		s.mem.BreakWatches(store.ErrUnavailable)
		back := time.After(time.Minute)
		if err := s.tryCreate(s.ctx, "during"); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("a write: %v", err)
		}
		if _, err := s.Get(s.ctx, admin, client.ConfigMaps.At("default", "before"), ""); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("a consistent read: %v", err)
		}
		if _, err := s.Get(s.ctx, admin, client.ConfigMaps.At("default", "before"), "0"); err != nil {
			t.Errorf("a read of what there is: %v", err)
		}
		<-back
		s.well()
		if err := s.tryCreate(s.ctx, "after"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		for {
			events, err := stream.Next(s.ctx)
			if err != nil {
				t.Fatalf("the watch: %v", err)
			}
			if len(events) == 0 {
				continue
			}
			if len(events) != 1 || events[0].Type != watch.Added || accessor(events[0].Object).GetName() != "after" {
				t.Errorf("the watch shows %v", events)
			}
			return
		}
	})
}

// A page whose revision has been compacted away: 410, and a token to go on with what there is now.
func TestCompactedBetweenPages(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.create(configMap(name))
	}
	page := func(token string) (*List, error) {
		return w.List(w.ctx, admin, client.ConfigMaps.At("default", ""), &internalversion.ListOptions{Limit: 1, Continue: token})
	}
	// A page of long ago: its revision is in nobody's memory.
	w.create(configMap("d"))
	n, err := w.store.Revision(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Compact(w.ctx, n); err != nil {
		t.Fatal(err)
	}
	_, err = page(encodeContinue(view.Key{Namespace: "default", Name: "a"}, 1))
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("%v", err)
	}
	fresh := err.(apierrors.APIStatus).Status().Continue
	var names string
	for token := fresh; ; {
		l, err := page(token)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range l.Items {
			names += e.Key.Name
		}
		if token = l.Continue; token == "" {
			break
		}
	}
	if names != "bcd" {
		t.Errorf("the rest is %q", names)
	}
}
