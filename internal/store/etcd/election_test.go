package etcd_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/store/etcd"
)

// led is a component that tells when it runs.
type led struct {
	began, ended chan string
	running      atomic.Int32
}

func (l *led) as(server string, e *etcd.Election) component.Component {
	return e.Led(component.Func("once", func(ctx context.Context, ready func()) error {
		l.running.Add(1)
		l.began <- server
		ready()
		<-ctx.Done()
		l.running.Add(-1)
		l.ended <- server
		return nil
	}))
}

func heard(t *testing.T, c <-chan string, want string, within time.Duration) {
	t.Helper()
	select {
	case got := <-c:
		if got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	case <-time.After(within):
		t.Fatalf("nothing of %s within %s", want, within)
	}
}

// One server leads; the next takes over at once when it stops in order, and soon when it dies; who comes back after a crash does not
// wait for what it left.
func TestElection(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{})
	start(t, e)
	l := &led{began: make(chan string, 10), ended: make(chan string, 10)}
	join := func(server string) (stop func()) {
		x, err := etcd.NewExternal(etcd.ExternalConfig{Endpoints: []string{"unix://" + e.Socket()}})
		if err != nil {
			t.Fatal(err)
		}
		disconnect := start(t, x)
		vote := x.Election(server, slog.New(slog.DiscardHandler))
		resign := start(t, vote)
		end := start(t, l.as(server, vote))
		return func() {
			for _, f := range []func() error{end, resign, disconnect} {
				if err := f(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	first := e.Election("a", slog.New(slog.DiscardHandler))
	resign := start(t, first)
	end := start(t, l.as("a", first))
	heard(t, l.began, "a", time.Second)
	stopB := join("b") // is ready although it does not lead
	if n := l.running.Load(); n != 1 {
		t.Fatalf("%d lead", n)
	}
	began := time.Now()
	end()
	heard(t, l.ended, "a", time.Second)
	if err := resign(); err != nil {
		t.Fatal(err)
	}
	heard(t, l.began, "b", time.Second)
	t.Logf("an orderly change of the leader took %s", time.Since(began).Round(time.Millisecond))

	stopC := join("c")
	etcd.Die(t, e, "b")
	heard(t, l.ended, "b", 5*time.Second)
	heard(t, l.began, "c", 5*time.Second)
	stopB()
	stopC()
	heard(t, l.ended, "c", time.Second)

	etcd.Crash(t, e, "d") // a candidacy that nobody renews
	came := time.Now()
	stopD := join("d")
	heard(t, l.began, "d", time.Second)
	if took := time.Since(came); took > time.Second {
		t.Errorf("its own candidacy kept it waiting for %s", took)
	}
	stopD()
	heard(t, l.ended, "d", time.Second)
}

// A leader that has died without a word is found out by the next one, long before its lease runs out.
func TestSilentLeader(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{})
	start(t, e)
	etcd.Crash(t, e, "dead") // its lease lasts for a minute
	died := time.Now()
	l := &led{began: make(chan string, 1), ended: make(chan string, 1)}
	next := e.Election("next", slog.New(slog.DiscardHandler))
	start(t, next)
	start(t, l.as("next", next))
	heard(t, l.began, "next", 30*time.Second)
	t.Logf("another one leads %s after the leader's last renewal", time.Since(died).Round(time.Millisecond))
}
