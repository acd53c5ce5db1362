package scheduler_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// What waits, what was tried and what came of it is told under upstream's names.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		w.node(node("node-a", "2"))
		w.start()
		w.create(ranked("low", "1", 1))
		w.on("low", "node-a")
		w.create(pod("too-large", "100"))
		w.create(ranked("high", "2", 100))
		w.pod("high")
		w.delete("low")
		time.Sleep(2 * time.Second)
		w.on("high", "node-a")
		r := prometheus.NewRegistry()
		r.MustRegister(w.metrics)
		const want = `
# HELP scheduler_cache_size Nodes, pods and assumed pods that the scheduler knows.
# TYPE scheduler_cache_size gauge
scheduler_cache_size{type="assumed_pods"} 0
scheduler_cache_size{type="nodes"} 1
scheduler_cache_size{type="pods"} 1
# HELP scheduler_pending_pods Pods that wait, by queue: active, backoff, unschedulable, gated.
# TYPE scheduler_pending_pods gauge
scheduler_pending_pods{queue="active"} 0
scheduler_pending_pods{queue="backoff"} 0
scheduler_pending_pods{queue="gated"} 0
scheduler_pending_pods{queue="unschedulable"} 1
# HELP scheduler_preemption_attempts_total How often others were made to leave for a pod.
# TYPE scheduler_preemption_attempts_total counter
scheduler_preemption_attempts_total 1
# HELP scheduler_schedule_attempts_total Attempts to place a pod, by how they ended: scheduled, unschedulable, error.
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 2
scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 2
# HELP scheduler_unschedulable_pods Unschedulable pods by the plug-in that rejected them on some node; a pod counts for each.
# TYPE scheduler_unschedulable_pods gauge
scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1
`
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, f := range families {
			if strings.Contains(want, "# TYPE "+f.GetName()+" ") {
				if _, err := expfmt.MetricFamilyToText(&got, f); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got.String() != want[1:] {
			t.Errorf("got\n%s\nwant%s", got.String(), want)
		}
	})
}
