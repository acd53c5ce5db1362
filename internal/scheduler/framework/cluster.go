package framework

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	features "k8s.io/component-helpers/nodedeclaredfeatures"
)

// Node is a node with what its pods take of it.
type Node struct {
	Name string
	// Object is nil while only pods of the node are known; such a node is in no slot.
	Object      *v1.Node
	Allocatable Resources
	MaxPods     int64
	Features    features.FeatureSet // those that it declares

	Count               int64 // of its pods
	Used                Resources
	UsedCPU, UsedMemory int64 // with Shape.ScoreCPU and ScoreMemory
	Pods                map[types.UID]*Pod
	Ports               map[Port]types.UID // who holds it
	// Nominated are the pods that wait for room that is being made for them here. They use nothing of the node, but pods of lower
	// priority may not take what they wait for.
	Nominated []*Pod

	slot    int
	id      int // a small number, reused after this node is forgotten
	cluster *Cluster
}

// Cluster is every node and every pod that takes something of one: assigned and not ended, or assumed. An assumed pod has been
// decided upon but not been seen as bound; it counts as if it were.
//
//	          Assume                    SetPod (seen bound)
//	unknown ─────────► assumed ─────────────────────────────► placed
//	   ▲                  │ Forget (bind failed)                │
//	   └──────────────────┴─────────────────────────────────────┘ RemovePod (gone or ended)
type Cluster struct {
	// Nodes that can take pods, in slots. The order changes only by adding and removing nodes.
	Nodes []*Node
	// Stamps tell, by slot, whether what was found out about a node still holds.
	Stamps []Stamp
	// Generation grows with every change.
	Generation uint64

	byName    map[string]*Node
	ids       int   // given out so far
	freed     []int // of them, to be given out again
	pods      map[types.UID]*place
	assumed   int
	nominated map[types.UID]*Node
	epoch     uint64
	shapes    Shapes
	tallies   *tallies
	images    map[string]*Image // by name
	log       changes
}

// Stamp is a version of a node: what was derived from the node's object holds as long as Epoch is the same, and what was derived
// from its pods, nominated ones included, as long as Turn is too. No two nodes ever share an epoch.
type Stamp struct{ Epoch, Turn uint64 }

// Count is how many pods are known, and how many of them are assumed.
func (c *Cluster) Count() (pods, assumed int) { return len(c.pods), c.assumed }

type place struct {
	pod     *Pod
	node    *Node
	assumed bool
	granted bool // its status counts besides its spec
}

// NewCluster is an empty one.
func NewCluster() *Cluster {
	c := &Cluster{byName: map[string]*Node{}, pods: map[types.UID]*place{}, nominated: map[types.UID]*Node{}, images: map[string]*Image{}}
	c.tallies = newTallies(func() []*Node { return c.Nodes })
	return c
}

// Shape reduces a pod that waits for a node.
func (c *Cluster) Shape(pod *v1.Pod) *Pod { return c.shapes.Of(pod) }

// Node finds a node by its name; nil when there is none.
func (c *Cluster) Node(name string) *Node {
	if n := c.byName[name]; n != nil && n.Object != nil {
		return n
	}
	return nil
}

// Placed is the node on which a pod uses resources, "" when it is on none.
func (c *Cluster) Placed(uid types.UID) (node string, assumed bool) {
	if p := c.pods[uid]; p != nil {
		return p.node.Name, p.assumed
	}
	return "", false
}

// PlacedAs is a pod as it was last counted on its node; nil when it is on none.
func (c *Cluster) PlacedAs(uid types.UID) *Pod {
	if p := c.pods[uid]; p != nil {
		return p.pod
	}
	return nil
}

// Assumed are the pods decided upon and not seen bound.
func (c *Cluster) Assumed() []*Pod {
	var out []*Pod
	for _, p := range c.pods {
		if p.assumed {
			out = append(out, p.pod)
		}
	}
	return out
}

