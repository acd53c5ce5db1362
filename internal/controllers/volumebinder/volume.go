package volumebinder

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// VolumePlan is what to do about a volume, in the order of its fields.
type VolumePlan struct {
	Event      *Event
	ClaimEvent *Event // of the claim that it names
	Phase      v1.PersistentVolumePhase
	Unbind     bool    // it names its claim no more, and is available
	Reclaim    Reclaim // after that
}

// Reclaim is what happens to the data of a released volume.
type Reclaim struct {
	Delete bool   // it is to go
	By     string // who has to see to that, as upstream calls it; "" when nobody can
	Remove string // the directory on this machine that goes; then the volume does
	Failed *Event // why nothing can be done: the volume says Failed
}

// ForVolume says what a volume needs done.
func ForVolume(pv *v1.PersistentVolume, w World) VolumePlan {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" { // nobody's, or kept for a claim that has not taken it yet
		return VolumePlan{Phase: v1.VolumeAvailable}
	}
	c := w.Claim(ref.Namespace, ref.Name)
	switch {
	case c == nil || c.UID != ref.UID:
		return released(pv, w)
	case c.Spec.VolumeName == "":
		if storagehelpers.CheckVolumeModeMismatches(&c.Spec, &pv.Spec) {
			return VolumePlan{
				Event:      warning("VolumeMismatch", "Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", c.Name),
				ClaimEvent: warning("VolumeMismatch", "Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", pv.Name),
			}
		}
		return VolumePlan{} // the claim finishes it
	case c.Spec.VolumeName == pv.Name:
		return VolumePlan{Phase: v1.VolumeBound}
	}
	// The claim has another volume.
	if metav1.HasAnnotation(pv.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned) && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
		return released(pv, w)
	}
	return VolumePlan{Unbind: true}
}

// released: the claim has gone. A volume that failed says so until it is reclaimed.
func released(pv *v1.PersistentVolume, w World) (p VolumePlan) {
	if pv.Status.Phase != v1.VolumeFailed {
		p.Phase = v1.VolumeReleased
	}
	switch pv.Spec.PersistentVolumeReclaimPolicy {
	case v1.PersistentVolumeReclaimRetain:
	case v1.PersistentVolumeReclaimRecycle:
		p.Reclaim.Failed = warning("VolumeFailedRecycle", "No recycler plugin found for the volume!")
	case v1.PersistentVolumeReclaimDelete:
		p.Reclaim = deletion(pv, w)
		p.Reclaim.Delete = true
	default:
		p.Reclaim.Failed = warning("VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")
	}
	return p
}

// hostPath is the plug-in of directories on this machine.
const hostPath = "kubernetes.io/host-path"

// temporary are the only directories of hostPath volumes that are removed: whoever makes such volumes by hand wants to keep the rest.
var temporary = regexp.MustCompile("/tmp/.+")

func deletion(pv *v1.PersistentVolume, w World) Reclaim {
	failed := func(format string, args ...any) Reclaim {
		return Reclaim{Failed: warning("VolumeFailedDelete", format, args...)}
	}
	by := pv.Annotations[storagehelpers.AnnDynamicallyProvisioned]
	switch {
	case metav1.HasAnnotation(pv.ObjectMeta, storagehelpers.AnnMigratedTo), moved[by] != "", by != "" && !strings.HasPrefix(by, "kubernetes.io/"), by == "" && pv.Spec.CSI != nil:
		// Who made it deletes it. It is called by its class, since there is no end to the names that volumes give.
		if class := w.Class(storagehelpers.GetPersistentVolumeClass(pv)); class != nil {
			return Reclaim{By: cmp.Or(moved[class.Provisioner], class.Provisioner)}
		}
		return Reclaim{}
	case by != "":
		return failed("no volume plugin matched name: %s", by)
	case pv.Spec.HostPath == nil:
		return failed("error getting deleter volume plugin for volume %q: no deletable volume plugin matched", pv.Name)
	case !temporary.MatchString(pv.Spec.HostPath.Path):
		r := failed("%s", fmt.Sprintf("host_path deleter only supports /tmp/.+ but received provided %s", pv.Spec.HostPath.Path))
		r.By = hostPath
		return r
	}
	return Reclaim{Remove: pv.Spec.HostPath.Path, By: hostPath}
}
