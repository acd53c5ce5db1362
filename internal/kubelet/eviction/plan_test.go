package eviction

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/config/v1beta1"
)

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func see(s Signal, available, capacity string) map[Signal]Observation {
	return map[Signal]Observation{s: {quantity(available), quantity(capacity)}}
}

// Hard thresholds act at once, soft ones after their grace; what acts holds until its reclaim is met; conditions stay for the
// transition period.
func TestJudge(t *testing.T) {
	thresholds, err := Thresholds(&v1beta1.KubeletConfiguration{
		EvictionHard:            map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"},
		EvictionSoft:            map[string]string{"memory.available": "300Mi"},
		EvictionSoftGracePeriod: map[string]string{"memory.available": "30s"},
		EvictionMinimumReclaim:  map[string]string{"nodefs.available": "1Gi"},
	})
	if err != nil || len(thresholds) != 3 {
		t.Fatalf("%+v, %v", thresholds, err)
	}
	start := time.Unix(1000, 0)
	var s State
	for _, step := range []struct {
		after time.Duration
		seen  map[Signal]Observation
		want  string
	}{
		{0, see(Memory, "1Gi", "8Gi"), "[] -"},
		{10 * time.Second, see(Memory, "250Mi", "8Gi"), "[MemoryPressure] -"},
		{30 * time.Second, see(Memory, "250Mi", "8Gi"), "[MemoryPressure] -"},
		{40 * time.Second, see(Memory, "250Mi", "8Gi"), "[MemoryPressure] memory soft"},
		{50 * time.Second, see(Memory, "50Mi", "8Gi"), "[MemoryPressure] memory hard"},
		{60 * time.Second, see(Memory, "1Gi", "8Gi"), "[MemoryPressure] -"},
		{70 * time.Second, see(Memory, "250Mi", "8Gi"), "[MemoryPressure] -"}, // its grace begins anew
		{80 * time.Second, see(Memory, "1Gi", "8Gi"), "[MemoryPressure] -"},
		{369 * time.Second, see(NodeFS, "9Gi", "100Gi"), "[DiskPressure MemoryPressure] ephemeral-storage hard"},
		{371 * time.Second, see(NodeFS, "10500Mi", "100Gi"), "[DiskPressure] ephemeral-storage hard"}, // less than 1Gi more than it must be
		{380 * time.Second, see(NodeFS, "11Gi", "100Gi"), "[DiskPressure] -"},
		{390 * time.Second, see(NodeFS, "10500Mi", "100Gi"), "[DiskPressure] -"},
		{900 * time.Second, nil, "[] -"},
	} {
		var v Verdict
		s, v = Judge(s, thresholds, step.seen, 5*time.Minute, start.Add(step.after))
		got := fmt.Sprint(v.Conditions) + " -"
		if v.Act != nil {
			got = fmt.Sprintf("%v %s %s", v.Conditions, v.Resource, map[bool]string{false: "hard", true: "soft"}[v.Act.Soft])
		}
		if got != step.want {
			t.Errorf("after %s: %s, want %s", step.after, got, step.want)
		}
	}
	both := see(NodeFS, "1Gi", "100Gi")
	both[Memory] = Observation{quantity("1Mi"), quantity("8Gi")}
	if _, v := Judge(State{}, thresholds, both, time.Minute, start); v.Resource != v1.ResourceMemory {
		t.Errorf("memory goes first, not %s", v.Resource)
	}
}

