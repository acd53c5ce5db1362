package plan_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/plugins"
)

// The oracle: slow and obvious, straight from the rules, on the API objects alone. It shares no code with the planner.

type oracle struct {
	nodes map[string]*v1.Node
	pods  map[types.UID]*v1.Pod // placed ones
	wait  map[types.UID]*v1.Pod // for room on the nodes that they name
}

func cpuOf(p *v1.Pod, least int64) (sum int64) {
	for _, c := range p.Spec.Containers {
		q, ok := c.Resources.Requests[v1.ResourceCPU]
		if !ok {
			sum += least
		}
		sum += q.MilliValue()
	}
	// Init containers run alone, with the sidecars that started before them.
	var sidecars, peak int64
	for _, c := range p.Spec.InitContainers {
		q, ok := c.Resources.Requests[v1.ResourceCPU]
		v := q.MilliValue()
		if !ok {
			v = least
		}
		if c.RestartPolicy != nil {
			sidecars += v
			peak = max(peak, sidecars)
		} else {
			peak = max(peak, sidecars+v)
		}
	}
	overhead := p.Spec.Overhead[v1.ResourceCPU]
	return max(sum+sidecars, peak) + overhead.MilliValue()
}

func memoryOf(p *v1.Pod, least int64) (sum int64) {
	for _, c := range p.Spec.Containers {
		q, ok := c.Resources.Requests[v1.ResourceMemory]
		if !ok {
			sum += least
		}
		sum += q.Value()
	}
	var sidecars, peak int64
	for _, c := range p.Spec.InitContainers {
		q, ok := c.Resources.Requests[v1.ResourceMemory]
		v := q.Value()
		if !ok {
			v = least
		}
		if c.RestartPolicy != nil {
			sidecars += v
			peak = max(peak, sidecars)
		} else {
			peak = max(peak, sidecars+v)
		}
	}
	return max(sum+sidecars, peak)
}

func gpuOf(p *v1.Pod) (sum int64) {
	for _, c := range p.Spec.Containers {
		q := c.Resources.Requests["example.com/gpu"]
		sum += q.Value()
	}
	return sum
}

func (o *oracle) on(node string) (out []*v1.Pod) {
	for _, p := range o.pods {
		if p.Spec.NodeName == node {
			out = append(out, p)
		}
	}
	return out
}

func tolerates(p *v1.Pod, t v1.Taint) bool {
	for _, x := range p.Spec.Tolerations {
		if x.Key != "" && x.Key != t.Key || x.Effect != "" && x.Effect != t.Effect {
			continue
		}
		if x.Operator == v1.TolerationOpExists || x.Value == t.Value {
			return true
		}
	}
	return false
}

// reject returns the reasons in which the node refuses the pod: as if those that wait there and do not rank below it were there already, and
// as they may never be.
func (o *oracle) reject(p *v1.Pod, n *v1.Node) []string {
	now := o.pods
	o.pods = maps.Clone(now)
	for uid, w := range o.wait {
		if w.Spec.NodeName == n.Name && *w.Spec.Priority >= 0 {
			o.pods[uid] = w
		}
	}
	out := o.refuse(p, n)
	if o.pods = now; len(out) == 0 {
		out = o.refuse(p, n)
	}
	return out
}

func (o *oracle) refuse(p *v1.Pod, n *v1.Node) []string {
	if n.Spec.Unschedulable && !tolerates(p, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}) {
		return []string{"node(s) were unschedulable"}
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != v1.TaintEffectPreferNoSchedule && !tolerates(p, t) {
			return []string{"node(s) had untolerated taint(s)"}
		}
	}
	for k, v := range p.Spec.NodeSelector {
		if n.Labels[k] != v {
			return []string{"node(s) didn't match Pod's node affinity/selector"}
		}
	}
	var used int64
	var cpu, memory, gpu int64
	for _, q := range o.on(n.Name) {
		for _, a := range q.Spec.Containers[0].Ports {
			for _, b := range p.Spec.Containers[0].Ports {
				any := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
				if a.HostPort == b.HostPort && (a.HostIP == b.HostIP || any(a.HostIP) || any(b.HostIP)) {
					return []string{"node(s) didn't have free ports for the requested pod ports"}
				}
			}
		}
		used++
		cpu, memory, gpu = cpu+cpuOf(q, 0), memory+memoryOf(q, 0), gpu+gpuOf(q)
	}
	var out []string
	if used+1 > n.Status.Allocatable.Pods().Value() {
		out = append(out, "Too many pods")
	}
	if want := cpuOf(p, 0); want > 0 && cpu+want > n.Status.Allocatable.Cpu().MilliValue() {
		out = append(out, "Insufficient cpu")
	}
	if want := memoryOf(p, 0); want > 0 && memory+want > n.Status.Allocatable.Memory().Value() {
		out = append(out, "Insufficient memory")
	}
	have := n.Status.Allocatable["example.com/gpu"]
	if want := gpuOf(p); want > 0 && gpu+want > have.Value() {
		out = append(out, "Insufficient example.com/gpu")
	}
	if len(out) == 0 {
		if r := o.unrelated(p, n); r != "" {
			return []string{r}
		}
		if p.Spec.HostUsers != nil && !slices.Contains(n.Status.DeclaredFeatures, ownUsers) {
			return []string{"node(s) didn't match Pod's required features"}
		}
	}
	return out
}

