package volumes

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// Limits keeps pods off nodes whose CSI drivers have no room for another volume, or are not there.
type Limits struct{ s *Storage }

const limitsName = "NodeVolumeLimits"

// Name is upstream's.
func (*Limits) Name() string { return limitsName }

var tooMany = &framework.Rejection{Plugin: limitsName, Reasons: []string{"node(s) exceed max volume count"}}

// Relate finds the drivers of the pod's volumes.
func (l *Limits) Relate(_ *framework.Cluster, pod *framework.Pod) framework.Related {
	if pod.Object == nil || !slices.ContainsFunc(pod.Object.Spec.Volumes, func(v v1.Volume) bool { return claimOf(pod.Object, &v) != "" }) {
		return nil
	}
	out := &limits{now: l.s.now(), missing: map[string]*framework.Rejection{}}
	var err error
	if out.wanted, err = out.now.attached(pod.Object, true); err != nil {
		out.notFound = refused(limitsName, err.Error())
		return out
	}
	if len(out.wanted) == 0 {
		return nil
	}
	return out
}

type limits struct {
	quiet
	now      now
	wanted   map[string]string // by driver and volume, the driver
	notFound *framework.Rejection
	missing  map[string]*framework.Rejection // by driver
}

// attached are the pod's volumes of CSI drivers. A claim without a volume counts for the driver that will make it.
func (n now) attached(pod *v1.Pod, strict bool) (map[string]string, error) {
	out := map[string]string{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name := claimOf(pod, v)
		if name == "" {
			continue
		}
		c, ok := n.claim(pod.Namespace, name)
		if !ok {
			if strict {
				return nil, fmt.Errorf("looking up PVC %s/%s: persistentvolumeclaim %q not found", pod.Namespace, name, name)
			}
			continue
		}
		if v.Ephemeral != nil {
			if err := ephemeral.VolumeIsForPod(pod, c); err != nil {
				return nil, err
			}
		}
		if driver, handle := n.driver(c); driver != "" && handle != "" {
			out[driver+"/"+handle] = driver
		}
	}
	return out, nil
}

func (n now) driver(c *v1.PersistentVolumeClaim) (driver, handle string) {
	if pv, ok := n.volume(c.Spec.VolumeName); ok && c.Spec.VolumeName != "" {
		if s := pv.Spec.CSI; s != nil {
			return s.Driver, s.VolumeHandle
		}
		return "", ""
	}
	class, ok := n.class(storagehelpers.GetPersistentVolumeClaimClass(c))
	if !ok || strings.HasPrefix(class.Provisioner, "kubernetes.io/") && class.Provisioner != storagehelpers.NotSupportedProvisioner {
		return "", ""
	}
	return class.Provisioner, "unbound-" + c.Namespace + "/" + c.Name
}

func (x *limits) Filter(n *framework.Node) *framework.Rejection {
	if x.notFound != nil {
		return x.notFound
	}
	node := x.now.csiNode(n.Name)
	for _, driver := range x.wanted {
		if !x.now.installed(driver, node) {
			if x.missing[driver] == nil {
				x.missing[driver] = &framework.Rejection{Plugin: limitsName, Reasons: []string{driver + " CSI driver is not installed on the node"}}
			}
			return x.missing[driver]
		}
	}
	if _, _, _, over := x.count(n, node); over {
		return tooMany
	}
	return nil
}

// installed tells whether a driver is on a node, if the driver wants to be on its pods' nodes.
func (n now) installed(driver string, node *storagev1.CSINode) bool {
	d, ok := get[*storagev1.CSIDriver](n, csiDrivers, "", driver)
	if !ok || d.Spec.PreventPodSchedulingIfMissing == nil || !*d.Spec.PreventPodSchedulingIfMissing {
		return true
	}
	return node != nil && slices.ContainsFunc(node.Spec.Drivers, func(on storagev1.CSINodeDriver) bool { return on.Name == driver })
}

// count finds a driver that would get more volumes than it takes.
func (x *limits) count(n *framework.Node, node *storagev1.CSINode) (driver string, has, limit int, over bool) {
	most := map[string]int{}
	if node != nil {
		for _, d := range node.Spec.Drivers {
			if d.Allocatable != nil && d.Allocatable.Count != nil {
				most[d.Name] = int(*d.Allocatable.Count)
			}
		}
	}
	if len(most) == 0 {
		return "", 0, 0, false
	}
	there := map[string]string{}
	for _, p := range n.Pods {
		its, err := x.now.attached(p.Object, false)
		if err != nil {
			continue
		}
		for id, driver := range its {
			there[id] = driver
		}
	}
	counts, wants := map[string]int{}, map[string]int{}
	for _, d := range there {
		counts[d]++
	}
	// Volumes attached to the node that no pod there uses count too, even if the new pod uses them: upstream's rule.
	for id, driver := range x.now.attachedTo(n.Name) {
		if there[id] == "" {
			counts[driver]++
		}
	}
	for id, d := range x.wanted {
		if there[id] == "" {
			wants[d]++
		}
	}
	for d, n := range wants {
		if limit, ok := most[d]; ok && counts[d]+n > limit {
			return d, counts[d], limit, true
		}
	}
	return "", 0, 0, false
}

// attachedTo are the volumes that attachments to a node name.
func (n now) attachedTo(node string) map[string]string {
	out := map[string]string{}
	for e := range n.All(attachments, "", view.Key{}) {
		a := e.Object.(*storagev1.VolumeAttachment)
		if a.Spec.NodeName != node || a.Spec.Attacher == "" || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if pv, ok := n.volume(*a.Spec.Source.PersistentVolumeName); ok && pv.Spec.CSI != nil {
			out[a.Spec.Attacher+"/"+pv.Spec.CSI.VolumeHandle] = a.Spec.Attacher
		}
	}
	return out
}

// Explain tells the driver's numbers.
func (x *limits) Explain(n *framework.Node) []timeline.Field {
	driver, has, limit, over := x.count(n, x.now.csiNode(n.Name))
	if !over {
		return nil
	}
	return timeline.Record{}.With("driver", driver).With("has", has).With("most", limit).Fields
}
