package podfill

import (
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/gate"
	"podo.dev/podo/internal/registry/podspec"
)

// Drop removes from the spec what a switched-off gate guards, unless the stored spec (nil on create) already has it: what is
// in use stays editable. It is safe on specs that were never defaulted.
func Drop(spec, old *v1.PodSpec) {
	if old == nil {
		old = &v1.PodSpec{}
	}
	for _, g := range guarded {
		if !g.on && !g.inUse(old) {
			g.drop(spec)
		}
	}
}

// guarded lists the fields of a pod's spec behind gates that are off, each with how to tell that it is used. Gates that are on
// need no line; turning one off in package gate means adding one here.
var guarded = []struct {
	on    bool
	inUse func(*v1.PodSpec) bool
	drop  func(*v1.PodSpec)
}{
	{
		gate.PodLevelResources,
		func(s *v1.PodSpec) bool {
			return s.Resources != nil && len(s.Resources.Requests)+len(s.Resources.Limits) > 0
		},
		func(s *v1.PodSpec) { s.Resources = nil },
	},
	{
		gate.GenericWorkload,
		func(s *v1.PodSpec) bool { return s.SchedulingGroup != nil },
		func(s *v1.PodSpec) { s.SchedulingGroup = nil },
	},
	{
		gate.EvictionRequestAPI,
		func(s *v1.PodSpec) bool { return len(s.EvictionResponders) > 0 },
		func(s *v1.PodSpec) { s.EvictionResponders = nil },
	},
	{
		gate.HostnameOverride,
		func(s *v1.PodSpec) bool { return s.HostnameOverride != nil },
		func(s *v1.PodSpec) { s.HostnameOverride = nil },
	},
	{
		gate.ContainerStopSignals,
		podspec.AnyContainer(func(c *v1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.StopSignal != nil }),
		podspec.EachContainer(func(c *v1.Container) {
			if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
				return
			}
			c.Lifecycle.StopSignal = nil
			if *c.Lifecycle == (v1.Lifecycle{}) {
				c.Lifecycle = nil
			}
		}),
	},
	{
		gate.H2CContainerProbe,
		podspec.AnyHTTPGet(func(h *v1.HTTPGetAction) bool { return h.Protocol != nil }),
		podspec.EachHTTPGet(func(h *v1.HTTPGetAction) { h.Protocol = nil }),
	},
	{
		gate.GRPCContainerProbeTLS,
		podspec.AnyProbe(func(p *v1.Probe) bool { return p.GRPC != nil && p.GRPC.Mode != nil }),
		podspec.EachProbe(func(p *v1.Probe) {
			if p.GRPC != nil {
				p.GRPC.Mode = nil
			}
		}),
	},
	{
		gate.VolumeBindMountOptions,
		podspec.AnyContainer(func(c *v1.Container) bool {
			for i := range c.VolumeMounts {
				if len(c.VolumeMounts[i].BindMountOptions) > 0 {
					return true
				}
			}
			return false
		}),
		podspec.EachContainer(func(c *v1.Container) {
			for i := range c.VolumeMounts {
				c.VolumeMounts[i].BindMountOptions = nil
			}
		}),
	},
	{
		gate.EmptyDirVolumeMode,
		podspec.AnyVolume(func(v *v1.Volume) bool { return v.EmptyDir != nil && v.EmptyDir.Mode != nil }),
		podspec.EachVolume(func(v *v1.Volume) {
			if v.EmptyDir != nil {
				v.EmptyDir.Mode = nil
			}
		}),
	},
	{
		gate.ClusterTrustBundleProjection,
		podspec.AnySource(func(s *v1.VolumeProjection) bool { return s.ClusterTrustBundle != nil }),
		podspec.EachSource(func(s *v1.VolumeProjection) { s.ClusterTrustBundle = nil }),
	},
	{
		gate.PodCertificateProjection,
		podspec.AnySource(func(s *v1.VolumeProjection) bool { return s.PodCertificate != nil }),
		podspec.EachSource(func(s *v1.VolumeProjection) { s.PodCertificate = nil }),
	},
	{
		gate.AtomicWriteVolumeUserFields,
		podspec.AnyVolume(func(v *v1.Volume) bool {
			for _, u := range fileOwners(v) {
				if *u != nil {
					return true
				}
			}
			return false
		}),
		podspec.EachVolume(func(v *v1.Volume) {
			for _, u := range fileOwners(v) {
				*u = nil
			}
		}),
	},
}

// fileOwners points at every field of a volume that names the user who owns a file. Where more than one type is given, which is
// refused later, the first in this order counts, as upstream.
func fileOwners(v *v1.Volume) []**int64 {
	var out []**int64
	keys := func(items []v1.KeyToPath) {
		for i := range items {
			out = append(out, &items[i].User)
		}
	}
	files := func(items []v1.DownwardAPIVolumeFile) {
		for i := range items {
			out = append(out, &items[i].User)
		}
	}
	switch {
	case v.Secret != nil:
		out = append(out, &v.Secret.DefaultUser)
		keys(v.Secret.Items)
	case v.ConfigMap != nil:
		out = append(out, &v.ConfigMap.DefaultUser)
		keys(v.ConfigMap.Items)
	case v.DownwardAPI != nil:
		out = append(out, &v.DownwardAPI.DefaultUser)
		files(v.DownwardAPI.Items)
	case v.Projected != nil:
		out = append(out, &v.Projected.DefaultUser)
		for i := range v.Projected.Sources {
			switch s := &v.Projected.Sources[i]; {
			case s.Secret != nil:
				keys(s.Secret.Items)
			case s.DownwardAPI != nil:
				files(s.DownwardAPI.Items)
			case s.ConfigMap != nil:
				keys(s.ConfigMap.Items)
			case s.ServiceAccountToken != nil:
				out = append(out, &s.ServiceAccountToken.User)
			case s.ClusterTrustBundle != nil:
				out = append(out, &s.ClusterTrustBundle.User)
			case s.PodCertificate != nil:
				out = append(out, &s.PodCertificate.User)
			}
		}
	}
	return out
}