func (c *Cluster) node(name string) *Node {
	n := c.byName[name]
	if n == nil {
		n = &Node{Name: name, Pods: map[types.UID]*Pod{}, slot: -1, cluster: c, id: c.ids}
		if last := len(c.freed) - 1; last >= 0 {
			n.id, c.freed = c.freed[last], c.freed[:last]
		} else {
			c.ids++
		}
		c.byName[name] = n
	}
	return n
}

// SetNode adds or replaces a node's object and tells whether anything changed that a plug-in can see.
func (c *Cluster) SetNode(object *v1.Node) (changed bool) {
	n := c.node(object.Name)
	old := n.Object
	n.Object = object
	var had []v1.ContainerImage
	if old != nil {
		had = old.Status.Images
	}
	c.haveImages(n, had, object.Status.Images)
	if old == nil {
		n.slot = len(c.Nodes)
		c.Nodes, c.Stamps = append(c.Nodes, n), append(c.Stamps, Stamp{})
		c.readNode(n)
		return true
	}
	alloc, pods := ResourcesOf(object.Status.Allocatable)
	if alloc.Equal(&n.Allocatable) && pods == n.MaxPods && old.Spec.Unschedulable == object.Spec.Unschedulable &&
		sameLabels(old.Labels, object.Labels) && slices.EqualFunc(old.Spec.Taints, object.Spec.Taints, sameTaint) &&
		slices.Equal(old.Status.DeclaredFeatures, object.Status.DeclaredFeatures) {
		return false // a heartbeat
	}
	c.readNode(n)
	return true
}

