package nodelifecycle

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

// podKeys: a pod that came to a node, or that is to end there. What else changes is its kubelet's word, which proves that there is one.
func podKeys(c view.Change) []view.Key {
	if c.New == nil {
		return nil
	}
	p := c.New.Object.(*v1.Pod)
	if p.Spec.NodeName == "" {
		return nil
	}
	if c.Old != nil {
		old := c.Old.Object.(*v1.Pod)
		if old.Spec.NodeName != "" && (old.DeletionTimestamp != nil) == (p.DeletionTimestamp != nil) {
			return nil
		}
	}
	return []view.Key{c.New.Key}
}

// pod marks one pod when its node is lost.
func (k *controller) pod(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	e := s.Get(pods, key.Namespace, key.Name)
	if e == nil {
		return res, nil
	}
	p := e.Object.(*v1.Pod)
	n := s.Get(nodes, "", p.Spec.NodeName)
	if n == nil {
		return res, nil
	}
	node := n.Object.(*v1.Node)
	if ready := condition(node, v1.NodeReady); ready == nil || ready.Status != v1.ConditionUnknown {
		return res, nil
	}
	res.Wrote, err = k.mark(ctx, p)
	return res, err
}

// markPods marks every pod of a lost node. One that fails does not keep the others waiting.
func (k *controller) markPods(ctx context.Context, s view.Snapshot, node *v1.Node) (wrote int64, err error) {
	for e := range s.By(pods, "spec.nodeName", node.Name) {
		rev, failed := k.mark(ctx, e.Object.(*v1.Pod))
		wrote = max(wrote, rev)
		if failed != nil {
			err = failed
		}
	}
	return wrote, err
}

// mark says in a pod's status that nobody knows of it any more.
func (k *controller) mark(ctx context.Context, p *v1.Pod) (int64, error) {
	if unready, unresponsive := unmarked(p); !unready && !unresponsive {
		return 0, nil // as all pods of a node that has been lost for a while, each time that the node is looked at
	}
	unready := false
	obj, err := k.client.Mutate(ctx, client.Pods.At(p.Namespace, p.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Pod)
		if fresh.UID != p.UID {
			return false, nil
		}
		var unresponsive bool
		unready, unresponsive = Mark(fresh, metav1.Now())
		return unready || unresponsive, nil
	})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err == nil && unready && k.events != nil {
		about := &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
		k.events.Event(about, v1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	return loop.Revision(obj), err
}

// Mark makes a pod of a lost node say that it is not ready, and, when it should end, that its node does not answer. kubectl shows that as
// Unknown.
func Mark(p *v1.Pod, now metav1.Time) (unready, unresponsive bool) {
	if unready, unresponsive = unmarked(p); unready {
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; mayBeReady(*c) {
				c.Status, c.LastTransitionTime = v1.ConditionFalse, now
			}
		}
	}
	if unresponsive {
		p.Status.Reason, p.Status.Message = nodeLost, fmt.Sprintf("Node %v which was running pod %v is unresponsive", p.Spec.NodeName, p.Name)
	}
	return unready, unresponsive
}

// unmarked is what Mark would say that the pod does not say yet.
func unmarked(p *v1.Pod) (unready, unresponsive bool) {
	return slices.ContainsFunc(p.Status.Conditions, mayBeReady), p.DeletionTimestamp != nil && p.Status.Reason != nodeLost
}

func mayBeReady(c v1.PodCondition) bool {
	return c.Type == v1.PodReady && c.Status != v1.ConditionFalse
}

// nodeLost is the reason of a pod that should end where nobody answers.
const nodeLost = "NodeLost"
