package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The optional abilities of a Related, each an interface of its own so that a plug-in implements only what it needs.

// Personal is a Related that holds for its pod alone, and not for all of the pod's shape.
type Personal interface{ Personal() }

// Refusing is a Related that may refuse its pod whatever the node (upstream's PreFilter).
type Refusing interface {
	// Refused is the reason; nil when some node may take the pod. A refused pod is tried again when it changes, or after a change
	// of which the plug-in says (Hinting) that it helps.
	Refused() *Rejection
}

// Narrowing is a Related that knows the only nodes that come into question (upstream's PreFilter).
type Narrowing interface {
	// Only returns the names of these nodes; ok is false when it does not narrow.
	Only() (names []string, ok bool)
}

// Reserving is a Related that sets something aside for its pod when a node has been decided upon (upstream's Reserve).
type Reserving interface {
	// Reserve is called once, right after the decision. nil: nothing had to be set aside. On an error the pod is tried again later.
	Reserve(n *Node) (Reservation, error)
}

// Reservation is what was set aside for one pod. One that has a method PreBind (scheduler.PreBinder) is asked, away from the scheduling
// goroutine, to do what must have happened before the pod is bound.
//
//	Reserve ──► held ──► PreBind ──► bind ──► End(true)
//	              └──────────┴─────────┴────► End(false): given back
type Reservation interface {
	// End is called once, on the scheduling goroutine.
	End(bound bool)
}

// Hinting is a plug-in whose rejections can be lifted by changes of other objects than pods and nodes (upstream's
// EnqueueExtensions).
type Hinting interface {
	Plugin
	// Kinds are the resources whose changes are passed to Helps. The plug-in's view has seen them by then. Of pods, only those
	// that left their nodes are reported; changes of nodes wake pods without this.
	Kinds() []schema.GroupResource
	// Helps tells whether a change may help a pod that the plug-in rejected. was is nil for a new object, is for one that is gone.
	Helps(pod *v1.Pod, kind schema.GroupResource, was, is runtime.Object) bool
}