// ownUsers is what a node has to declare for pods with the host's network and users of their own.
const ownUsers = "UserNamespacesHostNetworkSupport"

// best returns the names of the nodes with the highest score.
func (o *oracle) best(p *v1.Pod) (best map[string]bool, reasons map[string]int) {
	reasons = map[string]int{}
	var feasible []*v1.Node
	for _, n := range o.nodes {
		r := o.reject(p, n)
		for _, x := range r {
			reasons[x]++
		}
		if len(r) == 0 {
			feasible = append(feasible, n)
		}
	}
	soft, prefer := map[string]int64{}, map[string]int64{}
	var mostSoft, mostPrefer int64
	for _, n := range feasible {
		for _, t := range n.Spec.Taints {
			if t.Effect == v1.TaintEffectPreferNoSchedule && !tolerates(p, t) {
				soft[n.Name]++
			}
		}
		if p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil {
			for _, term := range p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				if e := term.Preference.MatchExpressions[0]; n.Labels[e.Key] == e.Values[0] {
					prefer[n.Name] += int64(term.Weight)
				}
			}
		}
		mostSoft, mostPrefer = max(mostSoft, soft[n.Name]), max(mostPrefer, prefer[n.Name])
	}
	related := o.relatedScores(p, feasible)
	top, best := int64(-1), map[string]bool{}
	for i, n := range feasible {
		var cpu, memory, rawCPU, rawMemory int64
		for _, q := range append(o.on(n.Name), p) {
			cpu, memory = cpu+cpuOf(q, 100), memory+memoryOf(q, 200<<20)
			rawCPU, rawMemory = rawCPU+cpuOf(q, 0), rawMemory+memoryOf(q, 0)
		}
		haveCPU, haveMemory := n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Memory().Value()
		left := func(used, have int64) int64 { return max(0, (have-used)*100/have) }
		score := (left(cpu, haveCPU) + left(memory, haveMemory)) / 2
		if cpuOf(p, 0) != 0 || memoryOf(p, 0) != 0 {
			balance := func(cpu, memory int64) int64 {
				a, b := math.Min(1, float64(cpu)/float64(haveCPU)), math.Min(1, float64(memory)/float64(haveMemory))
				return int64((1 - math.Abs((a-b)/2)) * 100)
			}
			// Better balance than before is above 75, worse below.
			score += 50 + (50+balance(rawCPU, rawMemory)-balance(rawCPU-cpuOf(p, 0), rawMemory-memoryOf(p, 0)))/2
		}
		taints := int64(100)
		if mostSoft > 0 {
			taints -= 100 * soft[n.Name] / mostSoft
		}
		score += 3 * taints
		if mostPrefer > 0 {
			score += 2 * (100 * prefer[n.Name] / mostPrefer)
		}
		score += related[i] + o.imageScore(p, n)
		if score > top {
			top, best = score, map[string]bool{}
		}
		if score == top {
			best[n.Name] = true
		}
	}
	return best, reasons
}

var imageSize = map[string]int64{"localhost/big:latest": 900 << 20, "small:1": 60 << 20}

