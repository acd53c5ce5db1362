package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/daemon/node"
	"podo.dev/podo/internal/pki"
)

// A server is a node too: its kubelet calls the API's verbs and reads the view in the same process.

func (s *server) nodeComponents(controlReady <-chan struct{}) []component.Component {
	var all []component.Component
	if s.node.embedded != nil {
		all = append(all, s.node.embedded)
	}
	kubelet := component.Func("kubelet", func(ctx context.Context, ready func()) error {
		select {
		case <-controlReady:
		case <-ctx.Done():
			return nil
		}
		c, err := s.ownCluster()
		if err != nil {
			return err
		}
		return s.runKubelet(ctx, c, func() error {
			if err := s.markControlPlane(ctx); err != nil {
				return err
			}
			ready()
			return nil
		})
	})
	return append(all, kubelet, component.Func("routes", s.keepRoutes))
}

func (s *server) ownClient() client.Client { return local.Node(s.control.verbs, s.cfg.NodeName) }

// ownCluster is the cluster as the server's own kubelet meets it.
func (s *server) ownCluster() (node.Cluster, error) {
	pods, err := netip.ParsePrefix(s.cfg.PodCIDR)
	if err == nil {
		err = samePods(node.In(s.control.view, s.cfg.NodeName), pods)
	}
	return node.Cluster{
		Client: s.ownClient(), View: s.control.view, PodCIDR: pods,
		Serving:      &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certs.Server(pki.Kubelet), ClientCAs: s.certs.Pool()},
		Authenticate: s.control.identity.authn.Known,
		Authorize:    s.authorizeKubelet,
	}, err
}

// samePods refuses another range of pods than the one that the node has: a Node keeps it, and others find its pods by it.
func samePods(n *v1.Node, pods netip.Prefix) error {
	if n == nil || n.Spec.PodCIDR == "" || n.Spec.PodCIDR == pods.String() {
		return nil
	}
	return component.Fatal(fmt.Errorf("--pod-cidr %s: the node %s has %s, which it keeps for as long as it exists, and by which other nodes find its pods: "+
		"give that again, or begin a new node with --node-name", pods, n.Name, n.Spec.PodCIDR))
}

// controlPlaneLabel tells users which nodes the control plane runs on.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// markControlPlane labels the server's own node. A kubelet may not give itself a role, so that the server does.
func (s *server) markControlPlane(ctx context.Context) error {
	_, err := local.Admin(s.control.verbs).Mutate(ctx, client.Nodes.At("", s.cfg.NodeName), func(obj runtime.Object) (bool, error) {
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
