package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/daemon/node"
	"podo.dev/podo/internal/kubelet/labels"
)

// A server is a node too: its kubelet calls the API's verbs and reads the view in process.

func (s *server) nodeComponents(controlReady <-chan struct{}) []component.Component {
	var all []component.Component
	if s.node.embedded != nil {
		all = append(all, s.node.embedded)
	}
	isNew := make(chan struct{}, 1)
	kubelet := component.Func("kubelet", func(ctx context.Context, ready func()) error {
		select {
		case <-controlReady:
		case <-ctx.Done():
			return nil
		}
		if err := s.forgetFormers(ctx); err != nil {
			return err
		}
		c := s.control.Cluster()
		if err := samePods(node.In(c.View, s.cfg.NodeName), c.PodCIDR); err != nil {
			return err
		}
		c.Registered = func() { wake(isNew) }
		return s.runKubelet(ctx, c, s.ports(), func() error {
			if err := s.control.MarkNode(ctx); err != nil {
				return err
			}
			ready()
			return nil
		})
	})
	role := component.Func("node-role", func(ctx context.Context, ready func()) error {
		ready()
		return markAgain(ctx, isNew, s.control.MarkNode)
	})
	return append(all, kubelet, role, component.Func("routes", s.keepRoutes))
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// markAgain marks the node each time that it is new, which it is again after somebody deleted it. A node that could not be marked is
// marked by the next call.
func markAgain(ctx context.Context, isNew chan struct{}, mark func(context.Context) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-isNew:
		}
		if err := mark(ctx); err != nil && !apierrors.IsNotFound(err) {
			wake(isNew)
			return err
		}
	}
}

// forgetFormers removes the nodes that this one was before: their pods' remains in the runtime, and their Node objects, with
// which their pods go.
func (s *server) forgetFormers(ctx context.Context) error {
	for _, former := range s.before.Formers {
		boxes, err := s.node.runtime.ListPodSandbox(ctx, &runtimev1.PodSandboxFilter{LabelSelector: map[string]string{labels.Node: former}})
		if err != nil {
			return err
		}
		for _, box := range boxes {
			if err := errors.Join(s.node.runtime.StopPodSandbox(ctx, box.Id), s.node.runtime.RemovePodSandbox(ctx, box.Id)); err != nil {
				return fmt.Errorf("what is left of the node %s: %w", former, err)
			}
		}
		s.log.Info("the node has another name: what it was before is removed", "node", former, "pods", len(boxes))
		if err := s.control.ForgetNode(ctx, former); err != nil {
			return err
		}
	}
	if s.before.Formers == nil {
		return nil
	}
	s.before.Formers = nil
	return s.noteRun()
}

// samePods refuses another pod range than the one that the node has: the Node object keeps it, and others find its pods by it.
func samePods(n *v1.Node, pods netip.Prefix) error {
	if n == nil || n.Spec.PodCIDR == "" || n.Spec.PodCIDR == pods.String() {
		return nil
	}
	return component.Fatal(fmt.Errorf("--pod-cidr %s: the node %s has %s, which it keeps for as long as it exists, and by which other nodes find its pods: "+
		"give that again, or begin a new node with --node-name", pods, n.Name, n.Spec.PodCIDR))
}
