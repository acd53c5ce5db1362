package plugins

import (
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// NodeAffinity implements spec.nodeSelector and spec.affinity.nodeAffinity.
type NodeAffinity struct {
	// Added is what the scheduler's configuration adds for all pods; nil: nothing.
	Added          *nodeaffinity.NodeSelector
	AddedPreferred *nodeaffinity.PreferredSchedulingTerms
}

var enforced = &framework.Rejection{Plugin: "NodeAffinity", Reasons: []string{"node(s) didn't match scheduler-enforced node affinity"}, Unresolvable: true}

var noMatch = &framework.Rejection{Plugin: "NodeAffinity", Reasons: []string{"node(s) didn't match Pod's node affinity/selector"}, Unresolvable: true}

var contradicts = &framework.Rejection{Plugin: "NodeAffinity", Reasons: []string{"pod affinity terms conflict"}, Unresolvable: true}

func (NodeAffinity) Name() string   { return "NodeAffinity" }
func (NodeAffinity) Static() bool   { return true }
func (NodeAffinity) Absolute() bool { return false }

// PreFilter narrows to the nodes that the required affinity names, as daemon pods do. A term that names two nodes matches none.
func (NodeAffinity) PreFilter(s *framework.Shape) (names []string, ok bool, none *framework.Rejection) {
	if s.Names != nil && len(s.Names) == 0 {
		return nil, false, contradicts
	}
	return s.Names, s.Names != nil, nil
}

// Filter matches the required terms.
func (a NodeAffinity) Filter(s *framework.Shape, n *framework.Node) *framework.Rejection {
	if a.Added != nil && !a.Added.Match(n.Object) {
		return enforced
	}
	if s.Required == nil {
		return nil
	}
	// A selector that does not parse matches no node.
	if ok, err := s.Required.Match(n.Object); ok && err == nil {
		return nil
	}
	return noMatch
}

// Explain has nothing to add: the selector is in the pod.
func (NodeAffinity) Explain(*framework.Shape, *framework.Node) []timeline.Field { return nil }

func (a NodeAffinity) Skip(s *framework.Shape) bool {
	return s.Preferred == nil && a.AddedPreferred == nil
}

// Raw sums the weights of the preferred terms that match.
func (a NodeAffinity) Raw(s *framework.Shape, n *framework.Node) (sum int64) {
	if a.AddedPreferred != nil {
		sum = a.AddedPreferred.Score(n.Object)
	}
	if s.Preferred != nil {
		sum += s.Preferred.Score(n.Object)
	}
	return sum
}

// Normalize makes more better.
func (NodeAffinity) Normalize(raw []int64) { scale(raw, false) }