func (o *oracle) imageScore(p *v1.Pod, n *v1.Node) int64 {
	has := func(n *v1.Node, name string) bool {
		for _, i := range n.Status.Images {
			if i.Names[0] == name || i.Names[0] == name+":latest" {
				return true
			}
		}
		return false
	}
	all := append(append([]v1.Container{}, p.Spec.InitContainers...), p.Spec.Containers...)
	var sum int64
	for _, c := range all {
		if !has(n, c.Image) {
			continue
		}
		having := 0
		for _, x := range o.nodes {
			if has(x, c.Image) {
				having++
			}
		}
		size := max(imageSize[c.Image], imageSize[c.Image+":latest"])
		sum += int64(float64(size) * (float64(having) / float64(len(o.nodes))))
	}
	const mb = 1 << 20
	most := int64(1000*mb) * int64(len(all))
	return 100 * (min(max(sum, 23*mb), most) - 23*mb) / (most - 23*mb)
}

func message(nodes int, reasons map[string]int) string {
	var words []string
	for r, n := range reasons {
		words = append(words, fmt.Sprintf("%d %s", n, r))
	}
	sort.Strings(words)
	return fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(words, ", "))
}

var (
	zone  = rapid.SampledFrom([]string{"a", "b", "c"})
	taint = rapid.SampledFrom([]v1.Taint{
		{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule},
		{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule},
		{Key: "soft2", Value: "v", Effect: v1.TaintEffectPreferNoSchedule},
		{Key: "gone", Effect: v1.TaintEffectNoExecute},
	})
	toleration = rapid.SampledFrom([]v1.Toleration{
		{Key: "k", Operator: v1.TolerationOpEqual, Value: "v"},
		{Key: "soft", Operator: v1.TolerationOpExists},
		{Operator: v1.TolerationOpExists},
		{Key: "gone", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
		{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists},
	})
	amount = rapid.SampledFrom([]string{"", "0", "100m", "250m", "1", "3"})
	bytes  = rapid.SampledFrom([]string{"", "64Mi", "1Gi", "3Gi"})
)

func drawNode(t *rapid.T, name string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone.Draw(t, "zone"), "host": name}}}
	if rapid.IntRange(0, 5).Draw(t, "bare") == 0 {
		delete(n.Labels, "zone")
	}
	n.Spec.Taints = rapid.SliceOfNDistinct(taint, 0, 2, func(t v1.Taint) string { return t.Key }).Draw(t, "taints")
	n.Spec.Unschedulable = rapid.IntRange(0, 5).Draw(t, "cordon") == 0
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse(rapid.SampledFrom([]string{"500m", "2", "4"}).Draw(t, "cpu")),
		v1.ResourceMemory: resource.MustParse(rapid.SampledFrom([]string{"512Mi", "4Gi"}).Draw(t, "memory")),
		v1.ResourcePods:   resource.MustParse(rapid.SampledFrom([]string{"2", "5", "110"}).Draw(t, "pods")),
	}
	for _, name := range []string{"localhost/big:latest", "small:1"} {
		if rapid.Bool().Draw(t, name) {
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{name}, SizeBytes: imageSize[name]})
		}
	}
	if rapid.Bool().Draw(t, "own users") {
		n.Status.DeclaredFeatures = []string{ownUsers}
	}
	if rapid.Bool().Draw(t, "gpu") {
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse("2")
	}
	return n
}

func drawContainer(t *rapid.T) v1.Container {
	c := v1.Container{Image: rapid.SampledFrom([]string{"localhost/big", "small:1", "none"}).Draw(t, "image"), Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}}}
	if a := amount.Draw(t, "cpu"); a != "" {
		c.Resources.Requests[v1.ResourceCPU] = resource.MustParse(a)
	}
	if b := bytes.Draw(t, "memory"); b != "" {
		c.Resources.Requests[v1.ResourceMemory] = resource.MustParse(b)
	}
	return c
}

