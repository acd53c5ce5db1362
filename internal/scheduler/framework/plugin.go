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

// Filter tells whether a node takes pods of a shape; nil means yes. A Static Filter depends only on the node's object, others on
// its pods too. Static ones run first.
type Filter interface {
	Plugin
	Filter(s *Shape, n *Node) *Rejection
	Static() bool
	// Explain returns the figures behind a rejection of n, for the timeline.
	Explain(s *Shape, n *Node) []timeline.Field
}

// Concerning is a Filter that does not concern most shapes.
type Concerning interface {
	Concerns(s *Shape) bool
}

// Nearing is a Filter that can compare two nodes that it rejected: the one nearer to taking the pod is shown as the example.
type Nearing interface {
	Nearer(s *Shape, a, b *Node) bool
}

// Score ranks nodes that passed: Raw for each node, then Normalize over all of them into 0..100, then times its weight. A Static
// score depends only on the node's object, others on its pods too. Skip says that it does not apply to the shape; Absolute, that
// Raw is already in 0..100 and Normalize does nothing.
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
	// Relate finds what concerns a pod; nil when nothing does. A pod whose Object is nil stands for any of its shape.
	Relate(c *Cluster, pod *Pod) Related
}

// Related is what concerns one pod. It follows the cluster: pods may be lifted and put between calls. Its optional abilities are
// in reserve.go.
type Related interface {
	// Binding tells whether Filter may reject at all.
	Binding() bool
	Filter(n *Node) *Rejection
	// Explain returns what decided at a node that was rejected.
	Explain(n *Node) []timeline.Field
	// Score ranks nodes that passed, 0..100 each; false when it has no preference.
	Score(nodes []*Node, scores []int64) bool
}

// MaxScore is the top of normalized scores.
const MaxScore = 100
