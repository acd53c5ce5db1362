package podspec

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// checkVolumes checks the volumes and remembers the valid ones for containers to mount.
func (v *validator) checkVolumes(p *field.Path) {
	v.volumes = make(map[string]*v1.VolumeSource, len(v.spec.Volumes))
	created := sets.New[string]() // claims that come into being with the pod
	for i := range v.spec.Volumes {
		if vol := &v.spec.Volumes[i]; vol.Ephemeral != nil && v.o.PodName != "" {
			created.Insert(v.o.PodName + "-" + vol.Name)
		}
	}
	for i := range v.spec.Volumes {
		vol, at := &v.spec.Volumes[i], item(p, i)
		before := len(v.List())
		v.volumeSource(at, vol)
		if vol.Name == "" {
			v.Required(child(at, "name"), "")
		} else {
			v.DNSLabel(child(at, "name"), vol.Name)
		}
		if _, ok := v.volumes[vol.Name]; ok {
			v.Duplicate(child(at, "name"), vol.Name)
		}
		if len(v.List()) == before {
			v.volumes[vol.Name] = &vol.VolumeSource
		}
		if c := vol.PersistentVolumeClaim; c != nil && created.Has(c.ClaimName) {
			v.Invalid(child(child(at, "persistentVolumeClaim"), "claimName"), c.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume")
		}
	}
}

// sourceCheck is one type of volume: its field's name as in "more than 1 volume type", the name under which its findings stand
// where that differs, whether it is set, and its check.
type sourceCheck struct {
	name, at string
	set      func(*v1.Volume) bool
	check    func(*validator, *field.Path, *v1.Volume)
}

// sources are all types in upstream's order: of two that are given, the later is the one too many.
var sources = func() []sourceCheck {
	order := strings.Fields(`emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker
		persistentVolumeClaim rbd cinder cephFS quobyte downwarAPI fc flexVolume configMap azureFile vsphereVolume
		photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral image`)
	all := slices.Concat(localSources, diskSources)
	slices.SortStableFunc(all, func(a, b sourceCheck) int { return slices.Index(order, a.name) - slices.Index(order, b.name) })
	return all
}()

// volumeSource checks that exactly one type of source is given, and that one.
func (v *validator) volumeSource(p *field.Path, vol *v1.Volume) {
	found := 0
	for i := range sources {
		s := &sources[i]
		if !s.set(vol) {
			continue
		}
		if found++; found > 1 {
			v.Forbidden(child(p, s.name), "may not specify more than 1 volume type")
		} else {
			at := s.at
			if at == "" {
				at = s.name
			}
			s.check(v, child(p, at), vol)
			if s.name == "ephemeral" {
				v.claimName(p, vol)
			}
		}
		if i := vol.ISCSI; s.name == "iscsi" && i.InitiatorName != nil && len(vol.Name+":"+i.TargetPortal) > 64 {
			v.Invalid(child(p, "name"), vol.Name,
				"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
		}
	}
	if found == 0 {
		v.Required(p, "must specify a volume type")
	}
}

// localSources are the types that a node makes itself or takes from the API.
var localSources = []sourceCheck{
	{"emptyDir", "", func(vol *v1.Volume) bool { return vol.EmptyDir != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.emptyDir(p, vol.EmptyDir) }},
	{"hostPath", "", func(vol *v1.Volume) bool { return vol.HostPath != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.hostPath(p, vol.HostPath) }},
	{"secret", "", func(vol *v1.Volume) bool { return vol.Secret != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		s := vol.Secret
		if s.SecretName == "" {
			v.Required(child(p, "secretName"), "")
		}
		v.Mode(child(p, "defaultMode"), s.DefaultMode)
		v.userID(child(p, "defaultUser"), s.DefaultUser)
		v.keysToPaths(child(p, "items"), s.Items)
	}},
	{"persistentVolumeClaim", "", func(vol *v1.Volume) bool { return vol.PersistentVolumeClaim != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		if vol.PersistentVolumeClaim.ClaimName == "" {
			v.Required(child(p, "claimName"), "")
		}
	}},
	{"downwarAPI", "downwardAPI", func(vol *v1.Volume) bool { return vol.DownwardAPI != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.Mode(child(p, "defaultMode"), vol.DownwardAPI.DefaultMode)
		v.userID(child(p, "defaultUser"), vol.DownwardAPI.DefaultUser)
		for _, f := range vol.DownwardAPI.Items {
			v.downwardFile(p, f)
		}
	}},
	{"configMap", "", func(vol *v1.Volume) bool { return vol.ConfigMap != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		c := vol.ConfigMap
		if c.Name == "" {
			v.Required(child(p, "name"), "")
		}
		v.Mode(child(p, "defaultMode"), c.DefaultMode)
		v.userID(child(p, "defaultUser"), c.DefaultUser)
		v.keysToPaths(child(p, "items"), c.Items)
	}},
	{"projected", "", func(vol *v1.Volume) bool { return vol.Projected != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.projected(p, vol.Projected) }},
	{"csi", "", func(vol *v1.Volume) bool { return vol.CSI != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.csi(p, vol.CSI) }},
	{"ephemeral", "", func(vol *v1.Volume) bool { return vol.Ephemeral != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.ephemeralVolume(p, vol) }},
	{"image", "", func(vol *v1.Volume) bool { return vol.Image != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		if vol.Image.Reference == "" && !v.o.EmptyImageReference {
			v.Required(child(p, "reference"), "")
		}
		check.RequiredOneOf(&v.Errors, child(p, "pullPolicy"), vol.Image.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	}},
}

func (v *validator) emptyDir(p *field.Path, e *v1.EmptyDirVolumeSource) {
	if e.SizeLimit != nil && e.SizeLimit.Sign() < 0 {
		v.Forbidden(child(p, "sizeLimit"), "SizeLimit field must be a valid resource quantity")
	}
	if m := e.Mode; m != nil && (*m < 0 || *m > 0o1777) {
		v.Invalid(child(p, "mode"), *m, "must be a number between 0 and 01777 (octal), both inclusive")
	}
}

func (v *validator) hostPath(p *field.Path, h *v1.HostPathVolumeSource) {
	if h.Path == "" {
		v.Required(child(p, "path"), "")
		return
	}
	v.NoBacksteps(child(p, "path"), h.Path)
	if h.Type != nil {
		check.OneOf(&v.Errors, child(p, "type"), *h.Type, v1.HostPathUnset, v1.HostPathBlockDev, v1.HostPathCharDev, v1.HostPathDirectory,
			v1.HostPathDirectoryOrCreate, v1.HostPathFile, v1.HostPathFileOrCreate, v1.HostPathSocket)
	}
}

func (v *validator) userID(p *field.Path, user *int64) {
	if user != nil {
		v.Each(p, *user, validation.IsValidUserID(*user))
	}
}

func (v *validator) csi(p *field.Path, c *v1.CSIVolumeSource) {
	v.csiDriver(child(p, "driver"), c.Driver)
	if r := c.NodePublishSecretRef; r != nil {
		if r.Name == "" {
			v.Required(child(child(p, "nodePublishSecretRef"), "name"), "")
		} else {
			v.ObjectName(child(p, "name"), r.Name, false)
		}
	}
}

// ephemeralVolume checks the claim that is made for the pod.
func (v *validator) ephemeralVolume(p *field.Path, vol *v1.Volume) {
	if t := vol.Ephemeral.VolumeClaimTemplate; t == nil {
		v.Required(child(p, "volumeClaimTemplate"), "")
	} else {
		v.claimTemplate(child(p, "volumeClaimTemplate"), t)
	}
}

// claimName checks the name of the claim, which is the pod's and the volume's.
func (v *validator) claimName(p *field.Path, vol *v1.Volume) {
	if v.o.PodName == "" || vol.Name == "" {
		return
	}
	claim := v.o.PodName + "-" + vol.Name
	for _, msg := range apivalidation.NameIsDNSSubdomain(claim, false) {
		v.Invalid(child(p, "name"), vol.Name, fmt.Sprintf("PVC name %q: %v", claim, msg))
	}
}

func (v *validator) claimTemplate(p *field.Path, t *v1.PersistentVolumeClaimTemplate) {
	meta := child(p, "metadata")
	v.Add(apivalidation.ValidateAnnotations(t.Annotations, child(meta, "annotations")))
	v.Add(metav1validation.ValidateLabels(t.Labels, child(meta, "labels")))
	v.onlyFields(meta, t.ObjectMeta, sets.New("Annotations", "Labels"), "cannot be set")
	v.claimSpec(child(p, "spec"), &t.Spec)
}

// claimSpec checks a PersistentVolumeClaim's spec.
func (v *validator) claimSpec(p *field.Path, s *v1.PersistentVolumeClaimSpec) {
	if len(s.AccessModes) == 0 {
		v.Required(child(p, "accessModes"), "at least 1 access mode is required")
	}
	if s.Selector != nil {
		v.labelSelector(child(p, "selector"), s.Selector)
	}
	v.knownModes(child(p, "accessModes"), s.AccessModes)
	storage := keyed(child(p, "resources"), "storage")
	if q, ok := s.Resources.Requests[v1.ResourceStorage]; !ok {
		v.Required(storage, "")
	} else if q.Sign() <= 0 {
		v.Invalid(storage, q.String(), "must be greater than zero")
	}
	if n := s.StorageClassName; n != nil && *n != "" {
		v.ObjectName(child(p, "storageClassName"), *n, false)
	}
	if s.VolumeMode != nil {
		check.OneOf(&v.Errors, child(p, "volumeMode"), *s.VolumeMode, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem)
	}
	v.dataSources(p, s)
	if n := s.VolumeAttributesClassName; n != nil && *n != "" {
		v.ObjectName(child(p, "volumeAttributesClassName"), *n, false)
	}
}

// dataSources checks what a claim is filled from; the older and the newer field must agree.
func (v *validator) dataSources(p *field.Path, s *v1.PersistentVolumeClaimSpec) {
	one := func(p *field.Path, name, kind string, group *string) {
		if name == "" {
			v.Required(child(p, "name"), "")
		}
		if kind == "" {
			v.Required(child(p, "kind"), "")
		}
		if (group == nil || *group == "") && kind != "PersistentVolumeClaim" {
			v.Invalid(p, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
		}
		if group != nil && *group != "" && !v.o.BadDataSourceGroup {
			v.Each(child(p, "apiGroup"), *group, validation.IsDNS1123Subdomain(*group))
		}
	}
	if d := s.DataSource; d != nil {
		one(child(p, "dataSource"), d.Name, d.Kind, d.APIGroup)
	}
	d := s.DataSourceRef
	if d == nil {
		return
	}
	one(child(p, "dataSourceRef"), d.Name, d.Kind, d.APIGroup)
	if d.Namespace != nil && *d.Namespace != "" {
		v.Each(child(child(p, "dataSourceRef"), "namespace"), *d.Namespace, apivalidation.ValidateNamespaceName(*d.Namespace, false))
		if s.DataSource != nil {
			v.Invalid(p, child(p, "dataSource"), "may not be specified when dataSourceRef.namespace is specified")
		}
		return
	}
	if o := s.DataSource; o != nil && (o.Name != d.Name || o.Kind != d.Kind || !sameText(o.APIGroup, d.APIGroup)) {
		v.Invalid(p, child(p, "dataSource"), "must match dataSourceRef")
	}
}

func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func (v *validator) labelSelector(p *field.Path, s *metav1.LabelSelector) {
	v.Add(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: v.o.BadClaimSelector}, p))
}
