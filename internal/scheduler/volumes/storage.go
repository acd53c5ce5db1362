// Package volumes are the scheduler's plug-ins about storage, a file each, with upstream's names and reasons. They read claims, volumes
// and classes from the view, and what pods on their way have been promised from Storage, which all of them share:
//
//	binding.go       VolumeBinding: a pod goes where its volumes are, or can be made
//	reserve.go       what VolumeBinding sets aside for a pod, and has done before it is bound
//	restrictions.go  VolumeRestrictions: what only one pod may have
//	zone.go          VolumeZone: a volume's zone is its node's
//	limits.go        NodeVolumeLimits: how many volumes a driver has room for
//
// Volumes of types that CSI drivers took over are not translated: they are what their objects say.
package volumes

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/view"
)

var (
	pods        = schema.GroupResource(client.Pods)
	claims      = schema.GroupResource(client.Claims)
	volumes     = schema.GroupResource(client.Volumes)
	classes     = schema.GroupResource(client.StorageClasses)
	csiNodes    = storagev1.Resource("csinodes")
	csiDrivers  = storagev1.Resource("csidrivers")
	capacities  = storagev1.Resource("csistoragecapacities")
	attachments = storagev1.Resource("volumeattachments")
)

// Storage is what has been promised to pods that are not bound yet. Only the scheduling goroutine uses it. A promise holds until
// it is given back or its pod is bound, by which time the view has the result.
type Storage struct {
	view   *view.View
	taken  map[string]*v1.PersistentVolumeClaim // by volume: the claim that is to have it
	chosen map[types.UID]string                 // by claim: the node on which its volume is to be made
}

// New makes a Storage.
func New(v *view.View) *Storage {
	return &Storage{v, map[string]*v1.PersistentVolumeClaim{}, map[types.UID]string{}}
}

// Plugins are those of one profile.
func (s *Storage) Plugins(args profile.Volumes) []framework.Relation {
	if args.Capacity == nil {
		args.Capacity = func(used int64) int64 { return framework.MaxScore - used }
	}
	return []framework.Relation{&Restrictions{s}, &Limits{s}, &Binding{s, args}, &Zone{s}}
}

// now is the storage of one moment: the view's, with promises applied.
type now struct {
	view.Snapshot
	s *Storage
}

func (s *Storage) now() now { return now{s.view.Snapshot(), s} }

func get[T runtime.Object](n now, r schema.GroupResource, namespace, name string) (T, bool) {
	if e := n.Get(r, namespace, name); e != nil {
		return e.Object.(T), true
	}
	var none T
	return none, false
}

// claim is a claim with the node that has been chosen for it.
func (n now) claim(namespace, name string) (*v1.PersistentVolumeClaim, bool) {
	c, ok := get[*v1.PersistentVolumeClaim](n, claims, namespace, name)
	if !ok {
		return nil, false
	}
	if node := n.s.chosen[c.UID]; node != "" && c.Annotations[storagehelpers.AnnSelectedNode] != node {
		c = c.DeepCopy()
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnSelectedNode, node)
	}
	return c, true
}

// volume is a volume with the claim that it has been promised to.
func (n now) volume(name string) (*v1.PersistentVolume, bool) {
	pv, ok := get[*v1.PersistentVolume](n, volumes, "", name)
	if !ok {
		return nil, false
	}
	return n.promised(pv), true
}

func (n now) promised(pv *v1.PersistentVolume) *v1.PersistentVolume {
	if c := n.s.taken[pv.Name]; c != nil && !storagehelpers.IsVolumeBoundToClaim(pv, c) {
		if clone, _, err := storagehelpers.GetBindVolumeToClaim(pv, c); err == nil {
			return clone
		}
	}
	return pv
}

// ofClass are the volumes of a class.
func (n now) ofClass(class string) (out []*v1.PersistentVolume) {
	for e := range n.All(volumes, "", view.Key{}) {
		if pv := e.Object.(*v1.PersistentVolume); storagehelpers.GetPersistentVolumeClass(pv) == class {
			out = append(out, n.promised(pv))
		}
	}
	return out
}

func (n now) class(name string) (*storagev1.StorageClass, bool) {
	return get[*storagev1.StorageClass](n, classes, "", name)
}

func (n now) csiNode(name string) *storagev1.CSINode {
	node, _ := get[*storagev1.CSINode](n, csiNodes, "", name)
	return node
}

// claimOf is the name of the claim that a pod's volume uses, "" when it uses none.
func claimOf(pod *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, v)
	}
	return ""
}

// uses tells whether a pod uses the claim, generic ephemeral ones included.
func uses(pod *v1.Pod, o runtime.Object) bool {
	c, ok := o.(*v1.PersistentVolumeClaim)
	return ok && c.Namespace == pod.Namespace && slices.Contains(registry.ClaimsOf(pod), c.Name)
}

// quiet is embedded by plug-ins that do not score.
type quiet struct{}

func (quiet) Personal()                             {}
func (quiet) Binding() bool                         { return true }
func (quiet) Score([]*framework.Node, []int64) bool { return false }

// refused is a rejection by a whole cluster.
func refused(plugin, why string) *framework.Rejection {
	return &framework.Rejection{Plugin: plugin, Reasons: []string{why}, Unresolvable: true}
}
