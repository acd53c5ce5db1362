package scheduler_test

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler"
)

// What waits, what was tried and what came of it is told under upstream's names.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowdedWorld(t, node("node-a", "2"), ranked("low", "1", 1))
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
# HELP scheduler_goroutines How much is under way at once, by what it is: binding, preemption.
# TYPE scheduler_goroutines gauge
scheduler_goroutines{operation="binding"} 0
scheduler_goroutines{operation="preemption"} 0
# HELP scheduler_inflight_events Pods that are being decided on. Nothing that happens meanwhile is kept for later.
# TYPE scheduler_inflight_events gauge
scheduler_inflight_events{event="PodPopped"} 0
# HELP scheduler_pending_pods Pods that wait, by queue: active, backoff, unschedulable, gated.
# TYPE scheduler_pending_pods gauge
scheduler_pending_pods{queue="active"} 0
scheduler_pending_pods{queue="backoff"} 0
scheduler_pending_pods{queue="gated"} 0
scheduler_pending_pods{queue="unschedulable"} 1
# HELP scheduler_pod_scheduled_after_flush_total Pods that were bound after they were only tried again because five minutes were over.
# TYPE scheduler_pod_scheduled_after_flush_total counter
scheduler_pod_scheduled_after_flush_total 0
# HELP scheduler_preemption_attempts_total How often it was asked whether others may leave for a pod.
# TYPE scheduler_preemption_attempts_total counter
scheduler_preemption_attempts_total 2
# HELP scheduler_preemption_goroutines_execution_total How often the victims of a pod were told to leave, by how it ended.
# TYPE scheduler_preemption_goroutines_execution_total counter
scheduler_preemption_goroutines_execution_total{result="success"} 1
# HELP scheduler_queue_incoming_entities_total What came to a queue, by what brought it and what it is: pods only.
# TYPE scheduler_queue_incoming_entities_total counter
scheduler_queue_incoming_entities_total{event="AssignedPodDelete",queue="backoff",type="pod"} 1
scheduler_queue_incoming_entities_total{event="ScheduleAttemptFailure",queue="unschedulable",type="pod"} 2
scheduler_queue_incoming_entities_total{event="UnscheduledPodAdd",queue="active",type="pod"} 3
# HELP scheduler_queue_incoming_pods_total Pods that came to a queue, by what brought them.
# TYPE scheduler_queue_incoming_pods_total counter
scheduler_queue_incoming_pods_total{event="AssignedPodDelete",queue="backoff"} 1
scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"} 2
scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"} 3
# HELP scheduler_queued_entities What waits, by queue and by what it is: pods only.
# TYPE scheduler_queued_entities gauge
scheduler_queued_entities{queue="active",type="pod"} 0
scheduler_queued_entities{queue="backoff",type="pod"} 0
scheduler_queued_entities{queue="gated",type="pod"} 0
scheduler_queued_entities{queue="unschedulable",type="pod"} 1
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
		w.checkLabels(r)
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

// checkLabels holds the families to upstream's names of metrics and labels: each has been observed by now.
func (w *world) checkLabels(r prometheus.Gatherer) {
	w.t.Helper()
	families, err := r.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		got[f.GetName()] = f.GetType().String() + " " + strings.Join(labels, " ")
	}
	for name, want := range map[string]string{
		"scheduler_schedule_attempts_total":                    "COUNTER profile result",
		"scheduler_scheduling_attempt_duration_seconds":        "HISTOGRAM profile result",
		"scheduler_scheduling_algorithm_duration_seconds":      "HISTOGRAM ",
		"scheduler_pod_scheduling_sli_duration_seconds":        "HISTOGRAM attempts",
		"scheduler_pod_scheduling_attempts":                    "HISTOGRAM ",
		"scheduler_pending_pods":                               "GAUGE queue",
		"scheduler_queue_incoming_pods_total":                  "COUNTER event queue",
		"scheduler_unschedulable_pods":                         "GAUGE plugin profile",
		"scheduler_preemption_attempts_total":                  "COUNTER ",
		"scheduler_preemption_victims":                         "HISTOGRAM ",
		"scheduler_cache_size":                                 "GAUGE type",
		"scheduler_framework_extension_point_duration_seconds": "HISTOGRAM extension_point profile status",
		"scheduler_plugin_execution_duration_seconds":          "HISTOGRAM extension_point plugin status",
		"scheduler_event_handling_duration_seconds":            "HISTOGRAM event",
		"scheduler_inflight_events":                            "GAUGE event",
		"scheduler_goroutines":                                 "GAUGE operation",
		"scheduler_pod_scheduled_after_flush_total":            "COUNTER ",
		"scheduler_queued_entities":                            "GAUGE queue type",
		"scheduler_queue_incoming_entities_total":              "COUNTER event queue type",
		"scheduler_plugin_evaluation_total":                    "COUNTER extension_point plugin profile",
		"scheduler_preemption_goroutines_execution_total":      "COUNTER result",
		"scheduler_preemption_goroutines_duration_seconds":     "HISTOGRAM result",
	} {
		if got[name] != want {
			w.t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	var points []string
	for _, f := range families {
		if f.GetName() == "scheduler_framework_extension_point_duration_seconds" {
			for _, m := range f.GetMetric() {
				points = append(points, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetLabel()[2].GetValue(), " ", m.GetHistogram().GetSampleCount()))
			}
		}
	}
	// low and high are placed, too-large and high at first are not: four searches.
	want := []string{"Bind Success 2", "Filter Success 4", "PostFilter Success 1", "PostFilter Unschedulable 1", "PreFilter Success 4", "Score Success 2"}
	if !slices.Equal(points, want) {
		w.t.Errorf("extension points %q, want %q", points, want)
	}
}