func drawPod(t *rapid.T, uid string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), Namespace: "ns"}}
	for range rapid.IntRange(1, 2).Draw(t, "containers") {
		p.Spec.Containers = append(p.Spec.Containers, drawContainer(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "init") {
		c := drawContainer(t)
		if rapid.Bool().Draw(t, "sidecar") {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	c := &p.Spec.Containers[0]
	if rapid.IntRange(0, 4).Draw(t, "gpu") == 0 {
		c.Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	}
	if rapid.IntRange(0, 3).Draw(t, "port") == 0 {
		c.Ports = []v1.ContainerPort{{HostPort: 80, Protocol: v1.ProtocolTCP, HostIP: rapid.SampledFrom([]string{"", "0.0.0.0", "10.0.0.1", "10.0.0.2"}).Draw(t, "ip")}}
	}
	if rapid.IntRange(0, 4).Draw(t, "overhead") == 0 {
		p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("50m")}
	}
	if rapid.IntRange(0, 4).Draw(t, "own users") == 0 {
		p.Spec.HostNetwork, p.Spec.HostUsers = true, new(false)
	}
	p.Spec.Tolerations = rapid.SliceOfN(toleration, 0, 2).Draw(t, "tolerations")
	if rapid.IntRange(0, 3).Draw(t, "selector") == 0 {
		p.Spec.NodeSelector = map[string]string{"zone": zone.Draw(t, "zone")}
	}
	if rapid.IntRange(0, 2).Draw(t, "preferred") == 0 {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}
		for range rapid.IntRange(1, 2).Draw(t, "terms") {
			p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
				p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, v1.PreferredSchedulingTerm{
					Weight: int32(rapid.IntRange(1, 100).Draw(t, "weight")),
					Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
						{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{zone.Draw(t, "prefer")}},
					}},
				})
		}
	}
	drawRelations(t, p)
	return p
}

// On any cluster that changes in any way, the planner chooses a node that the oracle calls best, or refuses for the oracle's
// reasons; and what it assumes never takes more of a node than there is.
func TestPlannerAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &oracle{nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}, wait: map[types.UID]*v1.Pod{}}
		c := framework.NewCluster()
		c.SetNamespace("other", namespaceLabels["other"])
		p := plan.New(plugins.Default(nil), 7)
		name := rapid.SampledFrom([]string{"n1", "n2", "n3", "n4", "n5", "n6"})
		var shapes []*v1.Pod // reused, so that what is remembered of a shape is put to the test
		serial := 0
		t.Repeat(map[string]func(*rapid.T){
			"node": func(t *rapid.T) {
				n := drawNode(t, name.Draw(t, "name"))
				o.nodes[n.Name] = n
				c.SetNode(n)
			},
			"node gone": func(t *rapid.T) {
				n := name.Draw(t, "name")
				delete(o.nodes, n)
				c.RemoveNode(n)
			},
			"schedule": func(t *rapid.T) {
				serial++
				uid := fmt.Sprint("p", serial)
				var pod *v1.Pod
				if len(shapes) > 0 && rapid.Bool().Draw(t, "again") {
					pod = rapid.SampledFrom(shapes).Draw(t, "shape").DeepCopy()
					pod.Name, pod.UID = uid, types.UID(uid)
				} else {
					pod = drawPod(t, uid)
					shapes = append(shapes, pod)
				}
				reduced := c.Shape(pod)
				best, reasons := o.best(pod)
				if rapid.IntRange(0, 3).Draw(t, "has room") == 0 {
					on := name.Draw(t, "where")
					c.Nominate(reduced, on)
					defer c.Denominate(pod.UID)
					if n := o.nodes[on]; n != nil && len(o.reject(pod, n)) == 0 {
						best = map[string]bool{on: true} // before any other
					}
				}
				d := p.Schedule(c, reduced)
				if d.Node == nil {
					if len(best) > 0 {
						t.Fatalf("no node, but the oracle says %v; %s", best, d.Diagnosis.Message(""))
					}
					if len(o.nodes) > 0 && !strings.HasPrefix(d.Diagnosis.Message(""), message(len(o.nodes), reasons)) {
						t.Fatalf("says %q, the oracle %q", d.Diagnosis.Message(""), message(len(o.nodes), reasons))
					}
					return
				}
				if !best[d.Node.Name] {
					t.Fatalf("chose %s (score %d), the oracle's best are %v", d.Node.Name, d.Score, best)
				}
				c.Assume(reduced, d.Node.Name)
				placed := pod.DeepCopy()
				placed.Spec.NodeName = d.Node.Name
				o.pods[placed.UID] = placed
				switch rapid.IntRange(0, 2).Draw(t, "bind") {
				case 0:
					c.SetPod(placed)
				case 1:
					c.Forget(placed.UID)
					delete(o.pods, placed.UID)
				}
			},
			"waits for room": func(t *rapid.T) {
				for uid := range o.wait {
					delete(o.wait, uid)
					c.Denominate(uid)
				}
				if rapid.Bool().Draw(t, "nobody") {
					return
				}
				serial++
				pod := drawPod(t, fmt.Sprint("w", serial))
				pod.Spec.Priority = new(rapid.SampledFrom([]int32{-1, 0, 1}).Draw(t, "priority"))
				c.Nominate(c.Shape(pod), name.Draw(t, "on"))
				there := pod.DeepCopy()
				there.Spec.NodeName = c.NominatedTo(pod.UID).Name
				o.wait[pod.UID] = there
			},
			"pod changes": func(t *rapid.T) {
				if len(o.pods) == 0 {
					return
				}
				q := o.pods[rapid.SampledFrom(slices.Sorted(maps.Keys(o.pods))).Draw(t, "which")].DeepCopy()
				if q.Labels = app.Draw(t, "app"); rapid.Bool().Draw(t, "leaves") {
					q.DeletionTimestamp = &metav1.Time{}
				}
				o.pods[q.UID] = q
				c.SetPod(q)
			},
			"pod gone": func(t *rapid.T) {
				if len(o.pods) == 0 {
					return
				}
				uid := rapid.SampledFrom(slices.Sorted(maps.Keys(o.pods))).Draw(t, "which")
				delete(o.pods, uid)
				c.RemovePod(uid)
			},
			"": func(t *rapid.T) {
				for _, n := range c.Nodes {
					var cpu int64
					for _, q := range o.on(n.Name) {
						cpu += cpuOf(q, 0)
					}
					if n.Used.MilliCPU != cpu || len(n.Pods) != len(o.on(n.Name)) {
						t.Fatalf("node %s: accounts %dm of %d pods, there are %dm of %d", n.Name, n.Used.MilliCPU, len(n.Pods), cpu, len(o.on(n.Name)))
					}
				}
			},
		})
	})
}

