package daemonset

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// nodePods are a node's pods.
type nodePods struct {
	node string
	pods []*v1.Pod
}

// sorted are the nodes by name, so that one state has one plan.
func sorted(onNode map[string][]*v1.Pod) (out []nodePods) {
	for _, node := range slices.Sorted(maps.Keys(onNode)) {
		out = append(out, nodePods{node, onNode[node]})
	}
	return out
}

// updated says that a pod is of the set's template, by the template's hash or, as older servers had it, by its number.
func (f *fleet) updated(pod *v1.Pod) bool {
	n, ok := f.Set.Annotations[appsv1.DeprecatedTemplateGeneration]
	return f.Hash != "" && pod.Labels[appsv1.ControllerRevisionHashLabelKey] == f.Hash || ok && pod.Labels[templateGenerationLabel] == n
}

// allowed are how many pods may be too many and how many too few while a set for n nodes is rolled out.
func (f *fleet) allowed(n int) (surge, unavailable int) {
	r := f.Set.Spec.UpdateStrategy.RollingUpdate
	if f.Set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || r == nil {
		return 0, 0
	}
	of := func(v *intstr.IntOrString) int {
		if v == nil {
			return 0
		}
		k, err := intstr.GetScaledValueFromIntOrPercent(v, n, true)
		if err != nil {
			return 0 // validation does not let it through
		}
		return k
	}
	return of(r.MaxSurge), of(r.MaxUnavailable)
}

// pair is what a node has while it is rolled out: at most one pod of each kind, or it is left to manage.
type pair struct {
	node       string
	fresh, old *v1.Pod
}

// pairs are the nodes with pods and those that should have one; excess counts those with more pods than a pair has.
func (f *fleet) pairs() (out []pair, excess, desired int) {
	all := maps.Clone(f.onNode)
	for _, n := range f.Nodes {
		if run, _ := f.place.on(n); run {
			desired++
			if _, ok := all[n.Name]; !ok {
				all[n.Name] = nil
			}
		}
	}
nodes:
	for _, on := range sorted(all) {
		p := pair{node: on.node}
		for _, pod := range on.pods {
			slot := &p.old
			if f.updated(pod) {
				slot = &p.fresh
			}
			switch {
			case pod.DeletionTimestamp != nil:
			case *slot != nil:
				excess++
				continue nodes
			default:
				*slot = pod
			}
		}
		out = append(out, p)
	}
	return out, excess, desired
}

// roll replaces pods of earlier templates: either a few are deleted and missing for a while, or a few are there twice.
func (f *fleet) roll() {
	pairs, excess, desired := f.pairs()
	surge, unavailable := f.allowed(desired)
	if desired > 0 && surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	if surge == 0 {
		f.rollMissing(pairs, excess, unavailable)
		return
	}
	f.rollTwice(pairs, excess, surge, desired)
}

// rollMissing deletes old pods. One that does not work is lost to nobody; others go as long as few enough are missing.
func (f *fleet) rollMissing(pairs []pair, missing, most int) {
	var candidates []*v1.Pod
	for _, p := range pairs {
		switch {
		case (p.fresh == nil) == (p.old == nil):
			missing++
		case p.fresh != nil:
			if !f.available(p.fresh) {
				missing++
			}
		case !f.available(p.old):
			missing++
			f.delete([]*v1.Pod{p.old})
		default:
			candidates = append(candidates, p.old)
		}
	}
	f.delete(candidates[:min(max(most-missing, 0), len(candidates))])
}

// rollTwice creates new pods beside old ones and deletes the old ones once the new ones are available.
func (f *fleet) rollTwice(pairs []pair, twice, most, desired int) {
	nodes := map[string]*v1.Node{}
	for _, n := range f.Nodes {
		nodes[n.Name] = n
	}
	should := func(name string) bool {
		n := nodes[name]
		if n == nil {
			return false
		}
		run, _ := f.place.on(n)
		return run
	}
	available := 0
	var candidates []string
	var misplaced []*v1.Pod
	for _, p := range pairs {
		if first := p.old; first != nil && f.available(first) || first == nil && p.fresh != nil && f.available(p.fresh) {
			available++
		}
		switch {
		case p.old == nil:
		case p.fresh != nil:
			if f.available(p.fresh) {
				f.delete([]*v1.Pod{p.old})
			} else {
				twice++
			}
		case !f.available(p.old):
			if should(p.node) {
				f.plan.Create = append(f.plan.Create, p.node)
			} else {
				f.delete([]*v1.Pod{p.old})
			}
		case should(p.node):
			candidates = append(candidates, p.node)
		default:
			misplaced = append(misplaced, p.old)
		}
	}
	// Where the set should not be any more it serves until enough of it is available elsewhere.
	f.delete(misplaced[:min(max(available-desired, 0), len(misplaced))])
	f.plan.Create = append(f.plan.Create, candidates[:min(max(most-twice, 0), len(candidates))]...)
}
