package framework

import (
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	features "k8s.io/component-helpers/nodedeclaredfeatures"
	helper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Shape is everything that decides where a pod may go and fits best. Equal pods share one Shape, so that it is computed once, and
// what was found out about a node for one pod holds for the next. It never changes once made; its address is its identity.
type Shape struct {
	Requests Resources
	// ScoreCPU and ScoreMemory are the requests, with 100m and 200Mi for containers that ask for nothing: otherwise scores would
	// pile such pods up on one node.
	ScoreCPU, ScoreMemory int64
	Ports                 []Port
	NodeName              string
	// Required is the node selector and required affinity; nil when the pod has none.
	Required *nodeaffinity.RequiredNodeAffinity
	// Names, when not nil, are the only nodes that Required can match (each term names one by metadata.name).
	Names []string
	// Preferred is nil when the pod has no preferred node affinity.
	Preferred       *nodeaffinity.PreferredSchedulingTerms
	Tolerations     []v1.Toleration
	SoftTolerations []v1.Toleration // those that concern PreferNoSchedule
	Priority        int32
	NeverPreempts   bool
	SchedulerName   string // whose profile places it
	// Features are what a node must declare (status.declaredFeatures); nil: nothing.
	Features *features.FeatureSet
	// Relations is nil when the pod says nothing about other pods.
	Relations *Relations

	nodes string // what Required is made of
}

// Port is a port of the host that a pod takes. IP "" is every address.
type Port struct {
	IP       string
	Protocol v1.Protocol
	Port     int32
}

// Overlaps tells whether two pods cannot have both.
func (p Port) Overlaps(o Port) bool {
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == "" || o.IP == "")
}

// Pod is a pod with its shape.
type Pod struct {
	Object *v1.Pod
	Shape  *Shape

	like *alike // while it is placed
}

const (
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
)

// maxShapes bounds what Shapes remembers; when it is full it starts again empty. Shapes in use live on.
const maxShapes = 4096

// Shapes gives equal pods the same Shape.
type Shapes struct{ byKey map[string]*Shape }

// Of reduces a pod that waits for a node.
func (s *Shapes) Of(pod *v1.Pod) *Pod { return s.reduce(pod, pod.Spec.NodeName) }

// Placed reduces a pod that has a node. The node is no part of its shape, so it keeps the shape that it waited with.
func (s *Shapes) Placed(pod *v1.Pod) *Pod { return s.reduce(pod, "") }

func (s *Shapes) reduce(pod *v1.Pod, nodeName string) *Pod {
	p := &Pod{Object: pod}
	key := shapeKey(pod, nodeName)
	if shape := s.byKey[key]; shape != nil {
		p.Shape = shape
		return p
	}
	p.Shape = makeShape(pod, nodeName)
	if s.byKey == nil || len(s.byKey) >= maxShapes {
		s.byKey = map[string]*Shape{}
	}
	s.byKey[key] = p.Shape
	return p
}

