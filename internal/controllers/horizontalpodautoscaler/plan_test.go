package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/registry"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// pod is one that has been ready for an hour, requests 100m and is called by its number.
func pod(i int) *v1.Pod {
	old := metav1.NewTime(now.Add(-time.Hour))
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)}}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("100m")}}}}
	p.Status = v1.PodStatus{Phase: v1.PodRunning, StartTime: &old, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: old}}}
	return p
}

// using are metrics of pods p0, p1, ... in thousandths; less than nothing is none.
func using(milli ...int64) (out []v1beta1.PodMetrics) {
	for i, m := range milli {
		if m >= 0 {
			out = append(out, v1beta1.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)}, Timestamp: metav1.NewTime(now),
				Containers: []v1beta1.ContainerMetrics{{Name: "c", Usage: v1.ResourceList{"cpu": *resource.NewMilliQuantity(m, resource.DecimalSI)}}},
			})
		}
	}
	return out
}

// The arithmetic of the documentation: ceil(current * used / wanted), nothing within a tenth, and what is not known counts in favour of
// leaving all as it is.
func TestReplicas(t *testing.T) {
	unready := func(p *v1.Pod) { p.Status.Conditions[0].Status = v1.ConditionFalse }
	for name, c := range map[string]struct {
		milli  []int64
		target int32
		change func([]*v1.Pod)
		want   int32
		err    string
	}{
		"twice as much is twice as many":        {milli: []int64{100, 100}, target: 50, want: 4},
		"half is half":                          {milli: []int64{25, 25, 25, 25}, target: 50, want: 2},
		"a little more rounds up":               {milli: []int64{60, 60, 60}, target: 50, want: 4},
		"a tenth is nothing":                    {milli: []int64{55, 55}, target: 50, want: 2},
		"a missing one is idle on the way up":   {milli: []int64{100, 100, -1}, target: 50, want: 4},
		"and busy on the way down":              {milli: []int64{10, 10, -1}, target: 50, want: 3},
		"no way up remains":                     {milli: []int64{60, -1, -1}, target: 50, want: 3},
		"one that is not ready is idle":         {milli: []int64{100, 100, 100}, target: 50, change: func(p []*v1.Pod) { p[2].Status.Phase = v1.PodPending }, want: 4},
		"one that was never ready is not asked": {milli: []int64{100, 900}, target: 50, change: func(p []*v1.Pod) { unready(p[1]) }, want: 2},
		"one that goes does not count":          {milli: []int64{100, 900}, target: 50, change: func(p []*v1.Pod) { p[1].DeletionTimestamp = p[1].Status.StartTime }, want: 2},
		"a young one counts once it is ready":   {milli: []int64{100, 100}, target: 50, change: func(p []*v1.Pod) { *p[1].Status.StartTime = metav1.NewTime(now.Add(-time.Minute)) }, want: 4},
		"no pods":                               {target: 50, err: "no pods returned by selector while calculating replica count"},
		"none ready":                            {milli: []int64{100}, target: 50, change: func(p []*v1.Pod) { unready(p[0]) }, err: "did not receive metrics for targeted pods (pods might be unready)"},
		"a container that requests nothing":     {milli: []int64{100}, target: 50, change: func(p []*v1.Pod) { p[0].Spec.Containers[0].Resources.Requests = nil }, err: "missing request for cpu in container c of Pod p0"},
		"more than there are numbers for":       {milli: []int64{1 << 40}, target: 1, want: 1<<31 - 1},
		"pods' own requests count where they exist": {milli: []int64{100, 100}, target: 50, change: func(p []*v1.Pod) {
			for _, p := range p {
				p.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("200m")}}
			}
		}, want: 2},
	} {
		var all []*v1.Pod
		for i := range c.milli {
			all = append(all, pod(i))
		}
		if c.change != nil {
			c.change(all)
		}
		got, _, err := propose(int32(len(all)), all, samples(using(c.milli...), "cpu", ""), "cpu", tolerance{0.1, 0.1}, now, byUtilization(c.target, "cpu", ""))
		if c.err != "" && (err == nil || err.Error() != c.err) || c.err == "" && (err != nil || got != c.want) {
			t.Errorf("%s: %d, %v; want %d, %q", name, got, err, c.want, c.err)
		}
	}
	if n, m, err := propose(2, []*v1.Pod{pod(0), pod(1)}, samples(using(30, 10), "cpu", "c"), "cpu", tolerance{0.1, 0.1}, now, byAverage(5)); n != 8 || m.average != 20 || err != nil {
		t.Errorf("an average value: %d, %+v, %v", n, m, err)
	}
}

