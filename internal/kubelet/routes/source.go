package routes

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/view"
)

// Source knows the cluster's nodes.
type Source interface {
	// Nodes are all of them, this one included; not known before somebody has told.
	Nodes() (all []Node, known bool)
	// Changed is closed at the next change: take it before Nodes.
	Changed() <-chan struct{}
}

// InView is a view that has all Nodes.
type InView struct{ View *view.View }

var nodeKind = schema.GroupResource{Resource: "nodes"}

// Nodes implements Source.
func (s InView) Nodes() (all []Node, known bool) {
	for e := range s.View.Snapshot().All(nodeKind, "", view.Key{}) {
		if n, ok := e.Object.(*v1.Node); ok {
			all = append(all, nodeOf(n))
		}
	}
	return all, true
}

// Changed implements Source.
func (s InView) Changed() <-chan struct{} {
	w, err := s.View.Watch(nodeKind, s.View.Snapshot().Rev())
	if err != nil {
		panic(err) // a view without Nodes
	}
	return w.Ready()
}

func nodeOf(n *v1.Node) Node {
	out := Node{Name: n.Name}
	for _, a := range n.Status.Addresses {
		if a.Type == v1.NodeInternalIP && !out.IP.IsValid() {
			out.IP, _ = netip.ParseAddr(a.Address)
		}
	}
	texts := n.Spec.PodCIDRs
	if len(texts) == 0 && n.Spec.PodCIDR != "" {
		texts = []string{n.Spec.PodCIDR}
	}
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			out.Pods = append(out.Pods, p)
		}
	}
	return out
}
