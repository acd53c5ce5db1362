package framework

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Nominate lets a pod wait for room on a node, and no longer on another one.
func (c *Cluster) Nominate(pod *Pod, node string) {
	c.Denominate(pod.Object.UID)
	n := c.node(node)
	n.Nominated = append(n.Nominated, pod)
	n.turn()
	c.nominated[pod.Object.UID] = n
	c.tallies.expect(pod, 1)
	c.Generation++
}

// Denominate ends a pod's wait and returns the node on which it waited; nil when it did not.
func (c *Cluster) Denominate(uid types.UID) *Node {
	n := c.nominated[uid]
	if n == nil {
		return nil
	}
	delete(c.nominated, uid)
	i := slices.IndexFunc(n.Nominated, func(p *Pod) bool { return p.Object.UID == uid })
	pod := n.Nominated[i]
	n.Nominated = slices.Delete(n.Nominated, i, i+1)
	n.turn()
	c.tallies.expect(pod, -1)
	c.tallies.forget(pod)
	c.Generation++
	c.dropEmpty(n)
	return n
}

// NominatedTo is the node on which a pod waits for room; nil when it waits for none.
func (c *Cluster) NominatedTo(uid types.UID) *Node { return c.nominated[uid] }

// Lift takes a pod off its node tentatively, and Put puts it back; nobody else may look at the node in between. Neither counts as
// a change of the cluster.
func (n *Node) Lift(pod *Pod) {
	delete(n.Pods, pod.Object.UID)
	n.account(pod, -1)
}

// Weigh does to resources what Put (1) and Lift (-1) do, for a pod without ports: n.Pods and the relations of pods stay as they
// are.
func (n *Node) Weigh(pod *Pod, sign int64) { n.weigh(pod, sign) }

// Put undoes Lift; it can also add a pod that was not there.
func (n *Node) Put(pod *Pod) {
	n.Pods[pod.Object.UID] = pod
	n.account(pod, 1)
}
