package podlife

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Grant is the resources that a pod may use: its containers' by name, and its own if it has any. Containers without resources are
// left out. It is a value that is replaced, never edited.
type Grant struct {
	Pod        *v1.ResourceRequirements           `json:"pod,omitempty"`
	Containers map[string]v1.ResourceRequirements `json:"containers,omitempty"`
}

// GrantOf is what a pod's spec asks for.
func GrantOf(p *v1.Pod) *Grant {
	g := &Grant{Pod: p.Spec.Resources}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			g.put(list[i].Name, list[i].Resources)
		}
	}
	return g
}

func (g *Grant) put(container string, r v1.ResourceRequirements) {
	if len(r.Requests) == 0 && len(r.Limits) == 0 && len(r.Claims) == 0 {
		return
	}
	if g.Containers == nil {
		g.Containers = map[string]v1.ResourceRequirements{}
	}
	g.Containers[container] = r
}

// with is g with another value for one container.
func (g *Grant) with(container string, r v1.ResourceRequirements) *Grant {
	out := &Grant{}
	if g != nil {
		out.Pod = g.Pod
		for name, old := range g.Containers {
			if name != container {
				out.put(name, old)
			}
		}
	}
	out.put(container, r)
	return out
}

// of is what a container was given.
func (g *Grant) of(container string) v1.ResourceRequirements {
	if g == nil {
		return v1.ResourceRequirements{}
	}
	return g.Containers[container]
}

func (g *Grant) own() *v1.ResourceRequirements {
	if g == nil {
		return nil
	}
	return g.Pod
}

// Over is the pod with this grant in place of its spec's resources; the pod itself where they are the same.
func (g *Grant) Over(p *v1.Pod) *v1.Pod {
	if g == nil {
		return p
	}
	same := func(c v1.Container) bool { return equalResources(c.Resources, g.Containers[c.Name]) }
	differs := func(c v1.Container) bool { return !same(c) }
	own := equalOwn(p.Spec.Resources, g.Pod)
	if own && !slices.ContainsFunc(p.Spec.Containers, differs) && !slices.ContainsFunc(p.Spec.InitContainers, differs) {
		return p
	}
	out := *p
	if !own {
		out.Spec.Resources = g.Pod
	}
	out.Spec.Containers, out.Spec.InitContainers = g.over(p.Spec.Containers), g.over(p.Spec.InitContainers)
	return &out
}

func (g *Grant) over(list []v1.Container) []v1.Container {
	out := slices.Clone(list)
	for i := range out {
		out[i].Resources = g.Containers[out[i].Name]
	}
	return out
}

func equalOwn(a, b *v1.ResourceRequirements) bool {
	if a == nil || b == nil {
		return a == b
	}
	return equalResources(*a, *b)
}

// equalResources compares the resources that a resize can change.
func equalResources(a, b v1.ResourceRequirements) bool { return amountsOf(a) == amountsOf(b) }

// amounts are resources in the units in which they are set: thousandths of a cpu, bytes.
type amounts struct{ cpuRequest, cpuLimit, memoryRequest, memoryLimit int64 }

func amountsOf(r v1.ResourceRequirements) amounts {
	return amounts{
		cpuRequest: r.Requests.Cpu().MilliValue(), cpuLimit: r.Limits.Cpu().MilliValue(),
		memoryRequest: r.Requests.Memory().Value(), memoryLimit: r.Limits.Memory().Value(),
	}
}

// Effective is the limits that apply to a container: its own and, where it has none, its pod's.
func Effective(pod *v1.ResourceRequirements, c v1.ResourceRequirements) v1.ResourceRequirements {
	if pod == nil {
		return c
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		own, whole := c.Limits[name], pod.Limits[name]
		if !own.IsZero() || whole.IsZero() {
			continue
		}
		limits := v1.ResourceList{name: whole}
		for k, q := range c.Limits {
			if k != name {
				limits[k] = q
			}
		}
		c.Limits = limits
	}
	return c
}
