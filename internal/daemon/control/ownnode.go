package control

import (
	"context"
	"crypto/tls"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/daemon/node"
	"podo.dev/podo/internal/pki"
)

// Cluster is the cluster as the server's own kubelet sees it: it calls the API's verbs and reads the view in process.
func (p *Plane) Cluster() node.Cluster {
	return node.Cluster{
		Client: local.Node(p.verbs, p.cfg.Server.NodeName), View: p.view, PodCIDR: p.cfg.Server.Pods(),
		Serving: &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: p.cfg.Certs.Server(pki.Kubelet), ClientCAs: p.cfg.Certs.Pool(),
		},
		Authenticate: p.identity.authn.Known,
		Authorize:    p.authorizeKubelet,
	}
}

// authorizeKubelet authorizes requests to the kubelet's server.
func (p *Plane) authorizeKubelet(ctx context.Context, u user.Info, verb, subresource, _ string) (bool, error) {
	ok, _ := p.authorizer.Authorize(ctx, &authz.Attributes{
		User: u, Verb: verb, Resource: "nodes", Subresource: subresource, Name: p.cfg.Server.NodeName,
	})
	return ok, nil
}

// controlPlaneLabel marks the nodes that run the control plane.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// MarkNode labels the server's own node. A kubelet may not give itself a role, so the server does.
func (p *Plane) MarkNode(ctx context.Context) error {
	_, err := local.Admin(p.verbs).Mutate(ctx, client.Nodes.At("", p.cfg.Server.NodeName), func(obj runtime.Object) (bool, error) {
		n, ok := obj.(*v1.Node)
		if !ok {
			return false, fmt.Errorf("the node is a %T", obj)
		}
		if _, there := n.Labels[controlPlaneLabel]; there {
			return false, nil
		}
		metav1.SetMetaDataLabel(&n.ObjectMeta, controlPlaneLabel, "")
		return true, nil
	})
	return err
}

// ForgetNode deletes the Node object under the own node's earlier name; its pods go with it.
func (p *Plane) ForgetNode(ctx context.Context, name string) error {
	err := local.Admin(p.verbs).Delete(ctx, client.Nodes.At("", name), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
