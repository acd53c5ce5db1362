// Package localvolumes makes and deletes the volumes of Podo's own storage class (package localclass).
//
//	plan.go        pure: what a claim, or a volume whose claim has gone, needs done
//	controller.go  does it: a volume is an object first, whose folder its node makes when it mounts it, so that a crash leaves no
//	               folder that nobody knows of; the folder goes first, then the object
package localvolumes

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/localclass"
)

// wants tells whether a claim waits for a volume of ours.
func wants(c *v1.PersistentVolumeClaim) bool {
	return c.DeletionTimestamp == nil && c.Spec.VolumeName == "" && c.Annotations[storagehelpers.AnnStorageProvisioner] == localclass.Provisioner
}

// Provision is the volume for a claim, or why there is none: then its pod should be tried elsewhere. node is nil when it is not there.
func Provision(c *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node *v1.Node) (*v1.PersistentVolume, error) {
	selected := c.Annotations[storagehelpers.AnnSelectedNode]
	var pv *v1.PersistentVolume
	var err error
	switch {
	case selected == "":
		err = errors.New("no node was chosen: the class must have volumeBindingMode WaitForFirstConsumer")
	case node == nil:
		err = fmt.Errorf("node %q not found", selected)
	default:
		pv, err = localclass.Volume(c, class, node)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to provision volume with StorageClass %q: %w", class.Name, err)
	}
	return pv, nil
}

// Deletion is what to do about a volume that nobody claims any more.
type Deletion int

// Its cases. A volume whose node has gone keeps its data there until somebody deletes the object, too.
const (
	Keep Deletion = iota
	Remove
	Forget
	NodeGone
)

// Delete decides on a volume. node is the one that it is on; nil when that is not there.
func Delete(pv *v1.PersistentVolume, node *v1.Node) Deletion {
	released := pv.Status.Phase == v1.VolumeReleased || pv.Status.Phase == v1.VolumeFailed ||
		pv.DeletionTimestamp != nil && pv.Status.Phase != v1.VolumeBound
	switch {
	case !localclass.Ours(pv) || pv.Spec.Local == nil || !released:
		return Keep
	case pv.DeletionTimestamp != nil && !slices.Contains(pv.Finalizers, localclass.Finalizer):
		return Keep // done, as far as we are concerned
	case pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete:
		if pv.DeletionTimestamp != nil {
			return Forget // its policy was changed: the folder stays
		}
		return Keep
	case node != nil:
		return Remove
	case pv.DeletionTimestamp != nil:
		return Forget
	}
	return NodeGone
}

// host is the value of the hostname label that a volume of ours is bound to.
func host(pv *v1.PersistentVolume) string {
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, t := range a.Required.NodeSelectorTerms {
			for _, r := range t.MatchExpressions {
				if r.Key == v1.LabelHostname && len(r.Values) == 1 {
					return r.Values[0]
				}
			}
		}
	}
	return ""
}
