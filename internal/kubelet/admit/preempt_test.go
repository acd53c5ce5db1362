package admit

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func class(c v1.PodQOSClass) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.QOSClass = c } }

func priority(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }

func asksBoth(cpu, memory string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
}

// Who ends for a critical pod on a node of one cpu, 1Gi of memory and three pods.
func TestPreempt(t *testing.T) {
	const critical = 2_000_000_000
	best, burst, sure := class(v1.PodQOSBestEffort), class(v1.PodQOSBurstable), class(v1.PodQOSGuaranteed)
	static := func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }
	const none = "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: " +
		"no set of running pods found to reclaim resources: "
	for _, tc := range []struct {
		name   string
		pod    *v1.Pod
		active []*v1.Pod
		want   []string
		refuse string
	}{
		{
			name: "one that is enough before one of a better class", pod: testPod("c", priority(critical), asks("cpu", "500m")),
			active: []*v1.Pod{testPod("sure", sure, asks("cpu", "500m")), testPod("burst", burst, asks("cpu", "500m"))}, want: []string{"burst"},
		},
		{
			name: "the nearest first", pod: testPod("c", priority(critical), asks("cpu", "500m")),
			active: []*v1.Pod{testPod("small", burst, asks("cpu", "100m")), testPod("big", burst, asks("cpu", "900m"))}, want: []string{"big"},
		},
		{
			name: "the smaller of two that are enough", pod: testPod("c", priority(critical), asksBoth("200m", "100Mi")),
			active: []*v1.Pod{testPod("a", burst, asksBoth("400m", "300Mi")), testPod("b", burst, asksBoth("600m", "200Mi"))}, want: []string{"b"},
		},
		{
			name: "a worse class helps a better one", pod: testPod("c", priority(critical), asks("cpu", "900m")),
			active: []*v1.Pod{testPod("burst", burst, asks("cpu", "400m")), testPod("sure", sure, asks("cpu", "600m"))}, want: []string{"burst", "sure"},
		},
		{
			name: "one place", pod: testPod("c", static),
			active: []*v1.Pod{testPod("sure", sure), testPod("best", best), testPod("burst", burst)}, want: []string{"best"},
		},
		{
			name: "not another critical one", pod: testPod("c", priority(critical), asks("cpu", "1")),
			active: []*v1.Pod{testPod("other", priority(critical), asks("cpu", "600m"))}, refuse: none + "[(res: cpu, q: 600), ]",
		},
		{
			name: "unless it is of lower priority", pod: testPod("c", priority(critical+1), asks("cpu", "1")),
			active: []*v1.Pod{testPod("other", priority(critical), asks("cpu", "600m"))}, want: []string{"other"},
		},
		{
			name: "more than the node has", pod: testPod("c", priority(critical), asks("cpu", "3")),
			active: []*v1.Pod{testPod("burst", burst, asks("cpu", "600m"))}, refuse: none + "[(res: cpu, q: 2000), ]",
		},
		{
			name: "what no end can change comes first", pod: testPod("c", priority(critical), asks("cpu", "1"), func(p *v1.Pod) { p.Spec.NodeName = "n2" }),
			active: []*v1.Pod{testPod("burst", burst, asks("cpu", "600m"))},
			refuse: "Predicate NodeName failed: node(s) didn't match the requested node name",
		},
		{
			name: "nobody ends for one that is not critical", pod: testPod("c", priority(critical-1), asks("cpu", "1")),
			active: []*v1.Pod{testPod("burst", burst, asks("cpu", "600m"))},
			refuse: "Node didn't have enough resource: cpu, requested: 1000, used: 600, capacity: 1000",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Checker{Node: testNode, Rules: Rules{OS: "linux"}}
			r := c.Admit(tc.pod, append(tc.active, tc.pod))
			if r == nil {
				t.Fatal("admitted")
			}
			var got []string
			for _, v := range r.Victims {
				got = append(got, string(v.UID))
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) || r.Message != tc.refuse {
				t.Errorf("%v, %q; want %v, %q", got, r.Message, tc.want, tc.refuse)
			}
			if r := c.Resize(tc.pod, tc.pod, tc.active); r == nil || len(r.Victims) > 0 {
				t.Errorf("a resize: %+v", r)
			}
		})
	}
}