// shapeKey is the bytes that decide about equality of shapes. Parts of a pod that no plug-in looks at are left out.
func shapeKey(pod *v1.Pod, nodeName string) string {
	type container struct {
		R v1.ResourceList    `json:",omitempty"`
		A bool               `json:",omitempty"` // restarts always: a sidecar
		P []v1.ContainerPort `json:",omitempty"`
	}
	reduce := func(cs []v1.Container) []container {
		var out []container
		for i := range cs {
			c := container{R: cs[i].Resources.Requests, A: cs[i].RestartPolicy != nil && *cs[i].RestartPolicy == v1.ContainerRestartPolicyAlways}
			for _, p := range cs[i].Ports {
				if p.HostPort != 0 {
					c.P = append(c.P, v1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
				}
			}
			out = append(out, c)
		}
		return out
	}
	spec := &pod.Spec
	var affinity *v1.NodeAffinity
	if spec.Affinity != nil {
		affinity = spec.Affinity.NodeAffinity
	}
	// Only strings, numbers and maps with string keys: this cannot fail, and equal values give equal bytes.
	key, _ := json.Marshal(struct {
		I, C []container              `json:",omitempty"`
		R    *v1.ResourceRequirements `json:",omitempty"`
		O    v1.ResourceList          `json:",omitempty"`
		N    string                   `json:",omitempty"`
		S    map[string]string        `json:",omitempty"`
		A    *v1.NodeAffinity         `json:",omitempty"`
		T    []v1.Toleration          `json:",omitempty"`
		P    *v1.PreemptionPolicy     `json:",omitempty"`
		Y    *int32                   `json:",omitempty"`
		L    any                      `json:",omitempty"`
		Z    string                   `json:",omitempty"`
		F    string                   `json:",omitempty"`
		G    *granted                 `json:",omitempty"`
	}{reduce(spec.InitContainers), reduce(spec.Containers), spec.Resources, spec.Overhead, nodeName, spec.NodeSelector, affinity, spec.Tolerations, spec.PreemptionPolicy, spec.Priority, relationKey(pod), spec.SchedulerName, featuresOf(spec).String(), grantedTo(pod)})
	return string(key)
}

// relationKey is what decides about a pod with relations to other pods; nil when it has none.
func relationKey(pod *v1.Pod) any {
	if !relational(&pod.Spec) {
		return nil
	}
	type relations struct {
		N string
		L map[string]string
		T []v1.TopologySpreadConstraint
		A *v1.PodAffinity
		B *v1.PodAntiAffinity
	}
	k := relations{N: pod.Namespace, L: pod.Labels, T: pod.Spec.TopologySpreadConstraints}
	if a := pod.Spec.Affinity; a != nil {
		k.A, k.B = a.PodAffinity, a.PodAntiAffinity
	}
	return k
}

func makeShape(pod *v1.Pod, nodeName string) *Shape {
	spec := &pod.Spec
	s := &Shape{NodeName: nodeName, Tolerations: spec.Tolerations, SchedulerName: spec.SchedulerName}
	if f := featuresOf(spec); !f.IsEmpty() {
		s.Features = &f
	}
	if spec.Priority != nil {
		s.Priority = *spec.Priority
	}
	s.Requests, _ = ResourcesOf(helper.PodRequests(pod, helper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}))
	s.Requests.Scalars = slices.DeleteFunc(s.Requests.Scalars, func(x Scalar) bool { return x.Value == 0 })
	nonZero := helper.PodRequests(pod, helper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true, NonMissingContainerRequests: missing(spec),
	})
	s.ScoreCPU, s.ScoreMemory = nonZero.Cpu().MilliValue(), nonZero.Memory().Value()
	s.Ports = hostPorts(spec)
	s.NeverPreempts = spec.PreemptionPolicy != nil && *spec.PreemptionPolicy == v1.PreemptNever
	for _, t := range spec.Tolerations {
		if t.Effect == "" || t.Effect == v1.TaintEffectPreferNoSchedule {
			s.SoftTolerations = append(s.SoftTolerations, t)
		}
	}
	var affinity *v1.NodeAffinity
	if spec.Affinity != nil {
		affinity = spec.Affinity.NodeAffinity
	}
	if len(spec.NodeSelector) > 0 || affinity != nil && affinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		r := nodeaffinity.GetRequiredNodeAffinity(pod)
		s.Required = &r
	}
	nodes, _ := json.Marshal([]any{spec.NodeSelector, affinity}) // maps with string keys, strings and numbers
	s.nodes = string(nodes)
	s.Relations = relationsOf(pod, s)
	if affinity == nil {
		return s
	}
	s.Names = onlyNames(affinity.RequiredDuringSchedulingIgnoredDuringExecution)
	if len(affinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		// Terms that do not parse are refused by validation; one that got through does not count.
		if p, err := nodeaffinity.NewPreferredSchedulingTerms(affinity.PreferredDuringSchedulingIgnoredDuringExecution); err == nil {
			s.Preferred = p
		}
	}
	return s
}

// missing are the requests that scores assume where neither container nor pod has any.
func missing(spec *v1.PodSpec) v1.ResourceList {
	out := v1.ResourceList{}
	var podLevel v1.ResourceList
	if spec.Resources != nil {
		podLevel = spec.Resources.Requests
	}
	if _, ok := podLevel[v1.ResourceCPU]; !ok {
		out[v1.ResourceCPU] = *resource.NewMilliQuantity(defaultMilliCPU, resource.DecimalSI)
	}
	if _, ok := podLevel[v1.ResourceMemory]; !ok {
		out[v1.ResourceMemory] = *resource.NewQuantity(defaultMemory, resource.DecimalSI)
	}
	return out
}

// hostPorts are those of main containers and sidecars.
func hostPorts(spec *v1.PodSpec) []Port {
	var out []Port
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			port := Port{IP: p.HostIP, Protocol: p.Protocol, Port: p.HostPort}
			if port.IP == "0.0.0.0" {
				port.IP = ""
			}
			if port.Protocol == "" {
				port.Protocol = v1.ProtocolTCP
			}
			out = append(out, port)
		}
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	return out
}

// onlyNames finds the nodes that a selector can match at all, when every term names them by metadata.name.
func onlyNames(sel *v1.NodeSelector) []string {
	if sel == nil || len(sel.NodeSelectorTerms) == 0 {
		return nil
	}
	names := []string{}
	for _, term := range sel.NodeSelectorTerms {
		var of []string
		for _, f := range term.MatchFields {
			if f.Key == "metadata.name" && f.Operator == v1.NodeSelectorOpIn {
				if of == nil {
					of = append([]string{}, f.Values...)
				} else {
					of = slices.DeleteFunc(of, func(n string) bool { return !slices.Contains(f.Values, n) })
				}
			}
		}
		if of == nil {
			return nil // a term that matches by labels only
		}
		names = append(names, of...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