// counts are how many observations a histogram has, by the values of its labels, in the order of the labels' names.
func (w *world) counts(name string) map[string]uint64 {
	w.t.Helper()
	out := map[string]uint64{}
	for labels, m := range w.told(name) {
		out[labels] = m.GetHistogram().GetSampleCount()
	}
	return out
}

// counters are the same of a counter.
func (w *world) counters(name string) map[string]float64 {
	w.t.Helper()
	out := map[string]float64{}
	for labels, m := range w.told(name) {
		out[labels] = m.GetCounter().GetValue()
	}
	return out
}

func (w *world) told(name string) map[string]*dto.Metric {
	w.t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(w.metrics)
	families, err := r.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]*dto.Metric{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			out[strings.Join(values, " ")] = m
		}
	}
	return out
}

// Every tenth attempt tells what each plug-in took for each node that it was asked about: it is asked again only where something is new.
func TestPluginTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "10"))
		w.node(node("node-b", "1"))
		w.start()
		w.create(pod("first", "2"))
		w.on("first", "node-a")
		times := w.counts("scheduler_plugin_execution_duration_seconds")
		for labels, want := range map[string]uint64{
			"Filter NodeName Success": 2, "Filter NodeResourcesFit Success": 1, "Filter NodeResourcesFit UnschedulableAndUnresolvable": 1,
			"Score NodeResourcesFit Success": 1, "Bind DefaultBinder Success": 1,
		} {
			if times[labels] != want {
				t.Errorf("%s: %d times, want %d, of %v", labels, times[labels], want, times)
			}
		}
		evaluations := w.counters("scheduler_plugin_evaluation_total")
		for labels, want := range map[string]float64{
			"Filter NodeName default-scheduler": 2, "Filter NodeResourcesFit default-scheduler": 2, "Score NodeResourcesFit default-scheduler": 1,
		} {
			if evaluations[labels] != want {
				t.Errorf("%s was asked %v times, want %v, of %v", labels, evaluations[labels], want, evaluations)
			}
		}
		for i := range 10 {
			w.create(pod(fmt.Sprint("p", i), "500m"))
			time.Sleep(time.Second)
			before := times
			times = w.counts("scheduler_plugin_execution_duration_seconds")
			grew := times["Filter NodeResourcesFit Success"] > before["Filter NodeResourcesFit Success"]
			if want := i == 9; grew != want {
				t.Errorf("attempt %d is told: %v", i+2, grew)
			}
		}
	})
}

// Batches are told as what upstream's scheduler remembers for equal pods: who goes on where an equal one's attempt ended, and what ended it.
func TestBatchesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "100"))
		for i := range 72 {
			w.create(pod(fmt.Sprintf("p-%02d", i), map[bool]string{true: "100m", false: "200m"}[i < 70]))
		}
		w.start()
		w.on("p-71", "node-a")
		if got, want := w.counters("scheduler_batch_attempts_total"), map[string]float64{
			"default-scheduler no_hint": 3, "default-scheduler hint_used": 69, // 64, 6 and 2
		}; !maps.Equal(got, want) {
			t.Errorf("attempts %v, want %v", got, want)
		}
		if got, want := w.counters("scheduler_batch_cache_flushed_total"), map[string]float64{
			"default-scheduler expired": 1, "default-scheduler pod_incompatible": 1,
		}; !maps.Equal(got, want) {
			t.Errorf("ends %v, want %v", got, want)
		}
	})
}

