package profile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func read(t *testing.T, text string) Config {
	t.Helper()
	c, err := Read([]byte(head+text), Given{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// told is a set in short: filters, scores with weights, relations (F: may reject) with weights, filters after these.
func told(s plugins.Set) string {
	var out []string
	for _, f := range s.Filters {
		out = append(out, f.Name())
	}
	out = append(out, "|")
	for _, x := range s.Scores {
		out = append(out, fmt.Sprintf("%s=%d", x.Name(), x.Weight))
	}
	out = append(out, "|")
	for _, x := range s.Relations {
		f := ""
		if x.Filters {
			f = "F"
		}
		out = append(out, fmt.Sprintf("%s=%s%d", x.Name(), f, x.Weight))
	}
	for _, f := range s.Last {
		out = append(out, f.Name())
	}
	return strings.Join(out, " ")
}

// A file that says nothing of plug-ins gives the default profile, exactly.
func TestDefaults(t *testing.T) {
	c := read(t, "")
	if len(c.Profiles) != 1 || c.Profiles[0].Name != "default-scheduler" || c.FirstBackoff != time.Second || c.MaxBackoff != 10*time.Second {
		t.Errorf("%+v", c)
	}
	c = read(t, "profiles: [{}]\nleaderElection: {leaderElect: true}\n")
	want := plugins.Default(nil)
	got := c.Profiles[0].Set
	if told(got) != told(want) || len(got.PreEnqueue) != 1 || len(got.PreFilters) != 1 || got.Preemption != want.Preemption {
		t.Errorf("got  %s\nwant %s", told(got), told(want))
	}
}

func TestPlugins(t *testing.T) {
	c := read(t, `
percentageOfNodesToScore: 40
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 60
profiles:
- schedulerName: packed
  percentageOfNodesToScore: 70
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: ImageLocality}]
      enabled: [{name: NodeResourcesFit, weight: 5}, {name: NodeAffinity}]
    filter: {disabled: [{name: PodTopologySpread}]}
    postFilter: {disabled: [{name: "*"}]}
- schedulerName: bare
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: NodeResourcesFit, weight: 3}, {name: InterPodAffinity}]
    preEnqueue: {enabled: [{name: SchedulingGates}]}
`)
	if c.FirstBackoff != 2*time.Second || c.MaxBackoff != time.Minute {
		t.Errorf("back-off %s to %s", c.FirstBackoff, c.MaxBackoff)
	}
	packed, bare := c.Profiles[0], c.Profiles[1]
	const wantPacked = "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit | " +
		"NodeResourcesFit=5 NodeAffinity=1 TaintToleration=3 | PodTopologySpread=2 InterPodAffinity=F2 NodeDeclaredFeatures"
	if got := told(packed.Set); got != wantPacked || !packed.Set.Preemption.Off || packed.Percent != 70 {
		t.Errorf("got  %s, %+v\nwant %s", got, packed.Set.Preemption, wantPacked)
	}
	const wantBare = "NodeResourcesFit | NodeResourcesFit=3 | InterPodAffinity=F1"
	if got := told(bare.Set); got != wantBare || len(bare.Set.PreEnqueue) != 1 || !bare.Set.Preemption.Off || bare.Percent != 40 {
		t.Errorf("got  %s\nwant %s", got, wantBare)
	}
}

func TestArguments(t *testing.T) {
	c := read(t, `
profiles:
- pluginConfig:
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 20, minCandidateNodesAbsolute: 5}
  - name: InterPodAffinity
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs, hardPodAffinityWeight: 7, ignorePreferredTermsOfExistingPods: true}
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/a], ignoredResourceGroups: [example.org]}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [x]}]}]}
`)
	s := c.Profiles[0].Set
	if s.Preemption != (plugins.Preemption{Percent: 20, AtLeast: 5}) {
		t.Errorf("%+v", s.Preemption)
	}
	for _, r := range s.Relations {
		switch p := r.Relation.(type) {
		case plugins.InterPodAffinity:
			if p.HardWeight != 7 || !p.OwnPreferencesOnly {
				t.Errorf("%+v", p)
			}
		case plugins.PodTopologySpread:
			if len(p.Defaults) != 1 || p.Defaults[0].MaxSkew != 2 {
				t.Errorf("%+v", p)
			}
		}
	}
	cluster := framework.NewCluster()
	for _, pool := range []string{"x", "y"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: pool, Labels: map[string]string{"pool": pool}}}
		n.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("10")}
		cluster.SetNode(n)
	}
	pod := &v1.Pod{}
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		"example.com/a": resource.MustParse("1"), "example.org/b": resource.MustParse("1"),
	}}}}
	shape := cluster.Shape(pod).Shape
	for _, f := range s.AllFilters() {
		if r := f.Filter(shape, cluster.Node("x")); r != nil {
			t.Errorf("%s: %v", f.Name(), r.Reasons)
		}
		if f.Name() == "NodeAffinity" {
			if r := f.Filter(shape, cluster.Node("y")); r == nil || r.Reasons[0] != "node(s) didn't match scheduler-enforced node affinity" {
				t.Errorf("the other pool: %+v", r)
			}
		}
	}
}

