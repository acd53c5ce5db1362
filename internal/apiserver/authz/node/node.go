// Package node authorizes kubelets for what concerns their node and the pods bound to it, and no more. What an object has to do
// with a node is looked up in the view's newest snapshot by the pods on the node, so that no index of its own is needed.
package node

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/authz/rbac"
	"podo.dev/podo/internal/view"
)

// Authorizer decides on requests of kubelets and has no opinion on others.
type Authorizer struct {
	View *view.View
	// Rules are what every kubelet may do with kinds that are not restricted here.
	Rules []rbacv1.PolicyRule
}

// Authorize implements authz.Authorizer.
func (z *Authorizer) Authorize(_ context.Context, a *authz.Attributes) (bool, string) {
	node, is := authz.NodeName(a.User)
	switch {
	case !is:
		return false, ""
	case node == "":
		return false, fmt.Sprintf("unknown node for user %q", a.User.GetName())
	case !a.OnResource():
		return rbac.AnyAllows(z.Rules, a), ""
	}
	q := question{a, node, related{z.View.Snapshot(), node}}
	switch a.Group {
	case "":
		switch a.Resource {
		case "secrets":
			return q.read(q.secret)
		case "configmaps":
			return q.read(q.configMap)
		case "persistentvolumeclaims":
			if a.Subresource == "status" {
				return q.status(q.claim)
			}
			return q.get(q.claim)
		case "persistentvolumes":
			return q.get(q.volume)
		case "serviceaccounts":
			return q.account()
		case "nodes":
			return q.nodes()
		case "pods":
			return q.pods()
		}
	case "coordination.k8s.io":
		if a.Resource == "leases" {
			return q.lease()
		}
	case "storage.k8s.io":
		switch a.Resource {
		case "csinodes":
			return q.csiNode()
		case "volumeattachments":
			return q.get(q.attachment)
		}
	case "resource.k8s.io":
		switch a.Resource {
		case "resourceclaims":
			return q.get(q.resourceClaim)
		case "resourceslices":
			return q.slices()
		}
	case "certificates.k8s.io":
		if a.Resource == "podcertificaterequests" {
			return q.podCertificates()
		}
	}
	return rbac.AnyAllows(z.Rules, a), ""
}

// question is one request of a node's kubelet.
type question struct {
	*authz.Attributes
	node string
	related
}

// related answers whether the object that is asked for has to do with the node.
func (q *question) relatedTo(has func(namespace, name string) bool) (bool, string) {
	if q.Name == "" {
		return false, "No Object name found"
	}
	if !has(q.Namespace, q.Name) {
		return false, "no relationship found between node '" + q.node + "' and this object"
	}
	return true, ""
}

func (q *question) get(has func(namespace, name string) bool) (bool, string) {
	if q.Verb != "get" {
		return false, "can only get individual resources of this type"
	}
	if q.Subresource != "" {
		return false, "cannot get subresource"
	}
	return q.relatedTo(has)
}

func (q *question) read(has func(namespace, name string) bool) (bool, string) {
	if q.Verb != "get" && q.Verb != "list" && q.Verb != "watch" {
		return false, "can only read resources of this type"
	}
	if q.Subresource != "" {
		return false, "cannot read subresource"
	}
	if q.Namespace == "" {
		return false, "can only read namespaced object of this type"
	}
	return q.relatedTo(has)
}

func (q *question) status(has func(namespace, name string) bool) (bool, string) {
	if q.Verb != "update" && q.Verb != "patch" {
		return false, "can only get/update/patch this type"
	}
	return q.relatedTo(has)
}

func (q *question) account() (bool, string) {
	if q.Verb == "get" && q.Subresource == "" {
		return q.read(q.serviceAccount)
	}
	if q.Verb != "create" || q.Name == "" {
		return false, "can only create tokens for individual service accounts"
	}
	if q.Subresource != "token" {
		return false, "can only create token subresource of serviceaccount"
	}
	return q.relatedTo(q.serviceAccount)
}

// lease: a creation has no name in its URL; admission checks the object.
func (q *question) lease() (bool, string) {
	switch q.Verb {
	case "get", "create", "update", "patch", "delete":
	default:
		return false, "can only get, create, update, patch, or delete a node lease"
	}
	if q.Namespace != v1.NamespaceNodeLease {
		return false, fmt.Sprintf("can only access leases in the %q system namespace", v1.NamespaceNodeLease)
	}
	if q.Verb != "create" && q.Name != q.node {
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func (q *question) csiNode() (bool, string) {
	switch q.Subresource {
	case "":
	case "status":
		return false, "CSINode status access requires CSIVolumeHealth feature"
	default:
		return false, "cannot authorize CSINode subresources"
	}
	switch q.Verb {
	case "get", "create", "update", "patch", "delete":
	default:
		return false, "can only get, create, update, patch, or delete a CSINode"
	}
	if q.Verb != "create" && q.Name != q.node {
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

// nodes: admission checks which Node is written. Reading is by name, so that a kubelet may look for its Node before it exists.
func (q *question) nodes() (bool, string) {
	switch q.Subresource {
	case "":
		switch q.Verb {
		case "create", "update", "patch":
			return true, ""
		case "get", "list", "watch":
			switch q.Name {
			case q.node:
				return true, ""
			case "":
				return false, "node '" + q.node + "' cannot read all nodes, only its own Node object"
			}
			return false, "node '" + q.node + "' cannot read '" + q.Name + "', only its own Node object"
		}
	case "status":
		return q.Verb == "update" || q.Verb == "patch", ""
	}
	return false, ""
}

// pods: which pods are written, admission sees.
func (q *question) pods() (bool, string) {
	switch q.Subresource {
	case "":
		switch q.Verb {
		case "get":
			return q.get(q.pod)
		case "list", "watch":
			if q.Selects("spec.nodeName", q.node) {
				return true, ""
			}
			if q.Name != "" {
				return q.relatedTo(q.pod)
			}
			return false, "can only list/watch pods with spec.nodeName field selector"
		case "create", "delete":
			return true, ""
		}
	case "status":
		return q.Verb == "update" || q.Verb == "patch", ""
	case "eviction":
		return q.Verb == "create", ""
	}
	return false, ""
}

func (q *question) slices() (bool, string) {
	if q.Subresource != "" {
		return false, "cannot authorize ResourceSlice subresources"
	}
	switch q.Verb {
	case "create":
		return true, ""
	case "get", "update", "patch", "delete":
		return q.relatedTo(q.resourceSlice)
	case "watch", "list", "deletecollection":
		if q.Selects("spec.nodeName", q.node) {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

func (q *question) podCertificates() (bool, string) {
	if q.Subresource != "" {
		return false, "nodes may not access the status subresource of PodCertificateRequests"
	}
	switch q.Verb {
	case "create":
		return true, ""
	case "get":
		return q.relatedTo(q.podCertificate)
	case "list", "watch":
		if q.Selects("spec.nodeName", q.node) {
			return true, ""
		}
		return false, "can only list/watch podcertificaterequests with nodeName field selector"
	}
	return false, "nodes may not " + q.Verb + " podcertificaterequests"
}