// A plug-in that waits for other objects tells how long it looked at each event, and what it said.
func TestHintTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "2"))
		w.start()
		p := pod("p", "1")
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		w.create(p)
		w.on("p", "")
		for _, name := range []string{"other", "data"} {
			claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
			claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
			claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
			if _, err := w.admin.Create(t.Context(), client.Claims.At("ns", name), claim); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		got := w.counts("scheduler_queueing_hint_execution_duration_seconds")
		want := map[string]uint64{"PersistentVolumeClaimAdd QueueSkip VolumeRestrictions": 1, "PersistentVolumeClaimAdd Queue VolumeRestrictions": 1}
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// How long it took until a pod was bound, and in how many attempts: of these a label knows fifteen, and what gates a pod is not the scheduler's.
func TestTimeUntilBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "2"))
		fails := 0
		w.refuseBinds(&fails)
		w.start()
		gated := pod("gated", "1")
		gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/x"}}
		w.create(gated)
		time.Sleep(time.Hour)
		change(w, client.Pods.At("ns", "gated"), func(p *v1.Pod) { p.Spec.SchedulingGates = nil })
		w.on("gated", "node-a")
		synctest.Wait()
		fails = 20
		w.create(pod("unlucky", "1"))
		time.Sleep(time.Hour)
		w.on("unlucky", "node-a")
		told := w.told("scheduler_pod_scheduling_sli_duration_seconds")
		for label, most := range map[string]float64{"1": 1, "15+": 600} {
			m := told[label]
			if h := m.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() > most {
				t.Errorf("in %s attempts: %v", label, h)
			}
		}
	})
}

// The page shows nodes and queue; without a scheduler it says so.
func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		w.page = scheduler.NewPage()
		ask := func() (int, string) {
			answer := httptest.NewRecorder()
			w.page.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/debug/scheduler", nil))
			return answer.Code, answer.Body.String()
		}
		if code, text := ask(); code != 503 {
			t.Errorf("%d %s", code, text)
		}
		w.node(node("node-a", "2"))
		w.start()
		w.create(ranked("low", "1500m", 1))
		w.on("low", "node-a")
		w.create(pod("too-large", "100"))
		gated := pod("gated", "1")
		gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/x"}}
		w.create(gated)
		w.create(ranked("high", "1", 100))
		time.Sleep(3 * time.Second)
		const want = `1 nodes, 1 pods on them, 0 of these assumed; 3 pods wait

node node-a: 1 of 110 pods, cpu 1500m of 2000m, memory 1048576 of 17179869184, ns/high waits for room

gated ns/gated: priority 0, waits for 3s, 0 attempts, kept by SchedulingGates
unschedulable ns/high: priority 100, waits for 3s, 1 attempts, kept by NodeResourcesFit
unschedulable ns/too-large: priority 0, waits for 3s, 1 attempts, kept by NodeResourcesFit
`
		if code, text := ask(); code != 200 || text != want {
			t.Errorf("%d\n%s", code, text)
		}
	})
}

// What each pod asks for and may have is a page of its own: of those that wait too, of those that have ended not.
func TestPodResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		n := node("node-a", "2")
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
		w.node(n)
		w.start()
		p := ranked("here", "500m", 100)
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("2Mi"), "example.com/gpu": resource.MustParse("1")}
		p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "busybox", Resources: v1.ResourceRequirements{Requests: list("1", "0")}}}
		w.create(p)
		w.on("here", "node-a")
		w.create(pod("waits", "100"))
		w.create(pod("ended", "1"))
		w.on("ended", "node-a")
		change(w, client.Pods.At("ns", "ended").Sub("status"), func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
		synctest.Wait()
		answer := httptest.NewRecorder()
		scheduler.PodResources(w.view).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics/resources", nil))
		const want = `# HELP kube_pod_resource_limit [STABLE] What a pod may have at most, as the scheduler and the kubelet count it.
# TYPE kube_pod_resource_limit gauge
kube_pod_resource_limit{namespace="ns",node="node-a",pod="here",priority="100",resource="example.com/gpu",scheduler="default-scheduler",unit=""} 1
kube_pod_resource_limit{namespace="ns",node="node-a",pod="here",priority="100",resource="memory",scheduler="default-scheduler",unit="bytes"} 2.097152e+06
# HELP kube_pod_resource_request [STABLE] What a pod asks for, as the scheduler and the kubelet count it.
# TYPE kube_pod_resource_request gauge
kube_pod_resource_request{namespace="ns",node="",pod="waits",priority="0",resource="cpu",scheduler="default-scheduler",unit="cores"} 100
kube_pod_resource_request{namespace="ns",node="",pod="waits",priority="0",resource="memory",scheduler="default-scheduler",unit="bytes"} 1.048576e+06
kube_pod_resource_request{namespace="ns",node="node-a",pod="here",priority="100",resource="cpu",scheduler="default-scheduler",unit="cores"} 1
kube_pod_resource_request{namespace="ns",node="node-a",pod="here",priority="100",resource="example.com/gpu",scheduler="default-scheduler",unit=""} 1
kube_pod_resource_request{namespace="ns",node="node-a",pod="here",priority="100",resource="memory",scheduler="default-scheduler",unit="bytes"} 1.048576e+06
`
		if got := answer.Body.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
