package volumes

import (
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// Binding lets a pod go where the volumes of its claims are or, for claims whose class waits for the first consumer, where a
// volume can be taken or made.
type Binding struct {
	s    *Storage
	args profile.Volumes
}

const bindingName = "VolumeBinding"

// Name is upstream's.
func (*Binding) Name() string { return bindingName }

// The reasons, as bits: a node may have several.
const (
	elsewhere = 1 << iota
	nothingToBind
	noRoom
	gone
)

var bindingReasons = []string{
	"node(s) didn't match PersistentVolume's node affinity",
	"node(s) didn't find available persistent volumes to bind",
	"node(s) did not have enough free storage",
	"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}

// bindingRejections are made once, by their bits.
var bindingRejections = func() (out [1 << 4]*framework.Rejection) {
	for bits := range out {
		out[bits] = &framework.Rejection{Plugin: bindingName, Unresolvable: true}
		for i, text := range bindingReasons {
			if bits&(1<<i) != 0 {
				out[bits].Reasons = append(out[bits].Reasons, text)
			}
		}
	}
	return out
}()

// Relate sorts the pod's claims.
func (b *Binding) Relate(_ *framework.Cluster, pod *framework.Pod) framework.Related {
	if pod.Object == nil || !slices.ContainsFunc(pod.Object.Spec.Volumes, func(v v1.Volume) bool { return claimOf(pod.Object, &v) != "" }) {
		return nil
	}
	out := &binding{b: b, now: b.s.now(), pod: pod.Object, volumes: map[string][]*v1.PersistentVolume{}}
	if out.refused = out.sort(); out.refused == nil && len(out.bound)+len(out.delayed) == 0 {
		return nil
	}
	return out
}

type binding struct {
	quiet
	b       *Binding
	now     now
	pod     *v1.Pod
	refused *framework.Rejection
	bound   []*v1.PersistentVolumeClaim
	delayed []*v1.PersistentVolumeClaim // that wait for the pod's node, smallest first
	volumes map[string][]*v1.PersistentVolume
}

// sort sorts the pod's claims, and returns why the pod can go nowhere.
func (x *binding) sort() *framework.Rejection {
	immediate := false
	for i := range x.pod.Spec.Volumes {
		v := &x.pod.Spec.Volumes[i]
		name := claimOf(x.pod, v)
		if name == "" {
			continue
		}
		c, ok := x.now.claim(x.pod.Namespace, name)
		switch {
		case !ok && v.Ephemeral != nil:
			return refused(bindingName, fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name))
		case !ok:
			return refused(bindingName, fmt.Sprintf("persistentvolumeclaim %q not found", name))
		case c.Status.Phase == v1.ClaimLost:
			return refused(bindingName, fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, c.Spec.VolumeName))
		case c.DeletionTimestamp != nil:
			return refused(bindingName, fmt.Sprintf("persistentvolumeclaim %q is being deleted", name))
		}
		if v.Ephemeral != nil {
			if err := ephemeral.VolumeIsForPod(x.pod, c); err != nil {
				return refused(bindingName, err.Error())
			}
		}
		switch {
		case fullyBound(c):
			x.bound = append(x.bound, c)
		case c.Spec.VolumeName == "" && x.waits(c):
			x.delayed = append(x.delayed, c)
		default:
			immediate = true
		}
	}
	if immediate {
		return refused(bindingName, "pod has unbound immediate PersistentVolumeClaims")
	}
	slices.SortStableFunc(x.delayed, func(a, b *v1.PersistentVolumeClaim) int {
		p, q := asked(a), asked(b)
		return p.Cmp(q)
	})
	for _, c := range x.delayed {
		if class := storagehelpers.GetPersistentVolumeClaimClass(c); x.volumes[class] == nil {
			x.volumes[class] = x.now.ofClass(class)
		}
	}
	return nil
}

func asked(c *v1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[v1.ResourceStorage]
}

func fullyBound(c *v1.PersistentVolumeClaim) bool {
	return c.Spec.VolumeName != "" && metav1.HasAnnotation(c.ObjectMeta, storagehelpers.AnnBindCompleted)
}

