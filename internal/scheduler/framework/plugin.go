package framework

import (
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/timeline"
)

// Rejection is why a node (or, in PreEnqueue, the queue) does not take a pod. Plug-ins hand out shared values made once: the
// planner counts them by address.
type Rejection struct {
	Plugin string
	// Reasons are counted by node in the FailedScheduling message, each by itself.
	Reasons []string
	// Unresolvable says that removing other pods from the node would not help.
	Unresolvable bool
}

// Plugin is the part that all share.
type Plugin interface{ Name() string }

// PreEnqueue keeps a pod out of the active queue until it passes.
type PreEnqueue interface {
	Plugin
	PreEnqueue(pod *v1.Pod) *Rejection
}

// QueueSort orders the active queue. Exactly one is used. a and b are never the same pod; pods that are equal to it
// stay in the order of their coming.
type QueueSort interface {
	Plugin
	Less(a, b *Pod) bool
}

// PreFilter narrows the nodes before they are looked at one by one.
type PreFilter interface {
	Plugin
	// PreFilter returns the names of the only nodes to look at, or ok false when it does not narrow. none is why there cannot be any.
	PreFilter(s *Shape) (names []string, ok bool, none *Rejection)
}

// Filter tells whether a node takes a pod of a shape; nil is yes. A Filter that is Static depends on nothing of the node but its
// object, another one on its pods too. Static ones run before the others.
type Filter interface {
	Plugin
	Filter(s *Shape, n *Node) *Rejection
	Static() bool
	// Explain tells the numbers behind a rejection of n, for the timeline.
	Explain(s *Shape, n *Node) []timeline.Field
}

// Concerning is a Filter that has nothing to say of most shapes.
type Concerning interface {
	Concerns(s *Shape) bool
}

// Nearing is a Filter that knows which of two nodes that it rejected is nearer to taking the pod: that one is the example for the others.
type Nearing interface {
	Nearer(s *Shape, a, b *Node) bool
}

// Score ranks a node that passed: Raw per node, then Normalize over all of them into 0..100, then times its weight. A Static score
// depends on the node's object only, another one on its pods too. Skip tells that the shape has no use for it; Absolute that raw scores are
// 0..100 already, and Normalize does nothing.
type Score interface {
	Plugin
	Static() bool
	Absolute() bool
	Skip(s *Shape) bool
	Raw(s *Shape, n *Node) int64
	Normalize(raw []int64)
}

// Relation is a plug-in that judges a node by where other pods are.
type Relation interface {
	Plugin
	// Relate finds what concerns a pod (its Object is nil when any of its shape is meant); nil when nothing does.
	Relate(c *Cluster, pod *Pod) Related
}

// Related is what concerns one pod. It follows the cluster: pods may be lifted and put between calls. What it can do besides is in
// reserve.go.
type Related interface {
	// Binding tells whether Filter may reject at all.
	Binding() bool
	Filter(n *Node) *Rejection
	// Explain tells what decided at a node that was rejected.
	Explain(n *Node) []timeline.Field
	// Score ranks nodes that passed, 0..100 each; false when it has no preference.
	Score(nodes []*Node, scores []int64) bool
}

// MaxScore is the top of normalized scores.
const MaxScore = 100
