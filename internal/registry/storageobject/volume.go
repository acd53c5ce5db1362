package storageobject

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podfill"
	"podo.dev/podo/internal/registry/podobject"
	"podo.dev/podo/internal/registry/podspec"
)

// mountOptions is the annotation that held mount options before there was a field.
const mountOptions = v1.MountOptionAnnotation

// DefaultVolume fills what a PersistentVolume's author left out.
func DefaultVolume(pv *v1.PersistentVolume) {
	if pv.Status.Phase == "" {
		pv.Status.Phase = v1.VolumePending
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == "" {
		pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	}
	if pv.Spec.VolumeMode == nil {
		pv.Spec.VolumeMode = new(v1.PersistentVolumeFilesystem)
	}
	check.RoundUp(pv.Spec.Capacity)
	podfill.DefaultPersistent(&pv.Spec.PersistentVolumeSource)
}

// PrepareVolume gives a new volume its status. Its creationTimestamp must be set.
func PrepareVolume(pv *v1.PersistentVolume) {
	pv.Status = v1.PersistentVolumeStatus{Phase: v1.VolumePending}
	if t := pv.CreationTimestamp; !t.IsZero() {
		pv.Status.LastPhaseTransitionTime = &t
	}
}

// StampPhase notes when a volume's phase changed, unless who reports it does.
func StampPhase(pv, old *v1.PersistentVolume, now time.Time) {
	s, was := &pv.Status, &old.Status
	switch changed := s.Phase != was.Phase; {
	case !changed && s.LastPhaseTransitionTime == nil:
		s.LastPhaseTransitionTime = was.LastPhaseTransitionTime.DeepCopy()
	case changed && (s.LastPhaseTransitionTime == nil || s.LastPhaseTransitionTime.Equal(was.LastPhaseTransitionTime)):
		s.LastPhaseTransitionTime = new(metav1.NewTime(now).Rfc3339Copy())
	}
}

// ValidateVolume judges a volume whole; old is nil on create.
func ValidateVolume(pv, old *v1.PersistentVolume) field.ErrorList {
	var e check.Errors
	var was *v1.PersistentVolumeSpec
	if old != nil {
		was = &old.Spec
	}
	e.Add(podspec.VolumeSpec(&pv.Spec, was, pv.Name, specPath))
	if _, ok := pv.Annotations[mountOptions]; ok && !mountable(&pv.Spec) {
		e.Forbidden(metaPath.Child("annotations", mountOptions), "may not specify mount options for this volume type")
	}
	return e.List()
}

// mountable says whether the annotation of mount options means anything for the type of volume.
func mountable(s *v1.PersistentVolumeSpec) bool {
	return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.Glusterfs != nil || s.NFS != nil || s.RBD != nil ||
		s.Quobyte != nil || s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil || s.AzureFile != nil || s.VsphereVolume != nil ||
		s.AzureDisk != nil || s.PhotonPersistentDisk != nil
}

// ValidateVolumeUpdate judges a change: where a volume's data is never changes.
func ValidateVolumeUpdate(pv, old *v1.PersistentVolume) field.ErrorList {
	var e check.Errors
	e.Add(ValidateVolume(pv, old))
	source, was := pv.Spec.PersistentVolumeSource.DeepCopy(), &old.Spec.PersistentVolumeSource
	if source.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		source.CSI.ControllerExpandSecretRef = nil // it may be added
	}
	if !equality.Semantic.DeepEqual(source, was) {
		e.Forbidden(specPath.Child("persistentvolumesource"), fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v",
			diff.Diff(check.Shown(*was), check.Shown(*source))))
	}
	e.Add(apivalidation.ValidateImmutableField(pv.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode")))
	if a := old.Spec.NodeAffinity; a != nil && !sameAffinity(pv.Spec.NodeAffinity, a) {
		e.Invalid(field.NewPath("nodeAffinity"), pv.Spec.NodeAffinity, "field is immutable, except for updating from beta label to GA")
	}
	if old.Spec.VolumeAttributesClassName != nil && pv.Spec.VolumeAttributesClassName == nil {
		e.Forbidden(specPath.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden")
	}
	return e.List()
}

// renamed are labels of nodes by the name that they have today.
var renamed = map[string]string{
	v1.LabelFailureDomainBetaZone: v1.LabelTopologyZone, v1.LabelFailureDomainBetaRegion: v1.LabelTopologyRegion,
	"beta.kubernetes.io/os": v1.LabelOSStable, "beta.kubernetes.io/arch": v1.LabelArchStable, v1.LabelInstanceType: v1.LabelInstanceTypeStable,
}

// sameAffinity compares; a label's old name may become its new one.
func sameAffinity(a, old *v1.VolumeNodeAffinity) bool {
	if a != nil && a.Required != nil && old.Required != nil && len(a.Required.NodeSelectorTerms) == len(old.Required.NodeSelectorTerms) {
		a = a.DeepCopy()
		for i := range a.Required.NodeSelectorTerms {
			t, was := &a.Required.NodeSelectorTerms[i], &old.Required.NodeSelectorTerms[i]
			for _, list := range [][2][]v1.NodeSelectorRequirement{{t.MatchExpressions, was.MatchExpressions}, {t.MatchFields, was.MatchFields}} {
				for j := range min(len(list[0]), len(list[1])) {
					if key := list[1][j].Key; renamed[key] != "" && renamed[key] == list[0][j].Key {
						list[0][j].Key = key
					}
				}
			}
		}
	}
	return equality.Semantic.DeepEqual(a, old)
}

// VolumeWarnings tells what is accepted of a volume but unwise.
func VolumeWarnings(pv *v1.PersistentVolume) []string {
	var out []string
	warn := func(p *field.Path, format string, args ...any) {
		out = append(out, p.String()+": "+fmt.Sprintf(format, args...))
	}
	if _, ok := pv.Annotations[classAnnotation]; ok {
		warn(metaPath.Child("annotations").Key(classAnnotation), `deprecated since v1.8; use "storageClassName" attribute instead`)
	}
	if _, ok := pv.Annotations[mountOptions]; ok {
		warn(metaPath.Child("annotations").Key(mountOptions), `deprecated since v1.31; use "mountOptions" attribute instead`)
	}
	s := &pv.Spec
	if s.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle {
		warn(specPath.Child("persistentVolumeReclaimPolicy"), "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if s.NodeAffinity != nil && s.NodeAffinity.Required != nil {
		p := specPath.Child("nodeAffinity", "required", "nodeSelectorTerms")
		for i, t := range s.NodeAffinity.Required.NodeSelectorTerms {
			for j, r := range t.MatchExpressions {
				if msg, old := podobject.OldNodeLabel(r.Key); old {
					warn(p.Index(i).Child("matchExpressions").Index(j).Child("key"), "%s is %s", r.Key, msg)
				}
			}
		}
	}
	for _, old := range []struct {
		set        bool
		name, text string
	}{
		{s.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
		{s.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
		{s.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
		{s.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
		{s.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
		{s.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
	} {
		if old.set {
			warn(specPath.Child(old.name), "%s", old.text)
		}
	}
	return out
}

// VolumeColumns describe a volume's row, its name and age excepted.
func VolumeColumns(name, age metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	spec, status := v1.PersistentVolumeSpec{}.SwaggerDoc(), v1.PersistentVolumeStatus{}.SwaggerDoc()
	column := func(name, doc string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Description: doc}
	}
	mode := column("VolumeMode", spec["volumeMode"])
	mode.Priority = 1
	return []metav1.TableColumnDefinition{
		name, column("Capacity", spec["capacity"]), column("Access Modes", spec["accessModes"]),
		column("Reclaim Policy", spec["persistentVolumeReclaimPolicy"]), column("Status", status["phase"]), column("Claim", spec["claimRef"]),
		column("StorageClass", "StorageClass of the pv"), column("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
		column("Reason", status["reason"]), age, mode,
	}
}

// VolumeRow is a volume as `kubectl get` shows it.
func VolumeRow(pv *v1.PersistentVolume, age string) []any {
	claim, phase := "", string(pv.Status.Phase)
	if r := pv.Spec.ClaimRef; r != nil {
		claim = r.Namespace + "/" + r.Name
	}
	if pv.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	class, ok := pv.Annotations[classAnnotation]
	if !ok {
		class = pv.Spec.StorageClassName
	}
	size := pv.Spec.Capacity[v1.ResourceStorage]
	return []any{
		pv.Name, size.String(), modes(pv.Spec.AccessModes), string(pv.Spec.PersistentVolumeReclaimPolicy), phase, claim, class,
		shown(pv.Spec.VolumeAttributesClassName), pv.Status.Reason, age, shown(pv.Spec.VolumeMode),
	}
}