func (x *binding) waits(c *v1.PersistentVolumeClaim) bool {
	class, ok := x.now.class(storagehelpers.GetPersistentVolumeClaimClass(c))
	return ok && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func (x *binding) Refused() *framework.Rejection { return x.refused }

func (x *binding) Filter(n *framework.Node) *framework.Rejection {
	if bits, _ := x.on(n); bits != 0 {
		return bindingRejections[bits]
	}
	return nil
}

// match is a claim with the volume that it will get; provision is a claim whose volume will be made, with the capacity that is
// reported.
type (
	match struct {
		claim  *v1.PersistentVolumeClaim
		volume *v1.PersistentVolume
	}
	provision struct {
		claim *v1.PersistentVolumeClaim
		room  *storagev1.CSIStorageCapacity
	}
	decision struct {
		matches    []match
		provisions []provision
	}
)

// on decides what the claims would get on a node, or why not all of them can be satisfied there.
func (x *binding) on(n *framework.Node) (bits int, d decision) {
	for _, c := range x.bound {
		pv, ok := x.now.volume(c.Spec.VolumeName)
		if !ok {
			bits |= gone
			break
		}
		if storagehelpers.CheckNodeAffinity(pv, n.Object.Labels) != nil {
			bits |= elsewhere
			break
		}
	}
	var make []*v1.PersistentVolumeClaim
	var find []*v1.PersistentVolumeClaim
	for _, c := range x.delayed {
		node, chosen := c.Annotations[storagehelpers.AnnSelectedNode]
		switch {
		case chosen && node != n.Name:
			return bits | nothingToBind, decision{}
		case chosen:
			make = append(make, c)
		default:
			find = append(find, c)
		}
	}
	used := map[string]*v1.PersistentVolume{}
	for _, c := range find {
		pv, err := storagehelpers.FindMatchingVolume(c, x.volumes[storagehelpers.GetPersistentVolumeClaimClass(c)], n.Object, used, true, true)
		if err != nil || pv == nil {
			make = append(make, c)
			continue
		}
		used[pv.Name] = pv
		d.matches = append(d.matches, match{c, pv})
	}
	for _, c := range make {
		class, ok := x.now.class(storagehelpers.GetPersistentVolumeClaimClass(c))
		if !ok || class.Provisioner == "" || class.Provisioner == storagehelpers.NotSupportedProvisioner || !allowed(class.AllowedTopologies, n.Object.Labels) {
			return bits | nothingToBind, decision{}
		}
		room, enough := x.now.room(c, class, n.Object)
		if !enough {
			return bits | noRoom, decision{}
		}
		d.provisions = append(d.provisions, provision{c, room})
	}
	return bits, d
}

// allowed tells whether one of a class's topologies matches the node; without any, all nodes match.
func allowed(terms []v1.TopologySelectorTerm, node map[string]string) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(t v1.TopologySelectorTerm) bool {
		return len(t.MatchLabelExpressions) > 0 && !slices.ContainsFunc(t.MatchLabelExpressions, func(r v1.TopologySelectorLabelRequirement) bool {
			value, ok := node[r.Key]
			return !ok || !slices.Contains(r.Values, value)
		})
	})
}

// room finds where a driver that reports its capacity has enough for a claim, within reach of a node. A driver that reports none
// is trusted.
func (n now) room(c *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node *v1.Node) (*storagev1.CSIStorageCapacity, bool) {
	driver, ok := get[*storagev1.CSIDriver](n, csiDrivers, "", class.Provisioner)
	size, sized := c.Spec.Resources.Requests[v1.ResourceStorage]
	if !sized || !ok || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return nil, true
	}
	for e := range n.All(capacities, "", view.Key{}) {
		r := e.Object.(*storagev1.CSIStorageCapacity)
		if limit := limitOf(r); r.StorageClassName != class.Name || limit == nil || limit.Value() < size.Value() || r.NodeTopology == nil {
			continue
		}
		if s, err := metav1.LabelSelectorAsSelector(r.NodeTopology); err == nil && s.Matches(labels.Set(node.Labels)) {
			return r, true
		}
	}
	return nil, false
}

func limitOf(c *storagev1.CSIStorageCapacity) *resource.Quantity {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize
	}
	return c.Capacity
}

// Score ranks by the share of its volumes that the pod would use or, where all are to be made, by the share of the capacity.
// Classes count alike.
func (x *binding) Score(nodes []*framework.Node, scores []int64) bool {
	some := false
	for i, n := range nodes {
		type use struct{ asked, has int64 }
		by := map[string]use{}
		_, d := x.on(n)
		for _, m := range d.matches {
			a, has := asked(m.claim), m.volume.Spec.Capacity[v1.ResourceStorage]
			u := by[m.volume.Spec.StorageClassName]
			by[m.volume.Spec.StorageClassName] = use{u.asked + a.Value(), u.has + has.Value()}
		}
		if len(d.matches) == 0 {
			for _, p := range d.provisions {
				if p.room != nil && p.room.Capacity != nil {
					a, class := asked(p.claim), storagehelpers.GetPersistentVolumeClaimClass(p.claim)
					by[class] = use{by[class].asked + a.Value(), p.room.Capacity.Value()}
				}
			}
		}
		var sum int64
		for _, u := range by {
			share := int64(framework.MaxScore)
			if u.has > 0 && u.asked <= u.has {
				share = u.asked * framework.MaxScore / u.has
			}
			sum += x.b.args.Capacity(share)
		}
		if scores[i] = 0; len(by) > 0 {
			scores[i], some = int64(math.Round(float64(sum)/float64(len(by)))), true
		}
	}
	return some
}

// Explain names the claim that decided, and what there was for it.
func (x *binding) Explain(n *framework.Node) []timeline.Field {
	for _, c := range x.bound {
		if pv, ok := x.now.volume(c.Spec.VolumeName); !ok || storagehelpers.CheckNodeAffinity(pv, n.Object.Labels) != nil {
			return timeline.Record{}.With("claim", c.Name).With("volume", c.Spec.VolumeName).Fields
		}
	}
	if len(x.delayed) > 0 {
		c := x.delayed[0] // one is enough to look into
		class, size := storagehelpers.GetPersistentVolumeClaimClass(c), asked(c)
		r := timeline.Record{}.With("claim", c.Name).With("class", class).With("asked", size.String())
		if node := c.Annotations[storagehelpers.AnnSelectedNode]; node != "" && node != n.Name {
			return r.With("node", node).Fields
		}
		free, here := 0, 0
		for _, pv := range x.volumes[class] {
			if pv.Spec.ClaimRef == nil {
				free++
				if storagehelpers.CheckNodeAffinity(pv, n.Object.Labels) == nil {
					here++
				}
			}
		}
		return r.With("free", free).With("here", here).Fields
	}
	return nil
}
