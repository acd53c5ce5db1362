// Package admit decides whether a pod may run on this node. The check is a pure function of the pod, the node and the pods
// that are there already; reasons and messages are upstream's, since users and controllers read them. A rejected pod ends
// as Failed: it is never left Pending, whoever bound it (case C23).
package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/kubelet/shutdown"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// Rules are what the node allows beyond its Node object.
type Rules struct {
	OS              string   // "linux"
	UnsafeSysctls   []string // allowedUnsafeSysctls: names, or prefixes that end in "*"
	AppArmorEnabled bool     // by the kernel
	// StaticCPUs and StaticMemory say that guaranteed pods have cpus and memory of their own: those cannot be resized.
	StaticCPUs, StaticMemory bool
	// Swap says that containers may swap: those that do cannot be given other memory.
	Swap bool
	// Own are the ports on which the node itself is reached.
	Own []Listener
}

// Listener is a TCP port of the machine; an IP of 0.0.0.0 is every one.
type Listener struct {
	IP   string
	Port int32
}

// Checker is the port worker.Admission: Check with the node as it is now.
type Checker struct {
	// Node is the newest Node object, nil while there is none.
	Node  func() *v1.Node
	Rules Rules
	// Pressure are the pressures that the node is under (package eviction); nil is none.
	Pressure func() []v1.NodeConditionType
	// Down says that the machine is about to go off (package shutdown); nil is never.
	Down func() bool
}

var _ worker.Admission = Checker{}

// Admit implements worker.Admission. Critical pods are not turned away for want of resources while others can make room for them.
func (c Checker) Admit(pod *v1.Pod, active []*v1.Pod) *worker.Rejection {
	r := c.verdict(pod, active)
	if r == nil || r.lacks == nil || !eviction.Critical(pod) {
		return r.told()
	}
	return preempt(pod, others(pod, active), r.lacks)
}

// verdict is the result of Check: why the pod may not run here (nil when it may) and, when resources are the only obstacle, which
// it lacks.
type verdict struct {
	worker.Rejection
	lacks []shortage
}

func (v *verdict) told() *worker.Rejection {
	if v == nil {
		return nil
	}
	return &v.Rejection
}

func (c Checker) verdict(pod *v1.Pod, active []*v1.Pod) *verdict {
	if c.Down != nil && c.Down() {
		return &verdict{Rejection: worker.Rejection{Reason: shutdown.RejectReason, Message: shutdown.RejectMessage}}
	}
	node := c.Node()
	if node == nil {
		return &verdict{Rejection: worker.Rejection{Reason: "InvalidNodeInfo", Message: "Kubelet cannot get node info."}}
	}
	if c.Pressure != nil {
		if r := pressed(pod, c.Pressure()); r != nil {
			return &verdict{Rejection: *r}
		}
	}
	return judge(pod, node, active, c.Rules)
}

// pressed turns pods away while the node runs short: under memory pressure alone only those that ask for nothing, otherwise all
// but critical ones.
func pressed(pod *v1.Pod, under []v1.NodeConditionType) *worker.Rejection {
	if len(under) == 0 || eviction.Critical(pod) {
		return nil
	}
	if len(under) == 1 && under[0] == v1.NodeMemoryPressure {
		taint := &v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
		if pod.Status.QOSClass != v1.PodQOSBestEffort || schedulinghelper.TolerationsTolerateTaint(klog.Logger{}, pod.Spec.Tolerations, taint, false) {
			return nil
		}
	}
	return &worker.Rejection{Reason: "Evicted", Message: fmt.Sprintf("The node had condition: %v. ", under)}
}

// Check tells why the pod may not run on the node beside active, or nil. active may contain the pod itself. What freeing
// resources cannot change is reported first.
func Check(pod *v1.Pod, node *v1.Node, active []*v1.Pod, rules Rules) *worker.Rejection {
	return judge(pod, node, active, rules).told()
}

func judge(pod *v1.Pod, node *v1.Node, active []*v1.Pod, rules Rules) *verdict {
	beside := others(pod, active)
	lacks, short := resources(pod, node, beside)
	fixed := []func() *worker.Rejection{
		func() *worker.Rejection { return sysctls(pod, rules.UnsafeSysctls) },
		func() *worker.Rejection { return appArmor(pod, rules.AppArmorEnabled) },
		func() *worker.Rejection { return operatingSystem(pod, rules.OS) },
		func() *worker.Rejection { return groupsPolicy(pod, node) },
	}
	wanted := []func() *worker.Rejection{
		func() *worker.Rejection { return affinity(pod, node) },
		func() *worker.Rejection { return ports(pod, beside, rules.Own) },
		func() *worker.Rejection { return taints(pod, node) },
	}
	all := slices.Concat(fixed, []func() *worker.Rejection{func() *worker.Rejection { return short }}, wanted)
	if eviction.Critical(pod) { // what it lacks matters only when nothing else stands against it
		all = slices.Concat(fixed, wanted)
	}
	for _, check := range all {
		if r := check(); r != nil {
			return &verdict{Rejection: *r}
		}
	}
	if short == nil {
		return nil
	}
	return &verdict{*short, lacks}
}

