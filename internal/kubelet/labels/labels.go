// Package labels is how a container and a sandbox say whose they are. The runtime keeps labels and annotations for us, so what
// is written here when a container is created is what a restarted kubelet knows about it. Keys are upstream's, so that crictl
// and log collectors find what they expect; the one key of our own names the node, since two nodes may share a runtime.
package labels

import (
	"encoding/json"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
)

// Label keys, on sandboxes and containers alike (ContainerName on containers only).
const (
	PodName       = "io.kubernetes.pod.name"
	PodNamespace  = "io.kubernetes.pod.namespace"
	PodUID        = "io.kubernetes.pod.uid"
	ContainerName = "io.kubernetes.container.name"
	Node          = "podo.dev/node"
)

// Annotation keys of containers.
const (
	ContainerHash            = "io.kubernetes.container.hash" // of the container's spec, hexadecimal
	RestartCount             = "io.kubernetes.container.restartCount"
	TerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	TerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	ContainerPorts           = "io.kubernetes.container.ports" // JSON
	TerminationGracePeriod   = "io.kubernetes.pod.terminationGracePeriod"
	// TerminationMessageHostPath is the host's file that is mounted at the termination message path. The key is ours: upstream
	// finds the file by the mount's container path, which after a restart would mean asking for each container's verbose status.
	TerminationMessageHostPath = "podo.dev/termination-message-host-path"
)

// Owner is what labels tell: which container of which pod on which node.
type Owner struct {
	Node      string
	Namespace string
	Pod       string
	UID       types.UID
	Container string // empty for a sandbox
}

// Sandbox returns the labels of a pod's sandbox: the pod's own ones and the owner's, which win.
func Sandbox(pod *v1.Pod, node string) map[string]string {
	out := make(map[string]string, len(pod.Labels)+4)
	for k, v := range pod.Labels {
		out[k] = v
	}
	out[PodName], out[PodNamespace], out[PodUID], out[Node] = pod.Name, pod.Namespace, string(pod.UID), node
	return out
}

// Container returns the labels of a container.
func Container(pod *v1.Pod, container, node string) map[string]string {
	return map[string]string{
		PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: string(pod.UID), ContainerName: container, Node: node,
	}
}

// ContainerAnnotations returns the annotations that Restore needs. messageHostPath may be empty.
func ContainerAnnotations(pod *v1.Pod, c *v1.Container, attempt uint32, messageHostPath string) map[string]string {
	out := map[string]string{
		ContainerHash:            podlife.SpecHash(c),
		RestartCount:             strconv.FormatUint(uint64(attempt), 10),
		TerminationMessagePath:   c.TerminationMessagePath,
		TerminationMessagePolicy: string(c.TerminationMessagePolicy),
	}
	if messageHostPath != "" {
		out[TerminationMessageHostPath] = messageHostPath
	}
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		out[TerminationGracePeriod] = strconv.FormatInt(*g, 10)
	}
	if len(c.Ports) > 0 {
		if b, err := json.Marshal(c.Ports); err == nil {
			out[ContainerPorts] = string(b)
		}
	}
	return out
}

// Read finds the owner; ok is false for what no kubelet made.
func Read(l map[string]string) (o Owner, ok bool) {
	o = Owner{Node: l[Node], Namespace: l[PodNamespace], Pod: l[PodName], UID: types.UID(l[PodUID]), Container: l[ContainerName]}
	return o, o.UID != "" && o.Pod != ""
}
