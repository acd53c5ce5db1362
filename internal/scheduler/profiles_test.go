package scheduler_test

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/scheduler/profile"
)

// Two profiles place their pods each in its own way, on what both know.
func TestProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "4"))
		w.node(node("node-b", "4"))
		var err error
		w.profiles, err = profile.Read([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packed
  plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
`), profile.Given{})
		if err != nil {
			t.Fatal(err)
		}
		w.start()
		first := pod("first", "1")
		first.Spec.NodeSelector = map[string]string{v1.LabelHostname: "node-a"}
		w.create(first)
		w.on("first", "node-a")
		w.create(pod("spread", "1"))
		w.on("spread", "node-b")
		w.create(pod("even", "1"))
		busy := w.pod("even").Spec.NodeName
		packed := pod("packed", "1")
		packed.Spec.SchedulerName = "packed"
		w.create(packed)
		w.on("packed", busy)
		large := pod("large", "4")
		large.Spec.SchedulerName = "packed"
		w.create(large)
		if c := condition(w.pod("large"), v1.PodScheduled); c.Message != "0/2 nodes are available: 2 Insufficient cpu." {
			t.Errorf("%q", c.Message)
		}
		for _, want := range []string{
			"Normal Scheduled Successfully assigned ns/spread to node-b",
			"Normal Scheduled packed: Successfully assigned ns/packed to " + busy,
			"Warning FailedScheduling packed: 0/2 nodes are available: 2 Insufficient cpu.",
		} {
			if !w.heard(want) {
				t.Errorf("%q is not told", want)
			}
		}
	})
}
