package component_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podo.dev/podo/internal/component"
)

// diary notes what happens, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, ", ")
}

// part is a component that becomes ready after a second and stops a second after it is told to.
func (d *diary) part(name string) component.Component {
	return component.Func(name, func(ctx context.Context, ready func()) error {
		d.note("%s starts", name)
		time.Sleep(time.Second)
		ready()
		<-ctx.Done()
		time.Sleep(time.Second)
		d.note("%s stops", name)
		return nil
	})
}

func states(s *component.Supervisor) string {
	var out []string
	for _, h := range s.Health() {
		out = append(out, h.Name+" "+string(h.State))
	}
	return strings.Join(out, ", ")
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := component.NewSupervisor(component.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- s.Run(ctx, func() { d.note("all ready") }, d.part("a"), d.part("b"), d.part("c"))
		}()
		time.Sleep(1500 * time.Millisecond)
		if got, want := states(s), "a ready, b starting, c waiting"; got != want {
			t.Errorf("after 1.5 s: %s, want %s", got, want)
		}
		time.Sleep(2 * time.Second)
		if got, want := states(s), "a ready, b ready, c ready"; got != want {
			t.Errorf("after 3.5 s: %s, want %s", got, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got, want := d.String(), "a starts, b starts, c starts, all ready, c stops, b stops, a stops"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got, want := states(s), "a stopped, b stopped, c stopped"; got != want {
			t.Errorf("at the end: %s", got)
		}
	})
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		start := time.Now()
		s := component.NewSupervisor(component.Options{Restarted: func(name string, cause error, after time.Duration) {
			d.note("%v: %v, again in %v", time.Since(start), cause, after)
		}})
		run := 0
		flaky := component.Func("flaky", func(ctx context.Context, ready func()) error {
			run++
			if run != 3 {
				ready()
				ready() // twice is no harm
			}
			switch run {
			case 1:
				return errors.New("no luck")
			case 2:
				panic("oh no")
			case 3:
				return errors.New("before ready")
			case 4:
				time.Sleep(10 * time.Minute)
				return nil
			}
			<-ctx.Done()
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx, nil, flaky) }()
		time.Sleep(time.Hour)
		want := "0s: flaky: no luck, again in 500ms, 500ms: flaky: panic: oh no, again in 1s, " +
			"1.5s: flaky: before ready, again in 2s, 10m3.5s: flaky: ended without being told to, again in 500ms"
		if got := d.String(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		h := s.Health()[0]
		if h.State != component.Ready || h.Restarts != 4 || !strings.Contains(h.LastError, "without being told") {
			t.Errorf("health %+v", h)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestPauseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Duration
		s := component.NewSupervisor(component.Options{Restarted: func(_ string, _ error, after time.Duration) { last = after }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Run(ctx, nil, component.Func("x", func(_ context.Context, ready func()) error { ready(); return errors.New("no") })); err != nil {
			t.Error(err)
		}
		if last != 30*time.Second || s.Health()[0].Restarts < 100 || s.Health()[0].State != component.Stopped {
			t.Errorf("last pause %v, %+v", last, s.Health()[0])
		}
	})
}

func TestFailures(t *testing.T) {
	full := errors.New("disk full")
	for _, c := range []struct {
		name string
		run  func(ctx context.Context, ready func()) error
		want string
	}{
		{"fatal", func(_ context.Context, ready func()) error {
			ready()
			time.Sleep(time.Minute)
			return component.Fatal(full)
		}, "bad: disk full"},
		{"error before it was ever ready", func(context.Context, func()) error { return full }, "bad: disk full"},
		{"panic before it was ever ready", func(context.Context, func()) error { panic("oh") }, "bad: panic: oh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				s := component.NewSupervisor(component.Options{})
				err := s.Run(t.Context(), nil, d.part("a"), component.Func("bad", c.run))
				if err == nil || err.Error() != c.want {
					t.Errorf("error %v, want %s", err, c.want)
				}
				if got, want := d.String(), "a starts, a stops"; got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if got, want := states(s), "a stopped, bad failed"; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
	if !component.IsFatal(fmt.Errorf("more: %w", component.Fatal(full))) || component.IsFatal(full) || component.Fatal(nil) != nil {
		t.Error("IsFatal is wrong")
	}
	if !errors.Is(component.Fatal(full), full) {
		t.Error("Fatal hides its cause")
	}
}

func TestDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		var d diary
		stuck := component.Func("stuck", func(_ context.Context, ready func()) error { ready(); <-free; return nil })
		s := component.NewSupervisor(component.Options{StopWithin: 5 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := s.Run(ctx, nil, d.part("a"), stuck); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 66*time.Second || d.String() != "a starts, a stops" {
			t.Errorf("took %v: %s", took, d.String())
		}
	})
}