// autoscaler is one of cpu: target%, between 1 and 100, changed and defaulted.
func autoscaler(target int32, change func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 1}}
	h.Spec.MaxReplicas = 100
	h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{
		Name: "cpu", Target: autoscalingv2.MetricTarget{Type: "Utilization", AverageUtilization: &target},
	}}}
	if change != nil {
		change(h)
	}
	registry.ByGVK(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")).Default(h)
	return h
}

// state are n pods that use so much each.
func state(h *autoscalingv2.HorizontalPodAutoscaler, n int, milli int64, at time.Time) *world {
	w := &world{hpa: h, scale: &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: int32(n)}}, now: at}
	var each []int64
	for i := range n {
		w.pods, each = append(w.pods, pod(i)), append(each, milli)
	}
	w.usage = using(each...)
	return w
}

func shown(d *decision) string {
	out := fmt.Sprintf("%d→%d %s", d.from, d.to, d.why)
	for _, c := range d.status.Conditions {
		out += fmt.Sprintf("; %s=%s %s", c.Type, c.Status, c.Reason)
	}
	for _, e := range d.events {
		out += "; " + e.kind + " " + e.reason + ": " + e.text
	}
	return out
}

func TestDecisions(t *testing.T) {
	h := autoscaler(50, nil)
	const active = "; AbleToScale=True ReadyForNewScale; ScalingActive=True ValidMetricFound; ScalingLimited="
	const why = " cpu resource utilization (percentage of request) above target"
	for name, c := range map[string]struct {
		w    *world
		want string
	}{
		"enough":    {state(h, 2, 50, now), "2→2 " + active + "False DesiredWithinRange"},
		"too few":   {state(h, 2, 80, now), "2→4" + why + active + "False DesiredWithinRange"},
		"at once":   {state(h, 3, 500, now), "3→6" + why + active + "True ScaleUpLimit"},
		"above":     {state(h, 101, 500, now), "101→100 Current number of replicas above Spec.MaxReplicas; AbleToScale=True SucceededGetScale"},
		"none":      {state(h, 0, 0, now), "0→0 ; AbleToScale=True SucceededGetScale; ScalingActive=False ScalingDisabled"},
		"below":     {state(autoscaler(50, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MinReplicas = new(int32(3)) }), 2, 50, now), "2→3 Current number of replicas below Spec.MinReplicas; AbleToScale=True SucceededGetScale"},
		"the limit": {state(autoscaler(50, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = 5 }), 4, 100, now), "4→5" + why + active + "True TooManyReplicas"},
		"no metrics": {
			&world{hpa: h, scale: state(h, 2, 0, now).scale, pods: []*v1.Pod{pod(0)}, now: now},
			"2→2 ; AbleToScale=True SucceededGetScale; ScalingActive=False FailedGetResourceMetric; " +
				"Warning FailedGetResourceMetric: failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API; " +
				"Warning FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API",
		},
		"pods' own metric": {
			state(autoscaler(50, func(h *autoscalingv2.HorizontalPodAutoscaler) {
				h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "packets"}, Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: resource.NewQuantity(1, resource.DecimalSI)},
				}})
			}), 2, 80, now),
			"2→4" + why + active + "False DesiredWithinRange; " +
				"Warning FailedGetPodsMetric: unable to get metric packets: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
		},
	} {
		if got := shown(decide(c.w, &history{})); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	d := unreachable(h, errors.New("gone"), now)
	if got := shown(d); !strings.Contains(got, "AbleToScale=False FailedGetScale; Warning FailedGetScale: gone") {
		t.Error(got)
	}
	d = decide(state(h, 2, 80, now), &history{})
	d.done(nil, &history{})
	if got := shown(d); !strings.Contains(got, "AbleToScale=True SucceededRescale") || !strings.Contains(got, "ScaledToZero=False NotScaledToZero; Normal SuccessfulRescale: New size: 4; reason: cpu resource") || d.status.LastScaleTime == nil {
		t.Error(got)
	}
}

