// Package downward answers what a pod may ask about itself (the downward API): fields and resources, for environment variables
// and for files. It is pure.
package downward

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Facts are what a pod's object does not say, or not yet.
type Facts struct {
	HostIPs     []string
	PodIPs      []string
	Allocatable v1.ResourceList // the node's: the limit of what has none
}

// Field is the text of a field of the pod. Addresses come from facts.
func Field(pod *v1.Pod, path string, facts Facts) (string, error) {
	if field, key, ok := subscript(path); ok {
		switch field {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "spec.nodeName", "spec.host": // the older name, which the API still takes
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(facts.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(facts.HostIPs, ","), nil
	case "status.podIP":
		return first(facts.PodIPs), nil
	case "status.podIPs":
		return strings.Join(facts.PodIPs, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// subscript splits metadata.labels['key'].
func subscript(path string) (field, key string, ok bool) {
	s, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	return strings.Cut(s, "['")
}

// lines writes a map as one quoted line per key, sorted.
func lines(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%v=%q", k, m[k]))
	}
	return strings.Join(out, "\n")
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// Resource is a request or limit of a container, in units of the selector's divisor, rounded up. self is the container that
// asks; the selector may name another one.
func Resource(pod *v1.Pod, self *v1.Container, s *v1.ResourceFieldSelector, facts Facts) (string, error) {
	c := self
	if s.ContainerName != "" {
		c = nil
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			if i := slices.IndexFunc(list, func(c v1.Container) bool { return c.Name == s.ContainerName }); i >= 0 && c == nil {
				c = &list[i]
			}
		}
	}
	if c == nil {
		return "", fmt.Errorf("container %s not found", s.ContainerName)
	}
	kind, name, _ := strings.Cut(s.Resource, ".")
	list := c.Resources.Requests
	if kind == "limits" {
		list = c.Resources.Limits
	}
	known := slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.HasPrefix(name, v1.ResourceHugePagesPrefix)
	if !known || (kind != "limits" && kind != "requests") {
		return "", fmt.Errorf("unsupported container resource : %v", s.Resource)
	}
	q := list[v1.ResourceName(name)]
	if kind == "limits" && q.IsZero() {
		q = fallback(pod, v1.ResourceName(name), facts)
	}
	return divide(name, q, s.Divisor), nil
}

// fallback is the limit of a container that has none: the pod's own, or all that the node can give.
func fallback(pod *v1.Pod, name v1.ResourceName, facts Facts) resource.Quantity {
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		if q, ok := pod.Spec.Resources.Limits[name]; ok && !q.IsZero() {
			return q
		}
	}
	if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
		return resource.Quantity{}
	}
	return facts.Allocatable[name]
}

func divide(name string, q, divisor resource.Quantity) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	n, d := q.Value(), divisor.Value()
	if name == "cpu" {
		n, d = q.MilliValue(), divisor.MilliValue()
	}
	return strconv.FormatInt(int64(math.Ceil(float64(n)/float64(d))), 10)
}