func TestThresholdsAreRefused(t *testing.T) {
	for _, c := range []struct {
		conf v1beta1.KubeletConfiguration
		want string
	}{
		{v1beta1.KubeletConfiguration{EvictionHard: map[string]string{"memory.free": "1Gi"}}, `evictionHard: unknown eviction signal "memory.free"`},
		{v1beta1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "-1"}}, `evictionHard[memory.available]: "-1" must be`},
		{v1beta1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "0"}}, `evictionHard[memory.available]: "0" must be`},
		{v1beta1.KubeletConfiguration{EvictionSoft: map[string]string{"memory.available": "1Gi"}}, "evictionSoftGracePeriod[memory.available]: a duration"},
		{v1beta1.KubeletConfiguration{EvictionSoftGracePeriod: map[string]string{"memory.available": "1m"}}, "evictionSoft has no threshold of that name"},
		{v1beta1.KubeletConfiguration{EvictionMinimumReclaim: map[string]string{"x": "1"}}, `evictionMinimumReclaim: unknown eviction signal "x"`},
	} {
		if _, err := Thresholds(&c.conf); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q in it", err, c.want)
		}
	}
}

// 0% and 100% are no thresholds: a node without eviction is configured by them.
func TestThresholdsThatAreNone(t *testing.T) {
	all := map[string]string{"memory.available": "100%", "nodefs.available": "0%", "imagefs.available": "100%"}
	got, err := Thresholds(&v1beta1.KubeletConfiguration{
		EvictionHard: all, EvictionSoft: all, EnforceNodeAllocatable: []string{"pods"}, EvictionMinimumReclaim: map[string]string{"memory.available": "0Mi"},
		EvictionSoftGracePeriod: map[string]string{"memory.available": "1s", "nodefs.available": "1s", "imagefs.available": "1s"},
	})
	if err != nil || len(got) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func pod(name string, priority int32, request string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-" + "x"}, Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "a"}}}}
	if request != "" {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: quantity(request), v1.ResourceEphemeralStorage: quantity(request)}
	}
	return p
}

// Who goes first: whoever uses more than it asked for, the least important of them, the greediest of those.
func TestRank(t *testing.T) {
	pods := []*v1.Pod{pod("modest", 0, "100Mi"), pod("important", 10, "10Mi"), pod("greedy", 0, "10Mi"), pod("greedier", 0, "")}
	use := func(p *v1.Pod) Usage {
		mib := map[string]int64{"modest": 50, "important": 500, "greedy": 60, "greedier": 60}[p.Name]
		return Usage{Containers: map[string]ContainerUsage{"a": {Memory: mib << 20, RootFS: Files{Bytes: mib << 19}, Logs: Files{Bytes: mib << 19}}}}
	}
	for _, r := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceEphemeralStorage} {
		var names []string
		for _, p := range Rank(pods, use, r, All) {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != "greedier greedy important modest" {
			t.Errorf("%s: %s", r, got)
		}
	}
	// Without priorities and requests: what lies on the file system that is full counts, and of processes their number.
	equal := []*v1.Pod{pod("logs", 0, ""), pod("layer", 0, ""), pod("forks", 0, "")}
	of := map[string]Usage{
		"logs":  {Containers: map[string]ContainerUsage{"a": {Logs: Files{5, 5}}}, Volumes: map[string]Files{"v": {5, 5}}, Processes: 2},
		"layer": {Containers: map[string]ContainerUsage{"a": {RootFS: Files{8, 8}}}, Processes: 1},
		"forks": {Processes: 9},
	}
	for _, c := range []struct {
		signal Signal
		apart  bool
		first  string
	}{
		{NodeFS, false, "logs"},
		{NodeFSInodes, false, "logs"},
		{ImageFS, false, "logs"},
		{NodeFS, true, "logs"},
		{NodeFSInodes, true, "logs"},
		{ImageFS, true, "layer"},
		{ImageFSInodes, true, "layer"},
		{ContainerFS, true, "layer"},
		{PID, true, "forks"},
	} {
		ranked := Rank(equal, func(p *v1.Pod) Usage { return of[p.Name] }, meanings[c.signal].resource, part(c.signal, c.apart))
		if ranked[0].Name != c.first {
			t.Errorf("%s, apart %v: %s goes first, want %s", c.signal, c.apart, ranked[0].Name, c.first)
		}
	}
	got, notes := message(pods[2], use(pods[2]), true, v1.ResourceMemory, Threshold{Signal: Memory, Value: Value{Quantity: quantity("100Mi")}}, Observation{quantity("50Mi"), quantity("8Gi")})
	want := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container a was using 60Mi, request is 10Mi, has larger consumption of memory. "
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if want := map[string]string{"offending_containers": "a", "offending_containers_usage": "60Mi", "starved_resource": "memory"}; !maps.Equal(notes, want) {
		t.Errorf("%q, want %q", notes, want)
	}
	whole := pods[2].DeepCopy()
	whole.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: quantity("20Mi")}}
	_, notes = message(whole, use(pods[2]), true, v1.ResourceMemory, Threshold{Signal: Memory, Value: Value{Quantity: quantity("100Mi")}}, Observation{quantity("50Mi"), quantity("8Gi")})
	if notes["offending_pod"] != whole.Name || notes["offending_pod_usage"] != "60Mi" {
		t.Errorf("%q", notes)
	}
	static := pod("s", 0, "")
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	if !Critical(static) || !Critical(pod("c", systemCritical, "")) || Critical(pods[1]) {
		t.Error("critical")
	}
}

