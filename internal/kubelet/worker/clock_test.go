package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

type toldNobody struct{}

func (toldNobody) Report(*v1.Pod, v1.PodStatus) {}
func (toldNobody) Finished(*v1.Pod)             {}

// A timer that rings before its time, since the clock was set back meanwhile, rings again when it is time: podlife asks for it once.
func TestATimerThatRingsTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Workers{
			cfg: Config{Life: podlife.Defaults(), Metrics: noMetrics{}, Append: timeline.Discard, Reporter: toldNobody{}}, ctx: t.Context(),
			pods: map[types.UID]*pod{}, names: map[string][]types.UID{}, waiting: map[string]*v1.Pod{},
		}
		s := podlife.Begin(w.cfg.Life, &v1.Pod{}, time.Now())
		s.Stage, s.Initialized = podlife.Finished, true // there is nothing to do
		n := newPod(w, s.Pod, s)
		n.wakeAt(time.Now().Add(10 * time.Second))
		n.timer.Reset(time.Second)
		for _, due := range []time.Duration{time.Second, 9 * time.Second} {
			time.Sleep(due)
			synctest.Wait()
			events := n.take()
			if len(events) != 1 {
				t.Fatalf("after %s more: %v", due, events)
			}
			n.step(events[0])
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if events := n.take(); len(events) > 0 {
			t.Errorf("it rings on: %v", events)
		}
	})
}

// slowVolumes take until they are let.
type slowVolumes struct {
	Volumes
	let   chan struct{}
	until context.Context //nolint:containedctx // it is looked at
}

func (v *slowVolumes) Refresh(ctx context.Context, _ types.UID) {
	v.until = ctx
	<-v.let
}

// What a pod needs for its work it holds no longer than it works, writing into its volumes included.
func TestAPodAtRestHoldsNothingOfItsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &slowVolumes{let: make(chan struct{})}
		w := &Workers{cfg: Config{Life: podlife.Defaults(), Metrics: noMetrics{}, Volumes: v, CallTimeout: time.Hour}, ctx: t.Context()}
		n := newPod(w, &v1.Pod{}, podlife.Begin(w.cfg.Life, &v1.Pod{}, time.Now()))
		n.work, n.status = work{on: Sync}, &v1.PodStatus{}
		n.refresh()
		synctest.Wait()
		n.rest()
		if n.early == nil || n.status == nil || v.until.Err() != nil {
			t.Error("it counts as at rest while its volumes are written")
		}
		close(v.let)
		synctest.Wait()
		if events := n.take(); len(events) != 1 {
			t.Errorf("it is told %v when they are", events)
		}
		early := n.early
		n.rest()
		if n.early != nil || n.status != nil || early.Err() == nil {
			t.Error("at rest it holds what it needed for its work")
		}
	})
}
