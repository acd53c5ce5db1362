// Package podspec is what the API accepts as a pod's spec, wherever it stands: in a Pod or in a workload's template; one file
// a theme. Package podfill fills what was left out and drops what a feature gate switches off. Both are pure. Field paths and message texts are upstream's; where upstream's path is odd (a "mountPropagation"
// without the mount's index), so is this one, because clients match on it.
//
// Order of a create: podfill.Default, podfill.Drop, Validate. Validate expects defaulted objects.
package podspec

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind of a container within a pod.
type Kind int

// The kinds, in the order in which Containers yields them.
const (
	Init Kind = iota
	Main
	Ephemeral
)

// Containers yields every container of the spec with its kind: init ones first, ephemeral ones last. The pointers go into the
// spec.
func Containers(spec *v1.PodSpec) iter.Seq2[*v1.Container, Kind] {
	return func(yield func(*v1.Container, Kind) bool) {
		for i := range spec.InitContainers {
			if !yield(&spec.InitContainers[i], Init) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i], Main) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield((*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), Ephemeral) {
				return
			}
		}
	}
}

// WithPaths is Containers with each one's field path.
func WithPaths(spec *v1.PodSpec, p *field.Path) iter.Seq2[*field.Path, *v1.Container] {
	return func(yield func(*field.Path, *v1.Container) bool) {
		names := [...]string{Init: "initContainers", Main: "containers", Ephemeral: "ephemeralContainers"}
		var index [3]int
		for c, kind := range Containers(spec) {
			if !yield(p.Child(names[kind]).Index(index[kind]), c) {
				return
			}
			index[kind]++
		}
	}
}

// IsSidecar says whether an init container keeps running beside the main ones.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }
