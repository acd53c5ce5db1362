package plugins

import (
	"strings"

	features "k8s.io/component-helpers/nodedeclaredfeatures"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// NodeDeclaredFeatures keeps pods off nodes that do not declare what the pods' specs need (status.declaredFeatures).
type NodeDeclaredFeatures struct{}

var undeclared = &framework.Rejection{Plugin: "NodeDeclaredFeatures", Reasons: []string{"node(s) didn't match Pod's required features"}, Unresolvable: true}

func (NodeDeclaredFeatures) Name() string { return "NodeDeclaredFeatures" }
func (NodeDeclaredFeatures) Static() bool { return true }

// Concerns tells whether a pod needs any: nearly none does.
func (NodeDeclaredFeatures) Concerns(s *framework.Shape) bool { return s.Features != nil }

// Filter compares the two sets. They are of one registry, so that they can be compared.
func (NodeDeclaredFeatures) Filter(s *framework.Shape, n *framework.Node) *framework.Rejection {
	if s.Features == nil {
		return nil
	}
	if ok, err := s.Features.IsSubset(n.Features); ok && err == nil {
		return nil
	}
	return undeclared
}

// Explain names what is missing.
func (NodeDeclaredFeatures) Explain(s *framework.Shape, n *framework.Node) []timeline.Field {
	missing, err := s.Features.Difference(n.Features)
	if err != nil {
		return nil
	}
	names, err := features.DefaultFramework.Unmap(missing)
	if err != nil {
		return nil
	}
	return []timeline.Field{{Key: "missing", Value: strings.Join(names, ",")}}
}
