package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// aLease is a lease in a bubble, as etcd keeps one.
type aLease struct {
	granted int64
	takes   time.Duration // of the way to etcd, and as long back
	gone    bool
	away    atomic.Bool  // no answer
	renewed atomic.Int64 // when, in nanoseconds
}

func newLease(granted int64, takes time.Duration) *aLease {
	l := &aLease{granted: granted, takes: takes}
	l.renewed.Store(time.Now().UnixNano())
	return l
}

func (l *aLease) way(ctx context.Context) error {
	if l.away.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	pause(ctx, l.takes)
	return ctx.Err()
}

func (l *aLease) renew(ctx context.Context) error {
	if err := l.way(ctx); err != nil {
		return err
	}
	if l.gone {
		return rpctypes.ErrLeaseNotFound
	}
	l.renewed.Store(time.Now().UnixNano())
	return l.way(ctx)
}

func (l *aLease) ask(ctx context.Context) (granted, left int64, err error) {
	pause(ctx, l.takes)
	left = int64((time.Duration(l.granted)*time.Second - time.Since(time.Unix(0, l.renewed.Load()))).Seconds())
	pause(ctx, l.takes)
	return l.granted, left, ctx.Err()
}

// Whenever a leader dies or is cut off, and however long its lease is: the others end the lease within 1.7 seconds of its last renewal and
// the way of two questions, so that another one leads within two seconds; and never while the old one leads.
func TestTakeoverTakesLessThanTwoSeconds(t *testing.T) {
	for _, granted := range []int64{2, 3, 60} {
		for _, takes := range []time.Duration{0, time.Millisecond, 40 * time.Millisecond} {
			for phase := time.Duration(0); phase < 700*time.Millisecond; phase += 69 * time.Millisecond {
				synctest.Test(t, func(t *testing.T) {
					l := newLease(granted, takes)
					ended := make(chan time.Time, 1)
					go func() {
						if why := hold(t.Context(), time.Now(), l.renew); why != lostUnanswered {
							t.Error(why)
						}
						ended <- time.Now()
					}()
					found := make(chan time.Time, 1)
					go func() {
						if silent(t.Context(), l.ask) {
							found <- time.Now()
						}
					}()
					time.Sleep(5*time.Second + phase)
					died := time.Now()
					l.away.Store(true)
					over, seen := <-ended, <-found
					if !over.Before(seen) {
						t.Errorf("granted %d, %s away, dies %s after a second: its term ends %s after the lease", granted, takes, phase, over.Sub(seen))
					}
					if d := over.Sub(died); d > leadFor {
						t.Errorf("it leads for %s without an answer", d)
					}
					if d := seen.Sub(died); d > 1700*time.Millisecond+4*takes {
						t.Errorf("granted %d, %s away: silent only %s after its death", granted, takes, d)
					}
				})
			}
		}
	}
}

// A leader that is answered late, or not every time, leads on, and the others let it.
func TestALeaderWithBadLinesLeadsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(2, 200*time.Millisecond)
		fails := 0
		renew := func(ctx context.Context) error {
			if fails++; fails%2 != 0 {
				return errors.New("no way")
			}
			return l.renew(ctx)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		found := make(chan bool, 1)
		go func() { found <- silent(ctx, l.ask) }()
		began := time.Now()
		hold(ctx, began, renew)
		if d := time.Since(began); d < time.Hour {
			t.Errorf("it led for %s", d)
		}
		if <-found {
			t.Error("others think that it is silent")
		}
	})
}

// A lease that somebody has ended is not led on with.
func TestALeaseThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(2, 0)
		l.gone = true
		began := time.Now()
		why := hold(t.Context(), began, l.renew)
		if d := time.Since(began); d != renewEvery || why != lostLease {
			t.Errorf("it leads for %s: %s", d, why)
		}
		if silent(t.Context(), func(context.Context) (int64, int64, error) { return 0, -1, nil }) {
			t.Error("a lease that is gone is silent")
		}
	})
}

// Who has won, and whose lease is renewed by answers that come early or late, does not lead when it is found silent: however long the
// questions of those who look take, each way.
func TestNobodyIsFoundSilentWhoLeads(t *testing.T) {
	led, found := 0, 0
	for seed := range uint64(3000) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			slow, late := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			worst := 100 + r.IntN(1500)
			way := func(ctx context.Context, r *rand.Rand) {
				if r.IntN(2) == 0 {
					pause(ctx, time.Duration(r.IntN(worst))*time.Millisecond)
				}
			}
			l := newLease(2+58*r.Int64N(2), 0)
			renew := func(ctx context.Context) error {
				if way(ctx, slow); ctx.Err() != nil {
					return ctx.Err()
				}
				l.renewed.Store(time.Now().UnixNano())
				way(ctx, slow)
				return ctx.Err()
			}
			ask := func(ctx context.Context) (granted, left int64, err error) {
				way(ctx, late)
				granted, left, err = l.ask(ctx)
				way(ctx, late)
				return granted, left, err
			}
			var leads atomic.Bool
			standing, stands := context.WithCancel(t.Context())
			renewed := make(chan time.Time, 1)
			go func() { renewed <- fresh(standing, time.Now(), renew) }()
			time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			ended := make(chan struct{})
			go func() { // who has won, some time after others have seen that
				defer close(ended)
				pause(ctx, time.Duration(r.IntN(100))*time.Millisecond)
				stands()
				sent, err := first(ctx, <-renewed, renew)
				if err != nil || sent.IsZero() {
					return
				}
				leads.Store(true)
				led++
				hold(ctx, sent, renew)
				leads.Store(false)
			}()
			if silent(ctx, ask) {
				found++
				for range 10 { // ending it takes its time too
					if leads.Load() {
						t.Errorf("seed %d: it leads, and is found silent", seed)
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
			}
			cancel()
			<-ended
		})
	}
	if led < 100 || found < 100 {
		t.Errorf("%d led, %d were found silent", led, found)
	}
}

// A leader who was silent for a second, and then for another one, has not been silent for both.
func TestARenewalBetweenTwoQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(2, 0)
		time.Sleep(1100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), silence+1200*time.Millisecond)
		defer cancel()
		asked := 0
		if silent(ctx, func(ctx context.Context) (granted, left int64, err error) {
			if asked++; asked == 3 {
				l.renewed.Store(time.Now().UnixNano())
				pause(ctx, 1100*time.Millisecond)
			}
			return l.ask(ctx)
		}) || asked < 3 {
			t.Errorf("it is silent, after %d questions", asked)
		}
	})
}
