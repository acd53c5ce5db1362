package loop

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/view"
)

// When the clock is set, whoever goes by it looks at once, also at what he was just looking at; others do not.
func TestWhenTheClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var slept atomic.Int64 // of that the bubble's timers know nothing
		due := time.Now().Add(6 * time.Hour)
		watched := func(name string, byClock bool, looks *atomic.Int32, meanwhile func()) component.Component {
			return component.Func(name, func(ctx context.Context, ready func()) error {
				l, err := New(Config{
					Name: name, View: w.view, ByClock: byClock, Watches: []Watch{{Resource: configMaps, Keys: Itself}},
					Reconcile: func(context.Context, view.Snapshot, view.Key) (Result, error) {
						looks.Add(1)
						left := due.Sub(time.Now().Add(time.Duration(slept.Load())))
						meanwhile()
						return Result{Again: max(left, 0)}, nil
					},
				})
				if err != nil {
					return err
				}
				return w.board.Run(ctx, l, ready)
			})
		}
		var byClock, byTimer, meanwhile atomic.Int32
		wakes := func() {
			slept.Add(int64(8 * time.Hour))
			w.board.ClockSet()
		}
		w.supervise(
			watched("by-clock", true, &byClock, func() {}),
			watched("by-timer", false, &byTimer, func() {}),
			watched("meanwhile", true, &meanwhile, func() {
				if meanwhile.Load() == 1 {
					time.Sleep(time.Millisecond) // the others have looked by then
					wakes()
				}
			}),
		)
		w.put("a", "1")
		time.Sleep(time.Second)
		if c, m, x := byClock.Load(), byTimer.Load(), meanwhile.Load(); c != 2 || m != 1 || x != 2 {
			t.Errorf("%d looks by the clock, %d by timers, %d at what was looked at", c, m, x)
		}
		wakes() // nobody waits any more
		time.Sleep(5 * time.Hour)
		if c, m := byClock.Load(), byTimer.Load(); c != 2 || m != 1 {
			t.Errorf("%d looks by the clock, %d by timers", c, m)
		}
		time.Sleep(2 * time.Hour)
		if m := byTimer.Load(); m != 2 {
			t.Errorf("%d looks by timers", m)
		}
	})
}