// The worked example of the public documentation on bin packing by RequestedToCapacityRatio, and the same node under the other
// strategies: resources with the weights 5 (intel.com/foo), 1 (memory) and 3 (cpu); foo 2 of 4, memory 256 of 1024 MB, cpu 2 of 8 are asked
// for, foo 1, memory 256 MB and cpu 1 are in use.
func TestStrategies(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	n.Status.Allocatable = v1.ResourceList{
		"intel.com/foo": resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourceCPU: resource.MustParse("8"), v1.ResourcePods: resource.MustParse("9"),
	}
	asks := func(node, foo, memory, cpu string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "x"}}
		p.Spec.NodeName = node
		p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			"intel.com/foo": resource.MustParse(foo), v1.ResourceMemory: resource.MustParse(memory), v1.ResourceCPU: resource.MustParse(cpu),
		}}}}
		return p
	}
	c := framework.NewCluster()
	c.SetNode(n)
	c.SetPod(asks("n", "1", "256Mi", "1"))
	shape := c.Shape(asks("", "2", "256Mi", "2")).Shape
	for strategy, want := range map[string]int64{
		// In use with the pod: foo 3/4 = 75 %, memory 512/1024 = 50 %, cpu 3/8 = 37 %.
		"type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}, ": 60, // (75*5 + 50*1 + 37*3) / 9 = 59.6, rounded
		"type: LeastAllocated, ": 40, // (25*5 + 50*1 + 62*3) / 9 = 40.1
		"type: MostAllocated, ":  59, // (75*5 + 50*1 + 37*3) / 9 = 59.6
		"type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 50, score: 10}, {utilization: 75, score: 0}]}, ": 100, // foo scores 0 and is left out
	} {
		got := read(t, "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {"+strategy+
			"resources: [{name: intel.com/foo, weight: 5}, {name: memory}, {name: cpu, weight: 3}]}}}]}]")
		for _, s := range got.Profiles[0].Set.Scores {
			if s.Name() == "NodeResourcesFit" {
				if score := s.Raw(shape, c.Node("n")); score != want {
					t.Errorf("%s: %d, want %d", strategy, score, want)
				}
			}
		}
	}
}

