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
	twice        atomic.Bool // two ran at once
}

func (l *led) as(server string, e *etcd.Election) component.Component {
	return e.Led(component.Func("once", func(ctx context.Context, ready func()) error {
		if l.running.Add(1) > 1 {
			l.twice.Store(true)
		}
		l.began <- server
		ready()
		<-ctx.Done()
		l.running.Add(-1)
		l.ended <- server
		return nil
	}))
}

func newLed() *led { return &led{began: make(chan string, 10), ended: make(chan string, 10)} }

// join has another server stand, on e's store.
func (l *led) join(t *testing.T, e *etcd.Embedded, server string) (stop func()) {
	t.Helper()
	return l.joinOver(t, e, server, func(*etcd.External) {})
}

// joinOver is join over a connection that is changed first.
func (l *led) joinOver(t *testing.T, e *etcd.Embedded, server string, change func(*etcd.External)) (stop func()) {
	t.Helper()
	x, err := etcd.NewExternal(etcd.ExternalConfig{Endpoints: []string{"unix://" + e.Socket()}})
	if err != nil {
		t.Fatal(err)
	}
	disconnect := start(t, x)
	change(x)
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
	l := newLed()
	join := func(server string) (stop func()) { return l.join(t, e, server) }
	first := e.Election("a", slog.New(slog.DiscardHandler))
	resign := start(t, first)
	end := start(t, l.as("a", first))
	heard(t, l.began, "a", time.Second)
	stopB := join("b") // is ready although it does not lead
	if n := l.running.Load(); n != 1 || !first.Leads() {
		t.Fatalf("%d lead, a: %v", n, first.Leads())
	}
	began := time.Now()
	end()
	heard(t, l.ended, "a", time.Second)
	if err := resign(); err != nil {
		t.Fatal(err)
	}
	heard(t, l.began, "b", time.Second)
	if first.Leads() {
		t.Error("a has resigned, and says that it leads")
	}
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
	l := newLed()
	next := e.Election("next", slog.New(slog.DiscardHandler))
	start(t, next)
	start(t, l.as("next", next))
	heard(t, l.began, "next", 30*time.Second)
	t.Logf("another one leads %s after the leader's last renewal", time.Since(died).Round(time.Millisecond))
}

// A server that is alone on a store of its own leads while nothing renews its lease. When another one stands, it leads on if it can renew the
// lease at once; otherwise the other one leads, and never both.
func TestAloneOnItsStore(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{})
	start(t, e)
	var broken atomic.Bool
	broken.Store(true)
	etcd.BreakRenewals(e, &broken)
	l := newLed()
	own := e.Election("own", slog.New(slog.DiscardHandler))
	start(t, own)
	start(t, l.as("own", own))
	heard(t, l.began, "own", 30*time.Second)
	quiet := func(what string) {
		t.Helper()
		select {
		case who := <-l.ended:
			t.Fatalf("%s: %s leads no more", what, who)
		case <-time.After(2500 * time.Millisecond): // etcd would have ended a lease of two seconds, and others one that is silent
		}
	}
	quiet("alone, and no renewal is answered")
	leave := l.join(t, e, "guest")
	heard(t, l.ended, "own", 30*time.Second)
	heard(t, l.began, "guest", 30*time.Second)
	if l.twice.Load() {
		t.Error("two led at once")
	}
	broken.Store(false)
	leave()
	heard(t, l.ended, "guest", 30*time.Second)
	heard(t, l.began, "own", 30*time.Second)
	leave = l.join(t, e, "second guest")
	quiet("in company, and renewals are answered")
	leave()

	broken.Store(true)
	heard(t, l.ended, "own", 30*time.Second)
	heard(t, l.began, "own", 30*time.Second) // it stands anew, and is alone
	etcd.Withdraw(t, e, "own")
	heard(t, l.ended, "own", 30*time.Second)
	heard(t, l.began, "own", 30*time.Second) // what somebody took away it takes again
	if l.twice.Load() {
		t.Error("two led at once")
	}
}

// Whoever has not been able to write that he stands does not look at the leader's lease yet: who leads alone has not heard of him, and
// renews nothing.
func TestALeaderIsNotEndedUnheard(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{})
	start(t, e)
	l := newLed()
	own := e.Election("own", slog.New(slog.DiscardHandler))
	start(t, own)
	start(t, l.as("own", own))
	heard(t, l.began, "own", 30*time.Second)
	written := make(chan struct{})
	leave := l.joinOver(t, e, "guest", func(x *etcd.External) { etcd.HoldWrites(x, written) })
	select {
	case who := <-l.ended:
		t.Errorf("%s leads no more because of somebody who does not stand", who)
	case <-time.After(4 * time.Second): // a lease that was renewed just now is seen as silent in less than three
	}
	close(written)
	leave()
}

// Who stands by on a store of his own renews his lease too, though it lasts for an hour: else he would be seen as silent when he leads.
func TestWhoStandsByIsNotSilent(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{})
	start(t, e)
	l := newLed()
	leave := l.join(t, e, "guest")
	heard(t, l.began, "guest", 30*time.Second)
	renewals := etcd.Renewals(e)
	own := e.Election("own", slog.New(slog.DiscardHandler))
	start(t, own)
	start(t, l.as("own", own))
	for range 4 {
		heard(t, renewals, "renewal", 30*time.Second)
	}
	// Those before the last one have been answered. The lease is an hour's, of which whole seconds are told.
	if silent := etcd.Silent(t, e, "own"); silent > 1 {
		t.Errorf("it has not renewed its lease for %d s", silent)
	}
	leave()
	heard(t, l.ended, "guest", 30*time.Second)
	heard(t, l.began, "own", 30*time.Second)
}
