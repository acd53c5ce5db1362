package worker

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

type turnsAway struct{ Admission }

func (turnsAway) Admit(*v1.Pod, []*v1.Pod) *Rejection {
	return &Rejection{Reason: "OutOfcpu", Message: "no cpu"}
}

type toldPhases struct {
	toldNobody
	phases []v1.PodPhase
}

func (r *toldPhases) Report(_ *v1.Pod, st v1.PodStatus) { r.phases = append(r.phases, st.Phase) }

type keepsNothing struct{ Checkpoints }

func (keepsNothing) Save(podlife.Saved, bool) error { return nil }

// Of a pod that is turned away nothing is told but that: a reporter that is slow to begin would make no difference of it, a quick one does.
func TestOfAPodThatIsTurnedAwayThatAloneIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &toldPhases{}
		w := &Workers{
			cfg: Config{
				Life: podlife.Defaults(), Metrics: noMetrics{}, Append: timeline.Discard, Reporter: told, Admission: turnsAway{},
				Checkpoints: keepsNothing{}, Event: func(*v1.Pod, string, string, string, string) {},
			},
			ctx: t.Context(), pods: map[types.UID]*pod{}, names: map[string][]types.UID{}, waiting: map[string]*v1.Pod{},
		}
		p := &v1.Pod{}
		n := newPod(w, p, podlife.Begin(w.cfg.Life, p, time.Now()))
		n.step(podlife.Tick{})
		synctest.Wait()
		if len(told.phases) != 1 || told.phases[0] != v1.PodFailed {
			t.Errorf("%v in stage %s", told.phases, n.state.Stage)
		}
	})
}
