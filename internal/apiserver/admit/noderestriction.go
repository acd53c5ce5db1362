package admit

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/apiserver/authz"
)

// NodeRestriction narrows what a kubelet may write to its own objects, where that needs the object and not only its name.
type NodeRestriction struct{}

// Validate implements Validator.
func (NodeRestriction) Validate(_ context.Context, a *Attributes) error {
	node, ok := authz.NodeName(a.User)
	if !ok {
		return nil
	}
	var msg string
	switch a.Ref.Resource.String() {
	case "pods":
		msg = nodePod(a, node)
	case "nodes":
		if name := nameOf(a); name != node {
			msg = fmt.Sprintf("node %q is not allowed to modify node %q", node, name)
		}
	case "leases.coordination.k8s.io":
		if a.Ref.Namespace != v1.NamespaceNodeLease {
			msg = fmt.Sprintf("can only access leases in the %q system namespace", v1.NamespaceNodeLease)
		} else if nameOf(a) != node {
			msg = "can only access node lease with the same name as the requesting node"
		}
	}
	if msg == "" {
		return nil
	}
	return forbidden(a, msg)
}

func nodePod(a *Attributes, node string) string {
	old, _ := a.Old.(*v1.Pod)
	pod, _ := a.Object.(*v1.Pod)
	switch {
	case a.Ref.Subresource == "" && a.Op == Create && pod != nil:
		return nodeCreatesPod(pod, node)
	case a.Ref.Subresource == "" && a.Op == Delete && old != nil:
		if old.Spec.NodeName != node {
			return fmt.Sprintf("node %q can only delete pods with spec.nodeName set to itself", node)
		}
	case a.Ref.Subresource == "status" && old != nil && pod != nil:
		if old.Spec.NodeName != node {
			return fmt.Sprintf("node %q can only update pod status for pods with spec.nodeName set to itself", node)
		}
		if !maps.Equal(old.Labels, pod.Labels) {
			return fmt.Sprintf("node %q cannot update labels through pod status", node)
		}
	case a.Ref.Subresource == "eviction":
		if old != nil && old.Spec.NodeName != node {
			return fmt.Sprintf("node %s can only evict pods with spec.nodeName set to itself", node)
		}
	default:
		return fmt.Sprintf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.Ref.Subresource)
	}
	return ""
}

// nodeCreatesPod: a kubelet creates mirror pods of its static pods and nothing else.
func nodeCreatesPod(pod *v1.Pod, node string) string {
	if _, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]; !mirror {
		return fmt.Sprintf("pod does not have %q annotation, node %q can only create mirror pods", v1.MirrorPodAnnotationKey, node)
	}
	if pod.Spec.NodeName != node {
		return fmt.Sprintf("node %q can only create pods with spec.nodeName set to itself", node)
	}
	if pod.Spec.ServiceAccountName != "" {
		return fmt.Sprintf("node %q can not create pods that reference a service account", node)
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Secret != nil || v.ConfigMap != nil || v.PersistentVolumeClaim != nil {
			return fmt.Sprintf("node %q can not create pods that reference secrets, configmaps or persistentvolumeclaims", node)
		}
	}
	return ""
}

func nameOf(a *Attributes) string {
	if a.Ref.Name != "" {
		return a.Ref.Name
	}
	if m, ok := a.Object.(interface {
		runtime.Object
		GetName() string
	}); ok {
		return m.GetName()
	}
	return ""
}
