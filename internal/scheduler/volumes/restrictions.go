package volumes

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// Restrictions keeps apart pods that cannot share a disk: on one node, or anywhere for a claim that only one pod may use.
type Restrictions struct{ s *Storage }

const restrictionsName = "VolumeRestrictions"

// Name is upstream's.
func (*Restrictions) Name() string { return restrictionsName }

var (
	diskTaken  = &framework.Rejection{Plugin: restrictionsName, Reasons: []string{"node(s) had no available disk"}}
	claimTaken = &framework.Rejection{
		Plugin:  restrictionsName,
		Reasons: []string{"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"},
	}
)

// Relate finds the pod's disks, and the users of its claims that only one pod may use.
func (r *Restrictions) Relate(c *framework.Cluster, pod *framework.Pod) framework.Related {
	if pod.Object == nil || !slices.ContainsFunc(pod.Object.Spec.Volumes, restricted) {
		return nil
	}
	out := &restrictions{c: c, pod: pod.Object}
	n := r.s.now()
	for i := range pod.Object.Spec.Volumes {
		v := &pod.Object.Spec.Volumes[i]
		switch {
		case !restricted(*v):
			continue
		case v.PersistentVolumeClaim == nil:
			out.disks = append(out.disks, v)
			continue
		}
		claim, ok := n.claim(pod.Object.Namespace, v.PersistentVolumeClaim.ClaimName)
		if !ok {
			out.refused = refused(restrictionsName, fmt.Sprintf("persistentvolumeclaim %q not found", v.PersistentVolumeClaim.ClaimName))
			return out
		}
		if !slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod) {
			continue
		}
		for e := range n.By(pods, registry.ClaimIndex, claim.Namespace+"/"+claim.Name) {
			if other := e.Object.(*v1.Pod); other.UID != pod.Object.UID {
				out.others = append(out.others, other.UID)
			}
		}
	}
	if len(out.disks)+len(out.others) == 0 {
		return nil
	}
	return out
}

// restricted tells whether a volume may be one that not every pod can share.
func restricted(v v1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil
}

type restrictions struct {
	quiet
	c       *framework.Cluster
	pod     *v1.Pod
	refused *framework.Rejection
	disks   []*v1.Volume
	others  []types.UID // pods with a claim that only one pod may use
}

func (x *restrictions) Refused() *framework.Rejection { return x.refused }

func (x *restrictions) Filter(n *framework.Node) *framework.Rejection {
	switch {
	case x.conflict(n) != nil:
		return diskTaken
	case x.holder(n) != nil:
		return claimTaken
	}
	return nil
}

// conflict is a pod of the node with one of the disks.
func (x *restrictions) conflict(n *framework.Node) *framework.Pod {
	if len(x.disks) == 0 {
		return nil
	}
	for _, p := range n.Pods {
		for i := range p.Object.Spec.Volumes {
			if slices.ContainsFunc(x.disks, func(v *v1.Volume) bool { return exclude(v, &p.Object.Spec.Volumes[i]) }) {
				return p
			}
		}
	}
	return nil
}

// exclude tells whether two volumes are one disk that two pods cannot share.
func exclude(a, b *v1.Volume) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		p, q := a.GCEPersistentDisk, b.GCEPersistentDisk
		return p.PDName == q.PDName && !(p.ReadOnly && q.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		return a.ISCSI.IQN == b.ISCSI.IQN && !(a.ISCSI.ReadOnly && b.ISCSI.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		p, q := a.RBD, b.RBD
		shared := slices.ContainsFunc(p.CephMonitors, func(m string) bool { return slices.Contains(q.CephMonitors, m) })
		return shared && p.RBDPool == q.RBDPool && p.RBDImage == q.RBDImage && !(p.ReadOnly && q.ReadOnly)
	}
	return false
}

// holder is a pod that has a claim which the pod wants for itself: placed and not lifted by preemption, or expected on the node.
func (x *restrictions) holder(on *framework.Node) *framework.Pod {
	for _, uid := range x.others {
		if p := on.Pods[uid]; p != nil {
			return p
		}
		if name, _ := x.c.Placed(uid); name != "" {
			if n := x.c.Node(name); n == nil {
				return x.c.PlacedAs(uid)
			} else if p := n.Pods[uid]; p != nil {
				return p
			}
		}
	}
	return nil
}

// Explain names the pod that has it.
func (x *restrictions) Explain(n *framework.Node) []timeline.Field {
	p := x.conflict(n)
	if p == nil {
		p = x.holder(n)
	}
	if p == nil || p.Object == nil {
		return nil
	}
	return timeline.Record{}.With("holder", p.Object.Namespace+"/"+p.Object.Name).Fields
}
