package volumebinder

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// The edits get the object as it is stored, which may be newer than what was decided upon: one that no longer fits is a conflict, after
// which everything is looked at anew. They return whether there was anything to change.

// bindVolume has the volume name the claim.
func bindVolume(pv *v1.PersistentVolume, c *v1.PersistentVolumeClaim) (bool, error) {
	if pv.Spec.ClaimRef != nil && !storagehelpers.IsVolumeBoundToClaim(pv, c) {
		return false, conflict("persistentvolumes", pv.Name, "it is bound to another claim")
	}
	clone, changed, err := storagehelpers.GetBindVolumeToClaim(pv, c)
	if err != nil || !changed {
		return false, err
	}
	*pv = *clone
	return true, nil
}

// bindClaim has the claim name the volume, and marks it as bound.
func bindClaim(c *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) (changed bool, err error) {
	if pv.Spec.ClaimRef == nil || c.UID != pv.Spec.ClaimRef.UID || c.Spec.VolumeName != "" && c.Spec.VolumeName != pv.Name {
		return false, conflict("persistentvolumeclaims", c.Name, "it is bound to another volume")
	}
	if c.Spec.VolumeName != pv.Name {
		c.Spec.VolumeName, changed = pv.Name, true
		if !metav1.HasAnnotation(c.ObjectMeta, storagehelpers.AnnBoundByController) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnBoundByController, "yes")
		}
	}
	if !metav1.HasAnnotation(c.ObjectMeta, storagehelpers.AnnBindCompleted) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
		changed = true
	}
	return changed, nil
}

func conflict(kind, name, why string) error {
	return apierrors.NewConflict(v1.Resource(kind), name, fmt.Errorf("%s", why))
}

// preResize is the annotation of a volume that has grown and whose file system has not: how large that is.
const preResize = "volume.alpha.kubernetes.io/pre-resize-capacity"

// report writes into a claim's status what its volume is; pv is nil when it has none. What a claim that is bound already says of its size
// is not ours: a file system may be smaller than its device.
func report(c *v1.PersistentVolumeClaim, phase v1.PersistentVolumeClaimPhase, pv *v1.PersistentVolume) bool {
	was, s := c.Status.DeepCopy(), &c.Status
	s.Phase = phase
	if pv == nil {
		s.AccessModes, s.Capacity, s.CurrentVolumeAttributesClassName = nil, nil, nil
		return !equality.Semantic.DeepEqual(was, s)
	}
	s.AccessModes = pv.Spec.AccessModes
	if was.Phase != phase {
		s.Capacity = pv.Spec.Capacity
		if text, ok := pv.Annotations[preResize]; ok {
			if q, err := resource.ParseQuantity(text); err == nil {
				s.Capacity = v1.ResourceList{v1.ResourceStorage: q}
			}
		}
	}
	if was.Phase == v1.ClaimPending && phase == v1.ClaimBound {
		s.CurrentVolumeAttributesClassName = pv.Spec.VolumeAttributesClassName
	}
	return !equality.Semantic.DeepEqual(was, s)
}

// unbind takes the claim out of a volume; of one that its author kept for a claim, only which one of that name it was.
func unbind(pv *v1.PersistentVolume) bool {
	if pv.Spec.ClaimRef == nil {
		return false
	}
	if !metav1.HasAnnotation(pv.ObjectMeta, storagehelpers.AnnBoundByController) {
		changed := pv.Spec.ClaimRef.UID != ""
		pv.Spec.ClaimRef.UID = ""
		return changed
	}
	pv.Spec.ClaimRef = nil
	if delete(pv.Annotations, storagehelpers.AnnBoundByController); len(pv.Annotations) == 0 {
		pv.Annotations = nil
	}
	return true
}

// phased says in a volume's status what it is.
func phased(pv *v1.PersistentVolume, phase v1.PersistentVolumePhase, message string) bool {
	if pv.Status.Phase == phase {
		return false
	}
	pv.Status.Phase, pv.Status.Message = phase, message
	return true
}

// provisionedBy notes in a claim who is to make its volume, under both names that there are for that.
func provisionedBy(c *v1.PersistentVolumeClaim, who string) bool {
	if c.Annotations[storagehelpers.AnnStorageProvisioner] == who {
		return false
	}
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnBetaStorageProvisioner, who)
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnStorageProvisioner, who)
	return true
}
