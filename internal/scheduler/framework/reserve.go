package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What a Related can do besides. Each is an interface of its own, so that a plug-in has what it needs and nothing more.

// Personal is a Related that holds for its pod alone, and not for all of the pod's shape.
type Personal interface{ Personal() }

// Refusing is a Related that may refuse its pod whatever the node (upstream's PreFilter).
type Refusing interface {
	// Refused is why; nil when some node may take the pod. Such a pod is tried again when it changes, or when something happens of
	// which the plug-in says (Hinting) that it helps.
	Refused() *Rejection
}

// Narrowing is a Related that knows the only nodes that come into question (upstream's PreFilter).
type Narrowing interface {
	// Only are their names; ok is false when it does not narrow.
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

// Hinting is a plug-in whose rejections can be ended by other objects than pods and nodes (upstream's EnqueueExtensions).
type Hinting interface {
	Plugin
	// Kinds are the resources whose changes Helps wants to be told. The plug-in sees them in the view by then. Of pods it is told that they
	// have left their nodes; nodes' changes wake whom they help by themselves.
	Kinds() []schema.GroupResource
	// Helps tells whether a change may help a pod that the plug-in rejected. was is nil for a new object, is for one that is gone.
	Helps(pod *v1.Pod, kind schema.GroupResource, was, is runtime.Object) bool
}