// The limits of local storage, in upstream's words.
func TestExceeded(t *testing.T) {
	limit := quantity("5Mi")
	p := pod("p", 0, "")
	p.Spec.Volumes = []v1.Volume{
		{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit}}},
		{Name: "m", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit, Medium: v1.StorageMediumMemory}}},
	}
	if !Limited(p) || Limited(pod("q", 0, "1Mi")) {
		t.Error("limited")
	}
	for _, c := range []struct {
		change func()
		use    Usage
		apart  bool
		want   string
	}{
		{use: Usage{Volumes: map[string]Files{"v": {Bytes: 5 << 20}, "m": {Bytes: 1 << 30}}}},
		{use: Usage{Volumes: map[string]Files{"v": {Bytes: 5<<20 + 1}}}, want: `Usage of EmptyDir volume "v" exceeds the limit "5Mi". `},
		{use: Usage{Pages: map[string]int64{"v": 5<<20 + 1}}, want: `Usage of EmptyDir volume "v" exceeds the limit "5Mi". `},
		{
			change: func() {
				p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: limit}
			},
			use:  Usage{Volumes: map[string]Files{"v": {Bytes: 4 << 20}}, Containers: map[string]ContainerUsage{"a": {Logs: Files{Bytes: 2 << 20}}}},
			want: "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ",
		},
		{use: Usage{Pages: map[string]int64{"v": 4 << 20}, Containers: map[string]ContainerUsage{"a": {Logs: Files{Bytes: 2 << 20}}}}}, // no disk's
		{
			use: Usage{Containers: map[string]ContainerUsage{"a": {RootFS: Files{Bytes: 6 << 20}}}}, apart: true,
			want: "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ",
		},
		{
			change: func() {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "b", Resources: p.Spec.Containers[0].Resources})
			},
			use:  Usage{Containers: map[string]ContainerUsage{"a": {RootFS: Files{Bytes: 4 << 20}, Logs: Files{Bytes: 2 << 20}}}},
			want: `Container a exceeded its local ephemeral storage limit "5Mi". `,
		},
		{use: Usage{Containers: map[string]ContainerUsage{"a": {RootFS: Files{Bytes: 4 << 20}, Logs: Files{Bytes: 2 << 20}}}}, apart: true},
		{
			use: Usage{Containers: map[string]ContainerUsage{"a": {Logs: Files{Bytes: 6 << 20}}}}, apart: true,
			want: `Container a exceeded its local ephemeral storage limit "5Mi". `,
		},
	} {
		if c.change != nil {
			c.change()
		}
		if _, got := Exceeded(p, c.use, c.apart); got != c.want {
			t.Errorf("%+v, apart %v: %q, want %q", c.use, c.apart, got, c.want)
		}
	}
}
