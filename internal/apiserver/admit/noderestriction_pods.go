package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"podo.dev/podo/internal/registry/podspec"
)

func (r *restriction) pods() error {
	pod, _ := r.Object.(*v1.Pod)
	old, _ := r.Old.(*v1.Pod)
	switch r.Ref.Subresource {
	case "":
		switch r.Op {
		case Create:
			return r.createPod(pod)
		case Delete:
			if old.Spec.NodeName != r.node {
				return r.refuse(fmt.Sprintf("node %q can only delete pods with spec.nodeName set to itself", r.node))
			}
			return nil
		}
		return r.refuse(fmt.Sprintf("unexpected operation %q, node %q can only create and delete mirror pods", r.Op, r.node))
	case "status":
		if r.Op != Update {
			return r.refuse(fmt.Sprintf("unexpected operation %q", r.Op))
		}
		return r.refuse(r.podStatus(pod, old))
	case "eviction":
		if r.Op != Create {
			return r.refuse(fmt.Sprintf("unexpected operation %s", r.Op))
		}
		evicted, err := r.pod(r.Ref.Name)
		if err != nil {
			return err
		}
		if evicted.Spec.NodeName != r.node {
			return r.refuse(fmt.Sprintf("node %s can only evict pods with spec.nodeName set to itself", r.node))
		}
		return nil
	}
	return r.refuse(fmt.Sprintf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", r.Ref.Subresource))
}

// podStatus: a kubelet's status update changes no labels, and no resource claims, which the scheduler and the controllers write.
func (r *restriction) podStatus(pod, old *v1.Pod) string {
	switch same := equality.Semantic.DeepEqual; {
	case old.Spec.NodeName != r.node:
		return fmt.Sprintf("node %q can only update pod status for pods with spec.nodeName set to itself", r.node)
	case !maps.Equal(old.Labels, pod.Labels):
		return fmt.Sprintf("node %q cannot update labels through pod status", r.node)
	case !same(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		return fmt.Sprintf("node %q cannot update resource claim statues", r.node)
	case !same(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return fmt.Sprintf("node %q cannot update extended resource claim status", r.node)
	case !same(old.Status.NodeAllocatableResourceClaimStatuses, pod.Status.NodeAllocatableResourceClaimStatuses):
		return fmt.Sprintf("node %q cannot update node allocatable resource claim statuses", r.node)
	}
	return ""
}

// createPod: a kubelet creates only mirror pods of its static pods, and they refer to no other objects, since a kubelet may read
// what its pods refer to.
func (r *restriction) createPod(pod *v1.Pod) error {
	if _, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]; !mirror {
		return r.refuse(fmt.Sprintf("pod does not have %q annotation, node %q can only create mirror pods", v1.MirrorPodAnnotationKey, r.node))
	}
	if pod.Spec.NodeName != r.node {
		return r.refuse(fmt.Sprintf("node %q can only create pods with spec.nodeName set to itself", r.node))
	}
	if err := r.owned(pod); err != nil {
		return err
	}
	if what := podspec.APIReference(pod); what != "" {
		return r.refuse(fmt.Sprintf("node %q can not create pods that reference %s", r.node, what))
	}
	return nil
}

// owned: a mirror pod is owned by its node, with the present UID.
func (r *restriction) owned(pod *v1.Pod) error {
	switch len(pod.OwnerReferences) {
	case 0:
		return r.refuse(fmt.Sprintf("node %q can only create pods with an owner reference set to itself", r.node))
	case 1:
	default:
		return r.refuse(fmt.Sprintf("node %q can only create pods with a single owner reference set to itself", r.node))
	}
	o := pod.OwnerReferences[0]
	if o.APIVersion != "v1" || o.Kind != "Node" || o.Name != r.node {
		return r.refuse(fmt.Sprintf("node %q can only create pods with an owner reference set to itself", r.node))
	}
	if o.Controller == nil || !*o.Controller {
		return r.refuse(fmt.Sprintf("node %q can only create pods with a controller owner reference set to itself", r.node))
	}
	if o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion {
		return r.refuse(fmt.Sprintf("node %q must not set blockOwnerDeletion on an owner reference", r.node))
	}
	e := r.x.View.Snapshot().Get(nodeResource, "", r.node)
	if e == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "node"}, r.node)
	}
	if uid := e.Meta.GetUID(); o.UID != uid {
		return r.refuse(fmt.Sprintf("node %s UID mismatch: expected %s got %s", r.node, o.UID, uid))
	}
	return nil
}

var nodeResource = schema.GroupResource{Resource: "nodes"}

// forbiddenLabels are the labels that differ, sorted, which a kubelet may not change on its own Node because pods are placed by
// them.
func forbiddenLabels(labels, old map[string]string) []string {
	var out []string
	look := func(a, b map[string]string) {
		for key, value := range a {
			if v, ok := b[key]; ok && v == value {
				continue
			}
			domain, _, ok := strings.Cut(key, "/")
			if !ok || slices.Contains(out, key) {
				continue
			}
			restricted := within(domain, v1.LabelNamespaceNodeRestriction)
			if restricted || (within(domain, "kubernetes.io") || within(domain, "k8s.io")) && !kubeletapis.IsKubeletLabel(key) {
				out = append(out, key)
			}
		}
	}
	look(labels, old)
	look(old, labels)
	slices.Sort(out)
	return out
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