// Of a container's metric only that container counts, whatever else is in its pods.
func TestContainersCountAlone(t *testing.T) {
	h := autoscaler(50, func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: "cpu", Container: "c", Target: autoscalingv2.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(50))},
		}}}
	})
	w := state(h, 2, 80, now)
	for i, p := range w.pods {
		side := p.Spec.Containers[0].DeepCopy()
		side.Name, side.Resources.Requests["cpu"] = "side", resource.MustParse("900m")
		p.Spec.Containers = append(p.Spec.Containers, *side)
		w.usage[i].Containers = append(w.usage[i].Containers, v1beta1.ContainerMetrics{Name: "side", Usage: v1.ResourceList{"cpu": resource.MustParse("1m")}})
	}
	d := decide(w, &history{})
	if got := shown(d); !strings.HasPrefix(got, "2→4 cpu container resource utilization (percentage of request) above target;") {
		t.Error(got)
	}
	if m := d.status.CurrentMetrics; len(m) != 1 || m[0].ContainerResource == nil || m[0].ContainerResource.Container != "c" || *m[0].ContainerResource.Current.AverageUtilization != 80 {
		t.Errorf("%+v", m)
	}
	for _, p := range w.pods {
		p.Spec.Containers = p.Spec.Containers[1:]
	}
	if got := shown(decide(w, &history{})); !strings.HasPrefix(got, "2→2 ") || !strings.Contains(got, "container c not found in Pod p0") {
		t.Error(got)
	}
}

// What was wished for in the last five minutes holds the replicas up.
func TestFewerReplicasWait(t *testing.T) {
	h, past := autoscaler(50, nil), &history{}
	decide(state(h, 4, 50, now), past)
	d := decide(state(h, 4, 10, now.Add(time.Minute)), past)
	if got := shown(d); !strings.HasPrefix(got, "4→4 ") || !strings.Contains(got, "AbleToScale=True ScaleDownStabilized") {
		t.Error(got)
	}
	late := state(h, 4, 10, now.Add(6*time.Minute+time.Second))
	if d = decide(late, past); d.to != 1 || d.why != "All metrics below target" {
		t.Error(shown(d))
	}
}

// The documentation's policies: 4 pods or 10 % a minute downwards, from 80 to 10.
func TestPolicies(t *testing.T) {
	b := &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: new(int32(0)),
		Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: 4, PeriodSeconds: 60}, {Type: "Percent", Value: 10, PeriodSeconds: 60}},
	}}
	h := autoscaler(50, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.Behavior = b })
	past, at, have := &history{}, now, int32(80)
	var steps []int32
	for range 6 {
		d := decide(state(h, int(have), 5, at), past)
		d.done(nil, past)
		steps, have, at = append(steps, d.to), d.to, at.Add(time.Minute)
	}
	if got := fmt.Sprint(steps); got != "[72 64 57 51 45 40]" {
		t.Error(got)
	}
	h.Spec.Behavior.ScaleDown.SelectPolicy = new(autoscalingv2.DisabledPolicySelect)
	if d := decide(state(h, 40, 5, at), past); d.rescale || !strings.Contains(shown(d), "ScalingLimited=True ScaleDownLimit") {
		t.Error(shown(d))
	}
}

// Whatever is measured, the replicas stay between the bounds, never change faster than a policy lets them, and a second look at the same
// moment changes nothing more.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Int32Range(1, 10).Draw(t, "min")
		most := rapid.Int32Range(least, 60).Draw(t, "max")
		step := rapid.Int32Range(1, 8).Draw(t, "step")
		policed := rapid.Bool().Draw(t, "policed")
		h := autoscaler(50, func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.MinReplicas, h.Spec.MaxReplicas = &least, most
			if policed {
				rules := func(name string) *autoscalingv2.HPAScalingRules {
					return &autoscalingv2.HPAScalingRules{
						StabilizationWindowSeconds: new(rapid.Int32Range(0, 300).Draw(t, name)),
						Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: step, PeriodSeconds: 60}},
					}
				}
				h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules("up"), ScaleDown: rules("down")}
			}
		})
		past, at, have := &history{}, now, rapid.Int32Range(least, most).Draw(t, "have")
		type point struct {
			at time.Time
			n  int32
		}
		points := []point{{at, have}}
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			at = at.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			used := rapid.Int64Range(0, 300).Draw(t, "used")
			d := decide(state(h, int(have), used, at), past)
			if d.to < least || d.to > most {
				t.Fatalf("%d is not between %d and %d", d.to, least, most)
			}
			if again := decide(state(h, int(have), used, at), past); again.to != d.to {
				t.Fatalf("%d at first, then %d", d.to, again.to)
			}
			if d.rescale {
				d.done(nil, past)
			}
			have = d.to
			if !policed {
				continue
			}
			began := points[0].n // the policy counts from what there was a minute ago
			for _, p := range points {
				if at.Sub(p.at) >= time.Minute {
					began = p.n
				}
			}
			if last := points[len(points)-1].n; have < last && have < began-step || have > last && have > began+step {
				t.Fatalf("%d, a minute after %d, by at most %d", have, began, step)
			}
			points = append(points, point{at, have})
		}
	})
}
