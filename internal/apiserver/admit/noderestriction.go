package admit

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/view"
)

// NodeRestriction limits a kubelet's writes to its own objects, where that takes the object and not only its name.
type NodeRestriction struct {
	View       *view.View
	Authorizer authz.Authorizer
}

var podResource = schema.GroupResource{Resource: "pods"}

// Mutate implements Mutator: like upstream's, it comes before validation. It changes nothing.
func (x *NodeRestriction) Mutate(ctx context.Context, a *Attributes) error {
	node, ok := authz.NodeName(a.User)
	if !ok || a.Op == Connect {
		return nil
	}
	if node == "" {
		return forbidden(a, fmt.Sprintf("could not determine node from user %q", a.User.GetName()))
	}
	r := &restriction{Attributes: a, ctx: ctx, node: node, x: x}
	var msg string
	switch a.Ref.Resource.String() {
	case "pods":
		return r.pods()
	case "nodes":
		msg = r.nodes()
	case "persistentvolumeclaims":
		msg = r.claims()
	case "serviceaccounts":
		return r.token()
	case "leases.coordination.k8s.io":
		msg = r.lease()
	case "csinodes.storage.k8s.io":
		msg = r.csiNode()
	case "resourceslices.resource.k8s.io":
		msg = r.resourceSlice()
	case "certificatesigningrequests.certificates.k8s.io":
		msg = r.certificate()
	case "podcertificaterequests.certificates.k8s.io":
		return r.podCertificate()
	}
	return r.refuse(msg)
}

// restriction is one write of a node's kubelet.
type restriction struct {
	*Attributes
	ctx  context.Context
	node string
	x    *NodeRestriction
}

// refuse: no message is no refusal.
func (r *restriction) refuse(msg string) error {
	if msg == "" {
		return nil
	}
	return forbidden(r.Attributes, msg)
}

func (r *restriction) nodes() string {
	if r.Ref.Name != r.node {
		return fmt.Sprintf("node %q is not allowed to modify node %q", r.node, r.Ref.Name)
	}
	node, _ := r.Object.(*v1.Node)
	old, _ := r.Old.(*v1.Node)
	switch {
	case r.Op == Create && node != nil:
		//lint:ignore SA1019 it is still a field
		if node.Spec.ConfigSource != nil {
			return fmt.Sprintf("node %q is not allowed to create pods with a non-nil configSource", r.node)
		}
		if l := forbiddenLabels(node.Labels, nil); len(l) > 0 {
			return fmt.Sprintf("node %q is not allowed to set the following labels: %s", r.node, strings.Join(l, ", "))
		}
	case r.Op == Update && node != nil && old != nil:
		//lint:ignore SA1019 it is still a field
		if c := node.Spec.ConfigSource; c != nil && !equality.Semantic.DeepEqual(c, old.Spec.ConfigSource) {
			return fmt.Sprintf("node %q is not allowed to update configSource to a new non-nil configSource", r.node)
		}
		if !equality.Semantic.DeepEqual(node.Spec.Taints, old.Spec.Taints) {
			return fmt.Sprintf("node %q is not allowed to modify taints", r.node)
		}
		if !equality.Semantic.DeepEqual(node.OwnerReferences, old.OwnerReferences) {
			return fmt.Sprintf("node %q is not allowed to modify ownerReferences", r.node)
		}
		if l := forbiddenLabels(node.Labels, old.Labels); len(l) > 0 {
			return "is not allowed to modify labels: " + strings.Join(l, ", ")
		}
	}
	return ""
}

func (r *restriction) claims() string {
	if r.Ref.Subresource != "status" {
		return "may only update PVC status"
	}
	claim, _ := r.Object.(*v1.PersistentVolumeClaim)
	old, _ := r.Old.(*v1.PersistentVolumeClaim)
	if r.Op != Update || claim == nil || old == nil {
		return fmt.Sprintf("unexpected operation %q", r.Op)
	}
	plain := func(c *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
		c = c.DeepCopy()
		c.TypeMeta, c.ResourceVersion, c.ManagedFields = old.TypeMeta, "", nil
		c.Status.Capacity, c.Status.Conditions, c.Status.AllocatedResourceStatuses, c.Status.AllocatedResources = nil, nil, nil, nil
		return c
	}
	if !equality.Semantic.DeepEqual(plain(claim), plain(old)) {
		return fmt.Sprintf("node %q is not allowed to update fields other than status.quantity and status.conditions: ", r.node)
	}
	return ""
}

func (r *restriction) lease() string {
	if r.Ref.Namespace != v1.NamespaceNodeLease {
		return fmt.Sprintf("can only access leases in the %q system namespace", v1.NamespaceNodeLease)
	}
	if r.Ref.Name != r.node {
		return "can only access node lease with the same name as the requesting node"
	}
	return ""
}

func (r *restriction) csiNode() string {
	if r.Ref.Name != r.node {
		return "can only access CSINode with the same name as the requesting node"
	}
	if r.Ref.Subresource == "status" {
		return "CSIVolumeHealth feature gate is disabled"
	}
	return ""
}

// resourceSlice checks what a URL does not show of a slice; other writes are checked by the authorizer.
func (r *restriction) resourceSlice() string {
	own := func(obj any) bool {
		s, ok := obj.(*resourcev1.ResourceSlice)
		return ok && s.Spec.NodeName != nil && *s.Spec.NodeName == r.node
	}
	switch {
	case r.Op == Create && !own(r.Object):
		return "can only create ResourceSlice with the same NodeName as the requesting node"
	case r.Op == Delete && !own(r.Old):
		return "can only delete ResourceSlice with the same NodeName as the requesting node"
	}
	return ""
}

// pod reads a pod of the request's namespace, or nil: from the view and, before it says that there is none, from the newest
// state.
func (r *restriction) pod(name string) (*v1.Pod, error) {
	e := r.x.View.Snapshot().Get(podResource, r.Ref.Namespace, name)
	if e == nil {
		now, err := r.x.View.Fresh(r.ctx)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if e = now.Get(podResource, r.Ref.Namespace, name); e == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pod"}, name)
		}
	}
	return e.Object.(*v1.Pod), nil
}
