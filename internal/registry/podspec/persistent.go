package podspec

import (
	"path"
	"slices"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// ClaimSpec checks the spec of a PersistentVolumeClaim, which stands at p; old is the stored one's, nil on create.
func ClaimSpec(spec, old *v1.PersistentVolumeClaimSpec, p *field.Path) field.ErrorList {
	v := &validator{}
	if old != nil {
		v.o.BadClaimSelector = old.Selector != nil &&
			len(metav1validation.ValidateLabelSelector(old.Selector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
		v.o.BadDataSourceGroup = old.DataSource != nil && old.DataSource.APIGroup != nil ||
			old.DataSourceRef != nil && old.DataSourceRef.APIGroup != nil
	}
	v.claimSpec(p, spec)
	return v.List()
}

// DriverName checks for the name of a CSI driver.
func DriverName(p *field.Path, name string) field.ErrorList {
	v := &validator{}
	v.csiDriver(p, name)
	return v.List()
}

// VolumeSpec checks the spec of a PersistentVolume of that name, which stands at p; old is the stored one's, nil on create.
func VolumeSpec(spec, old *v1.PersistentVolumeSpec, name string, p *field.Path) field.ErrorList {
	v := &validator{}
	v.accessModes(child(p, "accessModes"), spec.AccessModes, "")
	v.capacity(child(p, "capacity"), spec.Capacity)
	if r := spec.PersistentVolumeReclaimPolicy; r != "" {
		check.OneOf(&v.Errors, child(p, "persistentVolumeReclaimPolicy"), r,
			v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle, v1.PersistentVolumeReclaimRetain)
	}
	if a := spec.NodeAffinity; a != nil {
		v.o.BadLabelValueInNodeTerm = old != nil && old.NodeAffinity != nil && badTerms(old.NodeAffinity.Required)
		if at := child(child(p, "nodeAffinity"), "required"); a.Required != nil {
			v.nodeSelector(at, a.Required)
		} else {
			v.Required(at, "must specify required node constraints")
		}
	}
	v.persistentSource(p, spec, name)
	if h := spec.HostPath; h != nil && path.Clean(h.Path) == "/" && spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle {
		v.Forbidden(child(p, "persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'")
	}
	if spec.StorageClassName != "" {
		v.ObjectName(child(p, "storageClassName"), spec.StorageClassName, false)
	}
	if spec.VolumeMode != nil {
		check.OneOf(&v.Errors, child(p, "volumeMode"), *spec.VolumeMode, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem)
	}
	if c := spec.VolumeAttributesClassName; c != nil {
		if at := child(p, "volumeAttributesClassName"); *c == "" {
			v.Required(at, "an empty string is disallowed")
		} else {
			v.ObjectName(at, *c, false)
		}
		if spec.CSI == nil {
			v.Required(child(p, "csi"), "has to be specified when using volumeAttributesClassName")
		}
	}
	return v.List()
}

func badTerms(s *v1.NodeSelector) bool {
	if s == nil {
		return false
	}
	var v validator
	for _, t := range s.NodeSelectorTerms {
		for _, r := range t.MatchExpressions {
			v.labelValues(nil, r.Values)
		}
	}
	return len(v.List()) > 0
}

// accessModes: at least one, and the one of a single pod alone.
func (v *validator) accessModes(p *field.Path, modes []v1.PersistentVolumeAccessMode, detail string) {
	if len(modes) == 0 {
		v.Required(p, detail)
	}
	v.knownModes(p, modes)
}

func (v *validator) knownModes(p *field.Path, modes []v1.PersistentVolumeAccessMode) {
	once, other := false, false
	for _, m := range modes {
		before := len(v.List())
		check.OneOf(&v.Errors, p, m, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOnce, v1.ReadWriteOncePod)
		once = once || m == v1.ReadWriteOncePod
		other = other || m != v1.ReadWriteOncePod && len(v.List()) == before
	}
	if once && other {
		v.Forbidden(p, "may not use ReadWriteOncePod with other access modes")
	}
}

func (v *validator) capacity(p *field.Path, list v1.ResourceList) {
	if len(list) == 0 {
		v.Required(p, "")
	}
	if _, ok := list[v1.ResourceStorage]; !ok || len(list) > 1 {
		v.Put(field.NotSupported(p, list, []v1.ResourceName{v1.ResourceStorage}))
	}
	for _, name := range check.Sorted(list) {
		q, at := list[name], keyed(p, string(name))
		if q.Value() < 0 {
			v.Invalid(at, q.Value(), "must be a valid resource quantity")
		}
		if q.Sign() <= 0 {
			v.Invalid(at, q.String(), "must be greater than zero")
		}
	}
}

// persistentSource checks that exactly one type of source is given, and that one: those that pods have too as theirs, the others
// by rules of their own.
func (v *validator) persistentSource(p *field.Path, spec *v1.PersistentVolumeSpec, name string) {
	found := 0
	for _, s := range persistentSources {
		if !s.set(spec) {
			continue
		}
		if found++; found > 1 && s.name != "flexVolume" {
			v.Forbidden(child(p, s.name), "may not specify more than 1 volume type")
			continue
		}
		s.check(v, p, spec, name)
	}
	if found == 0 {
		v.Required(p, "must specify a volume type")
	}
}

// persistentCheck is one type of a PersistentVolume's source.
type persistentCheck struct {
	name  string
	set   func(*v1.PersistentVolumeSpec) bool
	check func(v *validator, p *field.Path, spec *v1.PersistentVolumeSpec, name string)
}

// sameAsPods makes the check of a type that a pod's volume has too.
func sameAsPods(name string, volume func(*v1.PersistentVolumeSpec) v1.VolumeSource) persistentCheck {
	source := sources[slices.IndexFunc(sources, func(s sourceCheck) bool { return s.name == name })]
	at := source.at
	if at == "" {
		at = name
	}
	as := func(s *v1.PersistentVolumeSpec) *v1.Volume { return &v1.Volume{VolumeSource: volume(s)} }
	return persistentCheck{
		name, func(s *v1.PersistentVolumeSpec) bool { return source.set(as(s)) },
		func(v *validator, p *field.Path, s *v1.PersistentVolumeSpec, _ string) {
			source.check(v, child(p, at), as(s))
		},
	}
}

// own makes the check of a type that is a PersistentVolume's own; its findings stand at another name where at says so.
func own[T any](name, at string, of func(*v1.PersistentVolumeSpec) *T, check func(v *validator, p *field.Path, s *T)) persistentCheck {
	return persistentCheck{
		name, func(s *v1.PersistentVolumeSpec) bool { return of(s) != nil },
		func(v *validator, p *field.Path, s *v1.PersistentVolumeSpec, _ string) { check(v, child(p, at), of(s)) },
	}
}

// persistentSources are all types in upstream's order.
var persistentSources = []persistentCheck{
	sameAsPods("hostPath", func(s *v1.PersistentVolumeSpec) v1.VolumeSource { return v1.VolumeSource{HostPath: s.HostPath} }),
	sameAsPods("gcePersistentDisk", func(s *v1.PersistentVolumeSpec) v1.VolumeSource {
		return v1.VolumeSource{GCEPersistentDisk: s.GCEPersistentDisk}
	}),
	sameAsPods("awsElasticBlockStore", func(s *v1.PersistentVolumeSpec) v1.VolumeSource {
		return v1.VolumeSource{AWSElasticBlockStore: s.AWSElasticBlockStore}
	}),
	own("glusterfs", "glusterfs", func(s *v1.PersistentVolumeSpec) *v1.GlusterfsPersistentVolumeSource { return s.Glusterfs }, (*validator).glusterfs),
	sameAsPods("flocker", func(s *v1.PersistentVolumeSpec) v1.VolumeSource { return v1.VolumeSource{Flocker: s.Flocker} }),
	sameAsPods("nfs", func(s *v1.PersistentVolumeSpec) v1.VolumeSource { return v1.VolumeSource{NFS: s.NFS} }),
	own("rbd", "rbd", func(s *v1.PersistentVolumeSpec) *v1.RBDPersistentVolumeSource { return s.RBD },
		func(v *validator, p *field.Path, s *v1.RBDPersistentVolumeSource) {
			v.monitors(p, s.CephMonitors)
			v.given(child(p, "image"), s.RBDImage)
		}),
	sameAsPods("quobyte", func(s *v1.PersistentVolumeSpec) v1.VolumeSource { return v1.VolumeSource{Quobyte: s.Quobyte} }),
	own("cephFS", "cephfs", func(s *v1.PersistentVolumeSpec) *v1.CephFSPersistentVolumeSource { return s.CephFS },
		func(v *validator, p *field.Path, s *v1.CephFSPersistentVolumeSource) { v.monitors(p, s.Monitors) }),
	{"iscsi", func(s *v1.PersistentVolumeSpec) bool { return s.ISCSI != nil }, func(v *validator, p *field.Path, s *v1.PersistentVolumeSpec, name string) {
		v.persistentISCSI(child(p, "iscsi"), s.ISCSI, name)
	}},
	own("cinder", "cinder", func(s *v1.PersistentVolumeSpec) *v1.CinderPersistentVolumeSource { return s.Cinder },
		func(v *validator, p *field.Path, s *v1.CinderPersistentVolumeSource) {
			v.given(child(p, "volumeID"), s.VolumeID)
			if r := s.SecretRef; r != nil {
				v.namedSecret(child(p, "secretRef"), r.Name, r.Namespace)
			}
		}),
	sameAsPods("fc", func(s *v1.PersistentVolumeSpec) v1.VolumeSource { return v1.VolumeSource{FC: s.FC} }),
	own("flexVolume", "flexVolume", func(s *v1.PersistentVolumeSpec) *v1.FlexPersistentVolumeSource { return s.FlexVolume },
		func(v *validator, p *field.Path, s *v1.FlexPersistentVolumeSource) {
			v.flexVolume(p, &v1.FlexVolumeSource{Driver: s.Driver, Options: s.Options})
		}),
	own("azureFile", "azureFile", func(s *v1.PersistentVolumeSpec) *v1.AzureFilePersistentVolumeSource { return s.AzureFile },
		func(v *validator, p *field.Path, s *v1.AzureFilePersistentVolumeSource) {
			v.given(child(p, "secretName"), s.SecretName)
			v.given(child(p, "shareName"), s.ShareName)
			if s.SecretNamespace != nil {
				v.given(child(p, "secretNamespace"), *s.SecretNamespace)
			}
		}),
	sameAsPods("vsphereVolume", func(s *v1.PersistentVolumeSpec) v1.VolumeSource {
		return v1.VolumeSource{VsphereVolume: s.VsphereVolume}
	}),
	sameAsPods("photonPersistentDisk", func(s *v1.PersistentVolumeSpec) v1.VolumeSource {
		return v1.VolumeSource{PhotonPersistentDisk: s.PhotonPersistentDisk}
	}),
	sameAsPods("portworxVolume", func(s *v1.PersistentVolumeSpec) v1.VolumeSource {
		return v1.VolumeSource{PortworxVolume: s.PortworxVolume}
	}),
	sameAsPods("azureDisk", func(s *v1.PersistentVolumeSpec) v1.VolumeSource { return v1.VolumeSource{AzureDisk: s.AzureDisk} }),
	own("scaleIO", "scaleIO", func(s *v1.PersistentVolumeSpec) *v1.ScaleIOPersistentVolumeSource { return s.ScaleIO },
		func(v *validator, p *field.Path, s *v1.ScaleIOPersistentVolumeSource) {
			v.given(child(p, "gateway"), s.Gateway)
			v.given(child(p, "system"), s.System)
			v.given(child(p, "volumeName"), s.VolumeName)
		}),
	{"local", func(s *v1.PersistentVolumeSpec) bool { return s.Local != nil }, func(v *validator, p *field.Path, s *v1.PersistentVolumeSpec, _ string) {
		if at := child(child(p, "local"), "path"); s.Local.Path == "" {
			v.Required(at, "")
		} else {
			v.NoBacksteps(at, s.Local.Path)
		}
		if s.NodeAffinity == nil {
			v.Required(child(p, "nodeAffinity"), "Local volume requires node affinity")
		}
	}},
	own("storageos", "storageos", func(s *v1.PersistentVolumeSpec) *v1.StorageOSPersistentVolumeSource { return s.StorageOS },
		func(v *validator, p *field.Path, s *v1.StorageOSPersistentVolumeSource) {
			if v.given(child(p, "volumeName"), s.VolumeName); s.VolumeName != "" {
				v.DNSLabel(child(p, "volumeName"), s.VolumeName)
			}
			if s.VolumeNamespace != "" {
				v.DNSLabel(child(p, "volumeNamespace"), s.VolumeNamespace)
			}
			if r := s.SecretRef; r != nil {
				v.namedSecret(child(p, "secretRef"), r.Name, r.Namespace)
			}
		}),
	own("csi", "csi", func(s *v1.PersistentVolumeSpec) *v1.CSIPersistentVolumeSource { return s.CSI }, (*validator).persistentCSI),
}

func (v *validator) monitors(p *field.Path, list []string) {
	if len(list) == 0 {
		v.Required(child(p, "monitors"), "")
	}
}

func (v *validator) glusterfs(p *field.Path, s *v1.GlusterfsPersistentVolumeSource) {
	v.given(child(p, "endpoints"), s.EndpointsName)
	v.given(child(p, "path"), s.Path)
	if ns := s.EndpointsNamespace; ns != nil {
		if at := child(p, "endpointsNamespace"); *ns == "" {
			v.Invalid(at, *ns, "if the endpointnamespace is set, it must be a valid namespace name")
		} else {
			v.Each(at, *ns, apivalidation.ValidateNamespaceName(*ns, false))
		}
	}
}

func (v *validator) namedSecret(p *field.Path, name, namespace string) {
	v.given(child(p, "name"), name)
	v.given(child(p, "namespace"), namespace)
}

func (v *validator) persistentCSI(p *field.Path, s *v1.CSIPersistentVolumeSource) {
	v.csiDriver(child(p, "driver"), s.Driver)
	v.given(child(p, "volumeHandle"), s.VolumeHandle)
	for _, r := range []struct {
		name string
		ref  *v1.SecretReference
	}{
		{"controllerPublishSecretRef", s.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", s.ControllerExpandSecretRef},
		{"nodePublishSecretRef", s.NodePublishSecretRef},
		{"nodeExpandSecretRef", s.NodeExpandSecretRef},
	} {
		if r.ref == nil {
			continue
		}
		v.secretPart(child(child(p, r.name), "name"), r.ref.Name, apivalidation.NameIsDNSSubdomain)
		v.secretPart(child(child(p, r.name), "namespace"), r.ref.Namespace, apivalidation.ValidateNamespaceName)
	}
}

func (v *validator) secretPart(p *field.Path, value string, valid func(string, bool) []string) {
	if value == "" {
		v.Required(p, "")
		return
	}
	v.Each(p, value, valid(value, false))
}

func (v *validator) persistentISCSI(p *field.Path, s *v1.ISCSIPersistentVolumeSource, name string) {
	v.given(child(p, "targetPortal"), s.TargetPortal)
	if s.InitiatorName != nil && len(name+":"+s.TargetPortal) > 64 {
		v.Invalid(child(p, "targetportal"), s.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
	}
	if s.IQN == "" {
		v.Required(child(p, "iqn"), "")
	} else {
		v.persistentISCSIName(child(p, "iqn"), s.IQN)
	}
	if s.Lun < 0 || s.Lun > 255 {
		v.Invalid(child(p, "lun"), s.Lun, validation.InclusiveRangeError(0, 255))
	}
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		v.Required(child(p, "secretRef"), "")
	}
	if s.SecretRef != nil {
		v.given(child(child(p, "secretRef"), "name"), s.SecretRef.Name)
	}
	if s.InitiatorName != nil {
		v.persistentISCSIName(child(p, "initiatorname"), *s.InitiatorName)
	}
}

func (v *validator) persistentISCSIName(p *field.Path, name string) {
	if form := iscsiNames[name[:min(3, len(name))]]; form == nil || !form.MatchString(name) {
		v.Invalid(p, name, "must be valid format")
	}
}
