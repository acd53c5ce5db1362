package mem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/store/storetest"
)

func TestSuite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return mem.New(mem.Options{}) })
}

// TestSuiteInBubble shows that nothing in the store waits for anything but channels and timers.
func TestSuiteInBubble(t *testing.T) {
	for _, c := range storetest.Cases {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Test(t, mem.New(mem.Options{})) })
		})
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("connection lost")
		var next mem.Fault
		s := mem.New(mem.Options{Faults: func(c mem.Call) mem.Fault {
			f := next
			if c.Op == "txn" {
				next = mem.Fault{}
			}
			return f
		}})
		put := func(k string) error {
			_, err := s.Txn(t.Context(), nil, []store.Op{{Key: k, Value: []byte("v")}})
			return err
		}
		next = mem.Fault{Err: lost}
		if err := put("a"); !errors.Is(err, lost) {
			t.Fatalf("err = %v", err)
		}
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a failed write happened: %v", err)
		}
		next = mem.Fault{Err: lost, Applied: true, Delay: time.Minute}
		start := time.Now()
		if err := put("b"); !errors.Is(err, lost) || time.Since(start) != time.Minute {
			t.Errorf("err = %v after %v", err, time.Since(start))
		}
		if _, err := s.Get(t.Context(), "b"); err != nil {
			t.Errorf("the uncertain write should have happened: %v", err)
		}
		next = mem.Fault{Delay: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Txn(ctx, nil, []store.Op{{Key: "c"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestBreakWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		ch := s.Watch(t.Context(), "", 0, nil)
		s.BreakWatches(store.ErrUnavailable)
		b := <-ch
		if _, open := <-ch; !errors.Is(b.Err, store.ErrUnavailable) || open {
			t.Errorf("got %v, open %v", b, open)
		}
	})
}

func TestKeep(t *testing.T) {
	s := mem.New(mem.Options{Keep: 10})
	for range 100 {
		if _, err := s.Txn(t.Context(), nil, []store.Op{{Key: "k"}}); err != nil {
			t.Fatal(err)
		}
	}
	rev, _ := s.Revision(t.Context())
	if _, err := s.List(t.Context(), "", store.ListOptions{Revision: rev - 9}); err != nil {
		t.Errorf("recent history is gone: %v", err)
	}
	if _, err := s.List(t.Context(), "", store.ListOptions{Revision: rev - 50}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("err = %v", err)
	}
}
