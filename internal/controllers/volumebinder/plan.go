// Package volumebinder binds claims of storage to volumes, and says what becomes of a volume whose claim has gone.
//
//	plan.go        pure: what a claim needs done
//	volume.go      pure: what a volume needs done
//	match.go       pure: which volume suits a claim
//	write.go       pure: the edits of claims and volumes
//	operations.go  what others are asked to do, as metrics
//	controller.go  does it
//
// A claim and a volume are bound when each names the other:
//
//	claim   Pending ──bind──► Bound ──the volume has gone, or is another's──► Lost
//	volume  Available ──bind──► Bound ──the claim has gone──► Released ──► deleted, or Failed, or kept
//
// The volume is written first: it is what two claims could want. Whoever finds a binding half done finishes it. One worker decides on
// all claims, so that no volume is promised twice.
package volumebinder

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// World is what is decided upon, at one moment. What is not there is nil.
type World interface {
	Volume(name string) *v1.PersistentVolume
	Volumes() []*v1.PersistentVolume
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	Class(name string) *storagev1.StorageClass
	// DefaultClass is what claims without a class get.
	DefaultClass() *storagev1.StorageClass
	// Waiting are the names of the pods that use the claim and have no node yet.
	Waiting(c *v1.PersistentVolumeClaim) []string
}

// Event is what is told of the object that a plan is for.
type Event struct{ Type, Reason, Message string }

func warning(reason, format string, args ...any) *Event {
	return &Event{v1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

func normal(reason, format string, args ...any) *Event {
	return &Event{v1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

// ClaimPlan is what to do about a claim, in the order of its fields.
type ClaimPlan struct {
	Bind        *v1.PersistentVolume // the claim and this volume are to name each other, and to say that they are bound
	Class       string               // the class that it gets, late
	Provisioner string               // who is to make a volume for it
	Event       *Event
	Phase       v1.PersistentVolumeClaimPhase // "": as it is
	Once        bool                          // the event tells of the phase: it is due when that changes only
	Err         error                         // why to try again
}

// ForClaim says what a claim needs done.
func ForClaim(c *v1.PersistentVolumeClaim, w World) ClaimPlan {
	switch {
	case metav1.HasAnnotation(c.ObjectMeta, storagehelpers.AnnBindCompleted):
		return forBound(c, w)
	case c.Spec.VolumeName != "":
		return forChosen(c, w)
	}
	return forUnbound(c, w)
}

// forUnbound: the author does not care which volume it is.
func forUnbound(c *v1.PersistentVolumeClaim, w World) ClaimPlan {
	class := storagehelpers.GetPersistentVolumeClaimClass(c)
	delayed := delays(w.Class(class))
	pv, err := Match(c, w.Volumes(), delayed)
	switch {
	case err != nil:
		return ClaimPlan{Err: fmt.Errorf("error finding PV for claim %q: %w", c.Namespace+"/"+c.Name, err)}
	case pv != nil:
		return ClaimPlan{Bind: pv}
	}
	if d := w.DefaultClass(); d != nil && !storagehelpers.PersistentVolumeClaimHasClass(c) {
		return ClaimPlan{Class: d.Name}
	}
	switch {
	case delayed && !storagehelpers.IsDelayBindingProvisioning(c):
		return ClaimPlan{Phase: v1.ClaimPending, Event: waiting(w.Waiting(c))}
	case class != "":
		return provision(class, w.Class(class))
	}
	return ClaimPlan{
		Phase: v1.ClaimPending,
		Event: normal("FailedBinding", "no persistent volumes available for this claim and no storage class is set"),
	}
}

func delays(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func waiting(pods []string) *Event {
	switch len(pods) {
	case 0:
		return normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	case 1:
		return normal("WaitForPodScheduled", "waiting for pod %s to be scheduled", pods[0])
	}
	return normal("WaitForPodScheduled", "waiting for pods %s to be scheduled", strings.Join(pods, ","))
}

// moved are provisioners that were part of Kubernetes once, by the names of the drivers that took over from them.
var moved = map[string]string{
	"kubernetes.io/aws-ebs":         "ebs.csi.aws.com",
	"kubernetes.io/azure-disk":      "disk.csi.azure.com",
	"kubernetes.io/azure-file":      "file.csi.azure.com",
	"kubernetes.io/cinder":          "cinder.csi.openstack.org",
	"kubernetes.io/gce-pd":          "pd.csi.storage.gke.io",
	"kubernetes.io/portworx-volume": "pxd.portworx.com",
	"kubernetes.io/vsphere-volume":  "csi.vsphere.vmware.com",
}

// provision asks whoever the class names for a volume.
func provision(name string, class *storagev1.StorageClass) ClaimPlan {
	const failed = "ProvisioningFailed"
	if class == nil {
		err := apierrors.NewNotFound(storagev1.Resource("storageclass"), name)
		return ClaimPlan{Event: warning(failed, "%v", err)}
	}
	who := class.Provisioner
	if driver, ok := moved[who]; ok {
		who = driver
	}
	if strings.HasPrefix(who, "kubernetes.io/") {
		return ClaimPlan{Event: warning(failed, "no volume plugin matched name: %s", who)}
	}
	return ClaimPlan{Provisioner: who, Event: normal("ExternalProvisioning",
		"Waiting for a volume to be created either by the external provisioner '%s' or manually by the system administrator. "+
			"If volume creation is delayed, please verify that the provisioner is running and correctly registered.", who)}
}

// forChosen: the author, or the scheduler, has said which volume it is to be.
func forChosen(c *v1.PersistentVolumeClaim, w World) ClaimPlan {
	pv := w.Volume(c.Spec.VolumeName)
	switch {
	case pv == nil:
		return ClaimPlan{Phase: v1.ClaimPending}
	case pv.Spec.ClaimRef == nil:
		if err := suits(pv, c); err != nil {
			return ClaimPlan{Phase: v1.ClaimPending, Event: warning("VolumeMismatch", "Cannot bind to requested volume %q: %s", pv.Name, err)}
		}
		return ClaimPlan{Bind: pv}
	case storagehelpers.IsVolumeBoundToClaim(pv, c):
		return ClaimPlan{Bind: pv}
	}
	p := ClaimPlan{Event: warning("FailedBinding", "volume %q already bound to a different claim.", pv.Name)}
	if !metav1.HasAnnotation(c.ObjectMeta, storagehelpers.AnnBoundByController) {
		p.Phase = v1.ClaimPending
		return p
	}
	// We chose that volume and somebody has taken the mark of the finished binding away.
	p.Err = fmt.Errorf("invalid binding of claim %q to volume %q: volume already claimed by %q",
		c.Namespace+"/"+c.Name, pv.Name, pv.Spec.ClaimRef.Namespace+"/"+pv.Spec.ClaimRef.Name)
	return p
}

// forBound: it was bound once, and nothing but that volume will do.
func forBound(c *v1.PersistentVolumeClaim, w World) ClaimPlan {
	lost := func(reason, message string) ClaimPlan {
		return ClaimPlan{Phase: v1.ClaimLost, Event: warning(reason, "%s", message), Once: true}
	}
	if c.Spec.VolumeName == "" {
		return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	pv := w.Volume(c.Spec.VolumeName)
	switch {
	case pv == nil:
		return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == c.UID:
		return ClaimPlan{Bind: pv}
	}
	return lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}
