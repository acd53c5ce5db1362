package podspec

import (
	"net"
	"path"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// given checks that a text is not empty.
func (v *validator) given(p *field.Path, s string) {
	if s == "" {
		v.Required(p, "")
	}
}

// diskSources are the types of network disks. Most are served by CSI drivers today or by nothing, and still checked.
var diskSources = []sourceCheck{
	{"gitRepo", "", func(vol *v1.Volume) bool { return vol.GitRepo != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "repository"), vol.GitRepo.Repository)
		v.RelativePath(child(p, "directory"), vol.GitRepo.Directory)
	}},
	{"gcePersistentDisk", "persistentDisk", func(vol *v1.Volume) bool { return vol.GCEPersistentDisk != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "pdName"), vol.GCEPersistentDisk.PDName)
		v.partition(child(p, "partition"), vol.GCEPersistentDisk.Partition)
	}},
	{"awsElasticBlockStore", "", func(vol *v1.Volume) bool { return vol.AWSElasticBlockStore != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "volumeID"), vol.AWSElasticBlockStore.VolumeID)
		v.partition(child(p, "partition"), vol.AWSElasticBlockStore.Partition)
	}},
	{"nfs", "", func(vol *v1.Volume) bool { return vol.NFS != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "server"), vol.NFS.Server)
		v.given(child(p, "path"), vol.NFS.Path)
		if !path.IsAbs(vol.NFS.Path) {
			v.Invalid(child(p, "path"), vol.NFS.Path, "must be an absolute path")
		}
	}},
	{"iscsi", "", func(vol *v1.Volume) bool { return vol.ISCSI != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.iscsi(p, vol.ISCSI) }},
	{"glusterfs", "", func(vol *v1.Volume) bool { return vol.Glusterfs != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "endpoints"), vol.Glusterfs.EndpointsName)
		v.given(child(p, "path"), vol.Glusterfs.Path)
	}},
	{"flocker", "", func(vol *v1.Volume) bool { return vol.Flocker != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.flocker(p, vol.Flocker) }},
	{"rbd", "", func(vol *v1.Volume) bool { return vol.RBD != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		if len(vol.RBD.CephMonitors) == 0 {
			v.Required(child(p, "monitors"), "")
		}
		v.given(child(p, "image"), vol.RBD.RBDImage)
	}},
	{"cinder", "", func(vol *v1.Volume) bool { return vol.Cinder != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "volumeID"), vol.Cinder.VolumeID)
		v.secretRef(p, vol.Cinder.SecretRef)
	}},
	{"cephFS", "cephfs", func(vol *v1.Volume) bool { return vol.CephFS != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		if len(vol.CephFS.Monitors) == 0 {
			v.Required(child(p, "monitors"), "")
		}
	}},
	{"quobyte", "", func(vol *v1.Volume) bool { return vol.Quobyte != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.quobyte(p, vol.Quobyte) }},
	{"fc", "", func(vol *v1.Volume) bool { return vol.FC != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.fibreChannel(p, vol.FC) }},
	{"flexVolume", "", func(vol *v1.Volume) bool { return vol.FlexVolume != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.flexVolume(p, vol.FlexVolume) }},
	{"azureFile", "", func(vol *v1.Volume) bool { return vol.AzureFile != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "secretName"), vol.AzureFile.SecretName)
		v.given(child(p, "shareName"), vol.AzureFile.ShareName)
	}},
	{"vsphereVolume", "", func(vol *v1.Volume) bool { return vol.VsphereVolume != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "volumePath"), vol.VsphereVolume.VolumePath)
	}},
	{"photonPersistentDisk", "", func(vol *v1.Volume) bool { return vol.PhotonPersistentDisk != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "pdID"), vol.PhotonPersistentDisk.PdID)
	}},
	{"portworxVolume", "", func(vol *v1.Volume) bool { return vol.PortworxVolume != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "volumeID"), vol.PortworxVolume.VolumeID)
	}},
	{"azureDisk", "", func(vol *v1.Volume) bool { return vol.AzureDisk != nil }, func(v *validator, p *field.Path, vol *v1.Volume) { v.azureDisk(p, vol.AzureDisk) }},
	{"storageos", "", func(vol *v1.Volume) bool { return vol.StorageOS != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		s := vol.StorageOS
		if v.given(child(p, "volumeName"), s.VolumeName); s.VolumeName != "" {
			v.DNSLabel(child(p, "volumeName"), s.VolumeName)
		}
		if s.VolumeNamespace != "" {
			v.DNSLabel(child(p, "volumeNamespace"), s.VolumeNamespace)
		}
		v.secretRef(p, s.SecretRef)
	}},
	{"scaleIO", "", func(vol *v1.Volume) bool { return vol.ScaleIO != nil }, func(v *validator, p *field.Path, vol *v1.Volume) {
		v.given(child(p, "gateway"), vol.ScaleIO.Gateway)
		v.given(child(p, "system"), vol.ScaleIO.System)
		v.given(child(p, "volumeName"), vol.ScaleIO.VolumeName)
	}},
}