// others are the active pods without the pod itself.
func others(pod *v1.Pod, active []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(active), func(p *v1.Pod) bool { return p.UID == pod.UID })
}

func operatingSystem(pod *v1.Pod, os string) *worker.Rejection {
	if l, ok := pod.Labels[v1.LabelOSStable]; ok && l != os {
		return &worker.Rejection{
			Reason:  "PodOSSelectorNodeLabelDoesNotMatch",
			Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
		}
	}
	if pod.Spec.OS != nil && string(pod.Spec.OS.Name) != os {
		return &worker.Rejection{
			Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS",
		}
	}
	return nil
}

func groupsPolicy(pod *v1.Pod, node *v1.Node) *worker.Rejection {
	sc := pod.Spec.SecurityContext
	if sc == nil || sc.SupplementalGroupsPolicy == nil || *sc.SupplementalGroupsPolicy != v1.SupplementalGroupsPolicyStrict {
		return nil
	}
	if f := node.Status.Features; f != nil && f.SupplementalGroupsPolicy != nil && *f.SupplementalGroupsPolicy {
		return nil
	}
	return &worker.Rejection{
		Reason:  "SupplementalGroupsPolicyNotSupported",
		Message: "SupplementalGroupsPolicy=Strict is not supported in this node",
	}
}

// resources compares what the pod asks for with what the others leave of the node's allocatable. It returns every resource that
// is short and the message about the first. Extended resources that the node does not list are skipped.
func resources(pod *v1.Pod, node *v1.Node, others []*v1.Pod) (lacks []shortage, first *worker.Rejection) {
	have := node.Status.Allocatable
	short := func(name v1.ResourceName, asks, used, capacity int64) {
		if asks <= capacity-used {
			return
		}
		lacks = append(lacks, shortage{name, asks - (capacity - used)})
		if first == nil {
			first = insufficient(name, asks, used, capacity)
		}
	}
	if n, ok := have[v1.ResourcePods]; ok {
		short(v1.ResourcePods, 1, int64(len(others)), n.Value())
	}
	asked := requests(pod)
	used := v1.ResourceList{}
	if len(asked) == 0 {
		others = nil // the pod asks for nothing; adding up the others' requests is most of what admission allocates while many pods start
	}
	for _, p := range others {
		for name, q := range requests(p) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	// cpu, memory and storage first, as upstream looks; the rest by name.
	names := slices.SortedFunc(maps.Keys(asked), func(a, b v1.ResourceName) int {
		if ra, rb := rank(a), rank(b); ra != rb {
			return ra - rb
		}
		return strings.Compare(string(a), string(b))
	})
	for _, name := range names {
		q := asked[name]
		limit, known := have[name]
		if q.IsZero() || (!known && isExtended(name)) {
			continue
		}
		in := amount(name)
		short(name, in(q.MilliValue(), q.Value()), in(milli(used, name)), in(limit.MilliValue(), limit.Value()))
	}
	return lacks, first
}

func requests(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
}

func rank(name v1.ResourceName) int {
	if i := slices.Index([]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}, name); i >= 0 {
		return i
	}
	return 3
}

// amount picks the unit in which a resource is counted: cpus in thousandths, all else whole.
func amount(name v1.ResourceName) func(milli, value int64) int64 {
	if name == v1.ResourceCPU {
		return func(milli, _ int64) int64 { return milli }
	}
	return func(_, value int64) int64 { return value }
}

func milli(l v1.ResourceList, name v1.ResourceName) (int64, int64) {
	q := l[name]
	return q.MilliValue(), q.Value()
}

// isExtended tells resources that others than Kubernetes define: those with a domain that is not its own.
func isExtended(name v1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !strings.Contains(s, v1.ResourceDefaultNamespacePrefix)
}

func insufficient(name v1.ResourceName, requested, used, capacity int64) *worker.Rejection {
	return &worker.Rejection{
		Reason: "OutOf" + string(name),
		Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			name, requested, used, capacity),
	}
}

func predicate(name, why string) *worker.Rejection {
	return &worker.Rejection{Reason: name, Message: fmt.Sprintf("Predicate %s failed: %s", name, why)}
}

func affinity(pod *v1.Pod, node *v1.Node) *worker.Rejection {
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !ok {
		return predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		return predicate("NodeName", "node(s) didn't match the requested node name")
	}
	return nil
}

// taints turns away what a NoExecute taint would evict at once. Static pods run whatever the node's taints are.
func taints(pod *v1.Pod, node *v1.Node) *worker.Rejection {
	if podlife.Static(pod) {
		return nil
	}
	_, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations,
		func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }, false)
	if untolerated {
		return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
	}
	return nil
}
