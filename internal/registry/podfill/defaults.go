// Package podfill fills what the author of a pod's spec left out, and drops what a feature gate switches off. It is pure, and
// idempotent: filling twice changes nothing.
package podfill

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podspec"
)

// DefaultPod fills what a pod's author left out. It is idempotent.
func DefaultPod(pod *v1.Pod) {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	for c, kind := range podspec.Containers(&pod.Spec) {
		if kind != podspec.Ephemeral {
			requestsFromLimits(&c.Resources)
		}
	}
	setIfNil(&pod.Spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	if pod.Spec.HostNetwork {
		for c, kind := range podspec.Containers(&pod.Spec) {
			if kind != podspec.Ephemeral {
				hostPorts(c.Ports)
			}
		}
	}
	Default(&pod.Spec)
	syncPodIPs(&pod.Status)
	check.RoundUp(pod.Status.AllocatedResources)
	roundRequirements(pod.Status.Resources)
	for _, statuses := range [][]v1.ContainerStatus{
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			check.RoundUp(statuses[i].AllocatedResources)
			roundRequirements(statuses[i].Resources)
		}
	}
}

// syncPodIPs keeps the one address and the list of addresses together; the one address is older and wins.
func syncPodIPs(s *v1.PodStatus) {
	switch {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []v1.PodIP{{IP: s.PodIP}}
	}
}

// Default fills a spec wherever it stands: what DefaultPod does beyond this is for pods alone.
func Default(spec *v1.PodSpec) {
	setIfZero(&spec.DNSPolicy, v1.DNSClusterFirst)
	setIfZero(&spec.RestartPolicy, v1.RestartPolicyAlways)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &v1.PodSecurityContext{}
	}
	setIfNil(&spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	setIfZero(&spec.SchedulerName, v1.DefaultSchedulerName)
	// The two names of the service account are one field, and one value wins.
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName

	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for c := range podspec.Containers(spec) {
		defaultContainer(c)
	}
	check.RoundUp(spec.Overhead)
	roundRequirements(spec.Resources)
}

func defaultContainer(c *v1.Container) {
	setIfZero(&c.ImagePullPolicy, pullPolicy(c.Image))
	setIfZero(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	setIfZero(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range c.Ports {
		setIfZero(&c.Ports[i].Protocol, v1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				setIfNil(&from.FileKeyRef.Optional, false)
			}
		}
	}
	roundRequirements(&c.Resources)
	for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			defaultProbe(p)
		}
	}
	if l := c.Lifecycle; l != nil {
		for _, h := range []*v1.LifecycleHandler{l.PostStart, l.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

func defaultProbe(p *v1.Probe) {
	setIfZero(&p.TimeoutSeconds, 1)
	setIfZero(&p.PeriodSeconds, 10)
	setIfZero(&p.SuccessThreshold, 1)
	setIfZero(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setIfNil(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(h *v1.HTTPGetAction) {
	if h == nil {
		return
	}
	setIfZero(&h.Path, "/")
	setIfZero(&h.Scheme, v1.URISchemeHTTP)
}

func defaultFieldRef(r *v1.ObjectFieldSelector) {
	if r != nil {
		setIfZero(&r.APIVersion, "v1")
	}
}

func defaultVolume(v *v1.Volume) {
	if v.VolumeSource == (v1.VolumeSource{}) {
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		setIfNil(&v.HostPath.Type, v1.HostPathUnset)
	}
	if v.Secret != nil {
		setIfNil(&v.Secret.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		setIfNil(&v.ConfigMap.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		setIfNil(&v.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
		for i := range v.DownwardAPI.Items {
			defaultFieldRef(v.DownwardAPI.Items[i].FieldRef)
		}
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claim := &v.Ephemeral.VolumeClaimTemplate.Spec
		setIfNil(&claim.VolumeMode, v1.PersistentVolumeFilesystem)
		check.RoundUp(claim.Resources.Limits)
		check.RoundUp(claim.Resources.Requests)
	}
	if v.Image != nil {
		setIfZero(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	defaultDisks(v)
}

func defaultProjected(p *v1.ProjectedVolumeSource) {
	setIfNil(&p.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		s := &p.Sources[i]
		if s.DownwardAPI != nil {
			for j := range s.DownwardAPI.Items {
				defaultFieldRef(s.DownwardAPI.Items[j].FieldRef)
			}
		}
		if s.ServiceAccountToken != nil {
			setIfNil(&s.ServiceAccountToken.ExpirationSeconds, int64(time.Hour/time.Second))
		}
	}
}

// defaultDisks fills the sources of network disks, most of which no node implements in-tree any more.
func defaultDisks(v *v1.Volume) {
	if v.ISCSI != nil {
		setIfZero(&v.ISCSI.ISCSIInterface, "default")
	}
	if v.RBD != nil {
		setIfZero(&v.RBD.RBDPool, "rbd")
		setIfZero(&v.RBD.RadosUser, "admin")
		setIfZero(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	if d := v.AzureDisk; d != nil {
		setIfNil(&d.CachingMode, v1.AzureDataDiskCachingReadWrite)
		setIfNil(&d.Kind, v1.AzureSharedBlobDisk)
		setIfNil(&d.FSType, "ext4")
		setIfNil(&d.ReadOnly, false)
	}
	if v.ScaleIO != nil {
		setIfZero(&v.ScaleIO.StorageMode, "ThinProvisioned")
		setIfZero(&v.ScaleIO.FSType, "xfs")
	}
}

// hostPorts: with the host's network a container's port is the host's.
func hostPorts(ports []v1.ContainerPort) {
	for i := range ports {
		setIfZero(&ports[i].HostPort, ports[i].ContainerPort)
	}
}

func roundRequirements(r *v1.ResourceRequirements) {
	if r != nil {
		check.RoundUp(r.Limits)
		check.RoundUp(r.Requests)
	}
}

func setIfZero[T comparable](f *T, v T) {
	var zero T
	if *f == zero {
		*f = v
	}
}

func setIfNil[T any](f **T, v T) {
	if *f == nil {
		*f = &v
	}
}

// DefaultPersistent fills the source of a PersistentVolume, as that of a pod's volume.
func DefaultPersistent(s *v1.PersistentVolumeSource) {
	if s.HostPath != nil {
		setIfNil(&s.HostPath.Type, v1.HostPathUnset)
	}
	if s.ISCSI != nil {
		setIfZero(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.RBD != nil {
		setIfZero(&s.RBD.RBDPool, "rbd")
		setIfZero(&s.RBD.RadosUser, "admin")
		setIfZero(&s.RBD.Keyring, "/etc/ceph/keyring")
	}
	if s.ScaleIO != nil {
		setIfZero(&s.ScaleIO.StorageMode, "ThinProvisioned")
		setIfZero(&s.ScaleIO.FSType, "xfs")
	}
	defaultDisks(&v1.Volume{VolumeSource: v1.VolumeSource{AzureDisk: s.AzureDisk}})
}