func bigCluster(nodes int) *framework.Cluster {
	c := framework.NewCluster()
	for i := range nodes {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i), Labels: map[string]string{"zone": "a"}}}
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110"),
		}
		c.SetNode(n)
	}
	return c
}

func basicPod(i int) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("p", i))}}
	p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("500Mi"),
	}}}}
	return p
}

func TestSameSeedSameDecisions(t *testing.T) {
	place := func(seed uint64) (out []string) {
		c, p := bigCluster(50), plan.New(plugins.Default(nil), seed)
		for i := range 200 {
			pod := c.Shape(basicPod(i))
			d := p.Schedule(c, pod)
			c.Assume(pod, d.Node.Name)
			out = append(out, d.Node.Name)
		}
		return out
	}
	a, b, other := place(1), place(1), place(2)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("the same seed chose differently")
	}
	if fmt.Sprint(a) == fmt.Sprint(other) {
		t.Error("another seed chose the same 200 nodes: the seed is not used")
	}
}

// A daemon's pod names its node; only that one is looked at, and the others are counted as upstream does.
func TestPodThatNamesItsNode(t *testing.T) {
	c, p := bigCluster(3), plan.New(plugins.Default(nil), 1)
	pod := basicPod(1)
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"node-0001"}},
		}}},
	}}}
	d := p.Schedule(c, c.Shape(pod))
	if d.Node == nil || d.Node.Name != "node-0001" || d.Evaluated != 1 {
		t.Fatalf("%+v", d)
	}
	pod = pod.DeepCopy()
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("100")
	d = p.Schedule(c, c.Shape(pod))
	const want = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. " +
		"preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
	if got := d.Diagnosis.Message(p.Preempt(c, c.Shape(pod), d.Diagnosis, nil, time.Time{}).Text); got != want {
		t.Errorf("%s", got)
	}
}

// One that names two nodes at once goes nowhere, whatever there is.
func TestPodThatNamesNodesThatContradict(t *testing.T) {
	c, p := bigCluster(3), plan.New(plugins.Default(nil), 1)
	pod := basicPod(1)
	names := func(values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: values}
	}
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{names("node-0001"), names("node-0002")}}},
	}}}
	shape := c.Shape(pod)
	d := p.Schedule(c, shape)
	const want = "0/3 nodes are available: pod affinity terms conflict. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
	if got := d.Diagnosis.Message(p.Preempt(c, shape, d.Diagnosis, nil, time.Time{}).Text); got != want || !d.Diagnosis.Refused {
		t.Errorf("%s", got)
	}
}

func BenchmarkSchedule5000Nodes(b *testing.B) {
	c, p := bigCluster(5000), plan.New(plugins.Default(nil), 1)
	i := 0
	for b.Loop() {
		pod := c.Shape(basicPod(i))
		d := p.Schedule(c, pod)
		if d.Node == nil {
			b.Fatal(d.Diagnosis.Message(""))
		}
		c.Assume(pod, d.Node.Name)
		i++
	}
}