func (v *validator) secretRef(p *field.Path, r *v1.LocalObjectReference) {
	if r != nil {
		v.given(child(child(p, "secretRef"), "name"), r.Name)
	}
}

func (v *validator) partition(p *field.Path, n int32) {
	if n < 0 || n > 255 {
		v.Invalid(p, n, validation.InclusiveRangeError(1, 255))
	}
}

// iscsiNames are the three forms of an initiator's or target's name, by prefix.
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

func (v *validator) iscsiName(p *field.Path, name string) {
	form := iscsiNames[name[:min(3, len(name))]]
	if form == nil {
		v.Invalid(p, name, "must be valid format starting with iqn, eui, or naa")
	} else if !form.MatchString(name) {
		v.Invalid(p, name, "must be valid format")
	}
}

func (v *validator) iscsi(p *field.Path, s *v1.ISCSIVolumeSource) {
	v.given(child(p, "targetPortal"), s.TargetPortal)
	if s.IQN == "" {
		v.Required(child(p, "iqn"), "")
	} else {
		v.iscsiName(child(p, "iqn"), s.IQN)
	}
	if s.Lun < 0 || s.Lun > 255 {
		v.Invalid(child(p, "lun"), s.Lun, validation.InclusiveRangeError(0, 255))
	}
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		v.Required(child(p, "secretRef"), "")
	}
	if s.InitiatorName != nil {
		v.iscsiName(child(p, "initiatorname"), *s.InitiatorName)
	}
}

func (v *validator) flocker(p *field.Path, s *v1.FlockerVolumeSource) {
	switch {
	case s.DatasetName == "" && s.DatasetUUID == "":
		v.Required(p, "one of datasetName and datasetUUID is required")
	case s.DatasetName != "" && s.DatasetUUID != "":
		v.Invalid(p, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(s.DatasetName, "/") {
		v.Invalid(child(p, "datasetName"), s.DatasetName, "must not contain '/'")
	}
}

func (v *validator) quobyte(p *field.Path, s *v1.QuobyteVolumeSource) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	switch {
	case s.Registry == "":
		v.Required(child(p, "registry"), pairs)
	case len(s.Tenant) >= 65:
		v.Required(child(p, "tenant"), "must be a UUID and may not exceed a length of 64 characters")
	default:
		for _, pair := range strings.Split(s.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				v.Invalid(child(p, "registry"), s.Registry, pairs)
			}
		}
	}
	v.given(child(p, "volume"), s.Volume)
}

func (v *validator) fibreChannel(p *field.Path, s *v1.FCVolumeSource) {
	if len(s.TargetWWNs) == 0 && len(s.WWIDs) == 0 {
		v.Required(child(p, "targetWWNs"), "must specify either targetWWNs or wwids, but not both")
	}
	if len(s.TargetWWNs) > 0 && len(s.WWIDs) > 0 {
		v.Invalid(child(p, "targetWWNs"), s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if len(s.TargetWWNs) == 0 {
		return
	}
	if s.Lun == nil {
		v.Required(child(p, "lun"), "lun is required if targetWWNs is specified")
	} else if *s.Lun < 0 || *s.Lun > 255 {
		v.Invalid(child(p, "lun"), s.Lun, validation.InclusiveRangeError(0, 255))
	}
}

func (v *validator) flexVolume(p *field.Path, s *v1.FlexVolumeSource) {
	v.given(child(p, "driver"), s.Driver)
	for _, k := range check.Sorted(s.Options) {
		domain, _, _ := strings.Cut(k, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			v.Invalid(keyed(child(p, "options"), k), k, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func (v *validator) azureDisk(p *field.Path, s *v1.AzureDiskVolumeSource) {
	v.given(child(p, "diskName"), s.DiskName)
	v.given(child(p, "diskURI"), s.DataDiskURI)
	if s.CachingMode != nil {
		check.OneOf(&v.Errors, child(p, "cachingMode"), *s.CachingMode,
			v1.AzureDataDiskCachingNone, v1.AzureDataDiskCachingReadOnly, v1.AzureDataDiskCachingReadWrite)
	}
	if s.Kind == nil {
		return
	}
	check.OneOf(&v.Errors, child(p, "kind"), *s.Kind, v1.AzureDedicatedBlobDisk, v1.AzureManagedDisk, v1.AzureSharedBlobDisk)
	prefix, example := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *s.Kind == v1.AzureManagedDisk {
		prefix = "/subscriptions/"
		example = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(s.DataDiskURI, prefix) {
		v.Put(field.NotSupported(child(p, "diskURI"), s.DataDiskURI, []string{example}))
	}
}

func (v *validator) csiDriver(p *field.Path, name string) {
	if name == "" {
		v.Required(p, "")
		return
	}
	if len(name) > 63 {
		v.TooLong(p, 63)
	}
	v.Each(p, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))
}