func sameTaint(a, b v1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

func (c *Cluster) readNode(n *Node) {
	n.Allocatable, n.MaxPods = ResourcesOf(n.Object.Status.Allocatable)
	n.Features = features.DefaultFramework.TryMap(n.Object.Status.DeclaredFeatures)
	c.epoch++
	c.Stamps[n.slot].Epoch = c.epoch
	c.log.changed(n.slot)
	c.Generation++
	c.tallies.look(n)
}

func sameLabels(a, b map[string]string) bool { return maps.Equal(a, b) }

// RemoveNode forgets a node's object. Its pods stay known until they go.
func (c *Cluster) RemoveNode(name string) {
	n := c.byName[name]
	if n == nil || n.Object == nil {
		return
	}
	last := c.Nodes[len(c.Nodes)-1]
	c.Nodes[n.slot], c.Stamps[n.slot] = last, c.Stamps[len(c.Nodes)-1]
	last.slot, c.Stamps = n.slot, c.Stamps[:len(c.Nodes)-1]
	c.Nodes[len(c.Nodes)-1] = nil
	c.Nodes = c.Nodes[:len(c.Nodes)-1]
	c.log.moved()
	c.haveImages(n, n.Object.Status.Images, nil)
	n.Object, n.slot = nil, -1
	c.tallies.look(n)
	c.Generation++
	c.dropEmpty(n)
}

func (c *Cluster) dropEmpty(n *Node) {
	if n.Object == nil && len(n.Pods) == 0 && len(n.Nominated) == 0 {
		delete(c.byName, n.Name)
		c.freed = append(c.freed, n.id)
	}
}

// SetPod records an assigned pod that has not ended, new or changed. freed is its node if that has more room than before.
func (c *Cluster) SetPod(object *v1.Pod) (freed *Node) {
	p := c.pods[object.UID]
	if p == nil {
		c.add(c.shapes.Placed(object), object.Spec.NodeName, false)
		return nil
	}
	if p.assumed {
		p.assumed = false
		c.assumed--
	}
	same := p.pod.Object.Generation != 0 && p.pod.Object.Generation == object.Generation && !p.granted && grantedTo(object) == nil
	same = same && sameLabels(p.pod.Object.Labels, object.Labels) && (p.pod.Object.DeletionTimestamp == nil) == (object.DeletionTimestamp == nil)
	if p.node.Name == object.Spec.NodeName && same {
		if !p.pod.Object.Status.StartTime.Equal(object.Status.StartTime) {
			p.node.turn()
		}
		p.pod.Object = object
		return nil
	}
	old, from := p.pod.Shape, p.node
	c.remove(object.UID)
	pod := c.shapes.Placed(object)
	c.add(pod, object.Spec.NodeName, false)
	if from.Name != object.Spec.NodeName || shrank(&old.Requests, &pod.Shape.Requests) {
		return from
	}
	return nil
}

func shrank(old, now *Resources) bool {
	if now.MilliCPU < old.MilliCPU || now.Memory < old.Memory || now.Ephemeral < old.Ephemeral {
		return true
	}
	return slices.ContainsFunc(old.Scalars, func(s Scalar) bool { return now.Get(s.Name) < s.Value })
}

// Assume records a decision. The pod must not be placed already.
func (c *Cluster) Assume(pod *Pod, node string) {
	if c.pods[pod.Object.UID] != nil {
		panic("scheduler: assuming pod " + pod.Object.Name + ", which is placed already")
	}
	c.Denominate(pod.Object.UID)
	c.add(pod, node, true)
}

// Forget undoes Assume, unless the pod has been seen bound. It returns the node that got room back.
func (c *Cluster) Forget(uid types.UID) (freed *Node) {
	if p := c.pods[uid]; p == nil || !p.assumed {
		return nil
	}
	return c.remove(uid)
}

// RemovePod takes a pod off its node and returns the node that got room back; nil when the pod was not known.
func (c *Cluster) RemovePod(uid types.UID) (freed *Node) {
	if c.pods[uid] == nil {
		return nil
	}
	return c.remove(uid)
}

func (c *Cluster) add(pod *Pod, node string, assumed bool) {
	n := c.node(node)
	c.pods[pod.Object.UID] = &place{pod: pod, node: n, assumed: assumed, granted: grantedTo(pod.Object) != nil}
	if assumed {
		c.assumed++
	}
	n.Pods[pod.Object.UID] = pod
	c.tallies.join(n, pod)
	n.account(pod, 1)
	c.Generation++
}

func (c *Cluster) remove(uid types.UID) *Node {
	p := c.pods[uid]
	if p.assumed {
		c.assumed--
	}
	delete(c.pods, uid)
	delete(p.node.Pods, uid)
	p.node.account(p.pod, -1)
	c.tallies.leave(p.node, p.pod)
	c.tallies.forget(p.pod)
	c.Generation++
	c.dropEmpty(p.node)
	return p.node
}

func (n *Node) account(pod *Pod, sign int64) {
	n.turn()
	n.cluster.tallies.account(n, pod, sign)
	n.weigh(pod, sign)
}

// turn tells that the node's pods are others.
func (n *Node) turn() {
	if n.slot >= 0 {
		n.cluster.Stamps[n.slot].Turn++
		n.cluster.log.changed(n.slot)
	}
}

// weigh adds (or subtracts) the resources that a pod uses of the node itself.
func (n *Node) weigh(pod *Pod, sign int64) {
	s := pod.Shape
	n.Count += sign
	n.Used.Add(&s.Requests, sign)
	n.UsedCPU += sign * s.ScoreCPU
	n.UsedMemory += sign * s.ScoreMemory
	for _, port := range s.Ports {
		switch {
		case sign > 0:
			if n.Ports == nil {
				n.Ports = map[Port]types.UID{}
			}
			n.Ports[port] = pod.Object.UID
		case n.Ports[port] == pod.Object.UID:
			delete(n.Ports, port)
			n.handOver(port)
		}
	}
}

// handOver finds another pod that has the port too, which can happen when pods name their node themselves.
func (n *Node) handOver(port Port) {
	for uid, pod := range n.Pods {
		if slices.Contains(pod.Shape.Ports, port) {
			n.Ports[port] = uid
			return
		}
	}
}

// Slot is the node's index in Cluster.Nodes.
func (n *Node) Slot() int { return n.slot }

// Stamp is the node's.
func (n *Node) Stamp() Stamp { return n.cluster.Stamps[n.slot] }
