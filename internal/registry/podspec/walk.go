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
			if !yield(item(child(p, names[kind]), index[kind]), c) {
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

// AnyContainer makes a question about containers one about specs.
func AnyContainer(has func(*v1.Container) bool) func(*v1.PodSpec) bool {
	return func(s *v1.PodSpec) bool {
		for c := range Containers(s) {
			if has(c) {
				return true
			}
		}
		return false
	}
}

// EachContainer makes an edit of containers one of specs.
func EachContainer(do func(*v1.Container)) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		for c := range Containers(s) {
			do(c)
		}
	}
}

// Probes are a container's probes, those that are set.
func Probes(c *v1.Container) []*v1.Probe {
	out := make([]*v1.Probe, 0, 3)
	for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

// AnyProbe is AnyContainer for probes.
func AnyProbe(has func(*v1.Probe) bool) func(*v1.PodSpec) bool {
	return AnyContainer(func(c *v1.Container) bool {
		for _, p := range Probes(c) {
			if has(p) {
				return true
			}
		}
		return false
	})
}

// EachProbe is EachContainer for probes.
func EachProbe(do func(*v1.Probe)) func(*v1.PodSpec) {
	return EachContainer(func(c *v1.Container) {
		for _, p := range Probes(c) {
			do(p)
		}
	})
}

// httpGets are the HTTP requests that a container's probes and hooks make.
func httpGets(c *v1.Container) []*v1.HTTPGetAction {
	var out []*v1.HTTPGetAction
	for _, p := range Probes(c) {
		if p.HTTPGet != nil {
			out = append(out, p.HTTPGet)
		}
	}
	if l := c.Lifecycle; l != nil {
		for _, h := range []*v1.LifecycleHandler{l.PostStart, l.PreStop} {
			if h != nil && h.HTTPGet != nil {
				out = append(out, h.HTTPGet)
			}
		}
	}
	return out
}

// AnyHTTPGet is AnyContainer for the HTTP requests of probes and hooks.
func AnyHTTPGet(has func(*v1.HTTPGetAction) bool) func(*v1.PodSpec) bool {
	return AnyContainer(func(c *v1.Container) bool {
		for _, h := range httpGets(c) {
			if has(h) {
				return true
			}
		}
		return false
	})
}

// EachHTTPGet is EachContainer for the HTTP requests of probes and hooks.
func EachHTTPGet(do func(*v1.HTTPGetAction)) func(*v1.PodSpec) {
	return EachContainer(func(c *v1.Container) {
		for _, h := range httpGets(c) {
			do(h)
		}
	})
}

// AnyVolume makes a question about volumes one about specs.
func AnyVolume(has func(*v1.Volume) bool) func(*v1.PodSpec) bool {
	return func(s *v1.PodSpec) bool {
		for i := range s.Volumes {
			if has(&s.Volumes[i]) {
				return true
			}
		}
		return false
	}
}

// EachVolume makes an edit of volumes one of specs.
func EachVolume(do func(*v1.Volume)) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		for i := range s.Volumes {
			do(&s.Volumes[i])
		}
	}
}

// AnySource is AnyVolume for the sources of projected volumes.
func AnySource(has func(*v1.VolumeProjection) bool) func(*v1.PodSpec) bool {
	return AnyVolume(func(v *v1.Volume) bool {
		if v.Projected == nil {
			return false
		}
		for i := range v.Projected.Sources {
			if has(&v.Projected.Sources[i]) {
				return true
			}
		}
		return false
	})
}

// EachSource is EachVolume for the sources of projected volumes.
func EachSource(do func(*v1.VolumeProjection)) func(*v1.PodSpec) {
	return EachVolume(func(v *v1.Volume) {
		if v.Projected == nil {
			return
		}
		for i := range v.Projected.Sources {
			do(&v.Projected.Sources[i])
		}
	})
}
