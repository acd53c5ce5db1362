package admit

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/view"
)

// NodeRestriction narrows what a kubelet may write to its own objects, where that needs the object and not only its name.
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

// token: a kubelet asks for tokens of its pods' accounts, each bound to the pod, and for audiences that the pod names.
func (r *restriction) token() error {
	t, _ := r.Object.(*authenticationv1.TokenRequest)
	if r.Op != Create || r.Ref.Subresource != "token" || t == nil {
		return nil
	}
	ref := t.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return r.refuse("node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return r.refuse("node requested token with a pod binding without a uid")
	}
	pod, err := r.pod(ref.Name)
	if err != nil {
		return err
	}
	if ref.UID != pod.UID {
		return r.refuse(fmt.Sprintf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	if pod.Spec.NodeName != r.node {
		return r.refuse("node requested token bound to a pod scheduled on a different node")
	}
	return r.refuse(r.audience(pod, t.Spec.Audiences))
}

func (r *restriction) audience(pod *v1.Pod, audiences []string) string {
	if len(audiences) > 1 {
		return "node may only request 0 or 1 audiences"
	}
	audience := strings.Join(audiences, "")
	for i := range pod.Spec.Volumes {
		p := pod.Spec.Volumes[i].Projected
		if p == nil {
			continue
		}
		for _, s := range p.Sources {
			if s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience {
				return ""
			}
		}
	}
	// The audiences of CSI drivers count too, once those are served.
	ok, _ := r.x.Authorizer.Authorize(r.ctx, &authz.Attributes{
		User: r.User, Verb: "request-serviceaccounts-token-audience", Resource: audience, Namespace: r.Ref.Namespace, Name: r.Ref.Name,
	})
	if ok {
		return ""
	}
	return fmt.Sprintf("%s is not authorized to request tokens for audience %q", r.User.GetName(), audience)
}

// pod reads a pod of the request's namespace, or nil: what the view has, and the truth before saying that there is none.
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