// What is wrong is refused by its path, all at once.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"profiles: [{plugins: {score: {enabled: [{name: Foo}]}}}]":                                                                                                                      `profiles[0].plugins.score.enabled[0].name: Unsupported value: "Foo": supported values: `,
		"profiles: [{plugins: {filter: {enabled: [{name: ImageLocality}]}}}]":                                                                                                           `profiles[0].plugins.filter.enabled[0].name: Invalid value: "ImageLocality": plugin "ImageLocality" does not extend filter: it has score`,
		"profiles: [{plugins: {filter: {enabled: [{name: VolumeBinding}]}}}]":                                                                                                           `profiles[0].plugins.filter.enabled[0].name: Invalid value: "VolumeBinding": this plug-in is not supported yet: leave it out`,
		"profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -1}]}}}]":                                                                                                 `profiles[0].plugins.score.enabled[0].weight: Invalid value: -1: must not be negative`,
		"profiles: [{plugins: {queueSort: {disabled: [{name: PrioritySort}]}}}]":                                                                                                        `profiles[0].plugins.queueSort: Invalid value: null: exactly one plug-in must be enabled: PrioritySort`,
		"profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]":                                                                                                                      `profiles[0].plugins.bind: Required value: at least one bind plugin is needed: DefaultBinder`,
		"profiles: [{schedulerName: a}, {schedulerName: a}]":                                                                                                                            `profiles[1].schedulerName: Duplicate value: "a"`,
		"profiles: [{schedulerName: a}, {}]":                                                                                                                                            `profiles[1].schedulerName: Required value`,
		"profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]":                                                                                    `profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]`,
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Most}}}]}]":                                                                                 `profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Most"`,
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategies: {}}}]}]":                                                                                         `unknown field "scoringStrategies"`,
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a b]}}]}]":                                                                                       `profiles[0].pluginConfig[0].args.ignoredResources[0]: Invalid value: "a b": name part must consist of`,
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [a b]}}]}]":                                                                                  `profiles[0].pluginConfig[0].args.ignoredResourceGroups[0]: Invalid value: "a b": name part must consist of`,
		"profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: cpu}]}}]}]":                                                          `profiles[0].pluginConfig[0].args.resources[1].name: Duplicate value: "cpu"`,
		"profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}}]}]":                                                 `profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage`,
		"profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a b, whenUnsatisfiable: DoNotSchedule}]}}]}]": `profiles[0].pluginConfig[0].args.defaultConstraints[0].topologyKey: Invalid value: "a b": name part must consist of`,
		"profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}}]}]": `profiles[0].pluginConfig[0].args.defaultConstraints[1]: Duplicate value: "{a, DoNotSchedule}"`,
		"profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Near}]}]}}}}]}]":                                          `profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near"`,
		"profiles: [{pluginConfig: [{name: Foo, args: {}}]}]":                                 `profiles[0].pluginConfig[0].name: Unsupported value: "Foo"`,
		"percentageOfNodesToScore: 101":                                                       `percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]`,
		"podInitialBackoffSeconds: 20":                                                        `podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds`,
		"extenders: [{filterVerb: f}]":                                                        `extenders[0].urlPrefix: Invalid value: "": must be an address like http://host:port/path`,
		"extenders: [{urlPrefix: http://x, prioritizeVerb: p}]":                               `extenders[0].weight: Invalid value: 0: must have a positive weight applied to it`,
		"extenders: [{urlPrefix: http://x, bindVerb: b}, {urlPrefix: http://y, bindVerb: b}]": `extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind`,
		"extenders: [{urlPrefix: http://x, managedResources: [{name: cpu}]}]":                 `extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name`,
		"extenders: [{urlPrefix: http://x, httpTimeout: soon}]":                               `time: invalid duration`,
		"clientConnection: {kubeconfig: /x}":                                                  `clientConnection: Forbidden: the scheduler is in the server's process: remove it`,
		"leaderElection: {leaderElect: false}":                                                `leaderElection: Forbidden: servers on one store elect their leader by themselves: remove it`,
		"profile: []":                                                                         `unknown field "profile"`,
		"percentageOfNodesToScore: 101\nprofiles: [{schedulerName: a}, {schedulerName: a}]":   `[percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100], profiles[1].schedulerName: Duplicate value: "a"]`,
	} {
		if _, err := Read([]byte(head+text), Given{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
	if _, err := Read([]byte("profiles: []"), Given{}); err == nil || !strings.Contains(err.Error(), "write apiVersion: kubescheduler.config.k8s.io/v1") {
		t.Errorf("no kind: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", head, head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}}}]}]",
		head + "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}}}]", "a: &a [*a]", "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := Read(text, Given{}); err == nil && (len(c.Profiles) == 0 || c.Profiles[0].Set.Sort == nil) {
			t.Errorf("accepted, and nothing to schedule with: %+v", c)
		}
	})
}
