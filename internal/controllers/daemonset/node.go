package daemonset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// templateGenerationLabel is how older servers tell a set's templates apart.
const templateGenerationLabel = "pod-template-generation"

// placement is where a set's pods may be: what the scheduler would say of them, resources apart.
type placement struct {
	node        string // the only one, when the template names it
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []v1.Toleration
}

func placementOf(set *appsv1.DaemonSet) placement {
	spec := &set.Spec.Template.Spec
	return placement{
		node: spec.NodeName, affinity: nodeaffinity.GetRequiredNodeAffinity(&v1.Pod{Spec: *spec}), tolerations: tolerations(spec),
	}
}

// on says whether a node should get a pod, and whether one that is there may stay: it outlives taints that only keep new ones away.
func (p *placement) on(n *v1.Node) (run, stay bool) {
	if p.node != "" && p.node != n.Name {
		return false, false
	}
	if ok, err := p.affinity.Match(n); !ok || err != nil {
		return false, false
	}
	run, stay = true, true
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect == v1.TaintEffectPreferNoSchedule || tolerated(p.tolerations, t) {
			continue
		}
		run = false
		stay = stay && t.Effect != v1.TaintEffectNoExecute
	}
	return run, stay
}

func tolerated(list []v1.Toleration, taint *v1.Taint) bool {
	return slices.ContainsFunc(list, func(t v1.Toleration) bool { return t.ToleratesTaint(klog.Logger{}, taint, false) })
}

// tolerations are the template's and those that every daemon's pod has: it stays on a node in trouble.
func tolerations(spec *v1.PodSpec) []v1.Toleration {
	out := slices.Clone(spec.Tolerations)
	add := func(key string, effect v1.TaintEffect) {
		t := v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: effect}
		for i := range out {
			if out[i].MatchToleration(&t) {
				out[i] = t
				return
			}
		}
		out = append(out, t)
	}
	add(v1.TaintNodeNotReady, v1.TaintEffectNoExecute)
	add(v1.TaintNodeUnreachable, v1.TaintEffectNoExecute)
	for _, key := range []string{v1.TaintNodeDiskPressure, v1.TaintNodeMemoryPressure, v1.TaintNodePIDPressure, v1.TaintNodeUnschedulable} {
		add(key, v1.TaintEffectNoSchedule)
	}
	if spec.HostNetwork {
		add(v1.TaintNodeNetworkUnavailable, v1.TaintEffectNoSchedule)
	}
	return out
}

// fit makes a pod of the template one of a node's: the scheduler binds it there and nowhere else.
func fit(pod *v1.Pod, set *appsv1.DaemonSet, node, hash string) {
	pod.Spec.Tolerations = tolerations(&pod.Spec)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if n, ok := set.Annotations[appsv1.DeprecatedTemplateGeneration]; ok {
		pod.Labels[templateGenerationLabel] = n
	}
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &v1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{}
	}
	// That the node has what the template asks for was seen when it was chosen.
	pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
}

// target is the node that a pod is on, or was made for.
func target(pod *v1.Pod) (string, bool) {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, true
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return "", false
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, r := range term.MatchFields {
			if r.Key == metav1.ObjectNameField && r.Operator == v1.NodeSelectorOpIn {
				return r.Values[0], len(r.Values) == 1
			}
		}
	}
	return "", false
}
