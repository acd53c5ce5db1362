package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// UsesSecret says that a pod refers to a Secret of its namespace in any way that its node has to follow.
func UsesSecret(p *v1.Pod, name string) bool {
	is := func(ref *v1.LocalObjectReference) bool { return ref != nil && ref.Name == name }
	for i := range p.Spec.ImagePullSecrets {
		if p.Spec.ImagePullSecrets[i].Name == name {
			return true
		}
	}
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.Secret != nil && v.Secret.SecretName == name,
			v.AzureFile != nil && v.AzureFile.SecretName == name,
			v.CephFS != nil && is(v.CephFS.SecretRef),
			v.Cinder != nil && is(v.Cinder.SecretRef),
			v.FlexVolume != nil && is(v.FlexVolume.SecretRef),
			v.RBD != nil && is(v.RBD.SecretRef),
			v.ScaleIO != nil && is(v.ScaleIO.SecretRef),
			v.ISCSI != nil && is(v.ISCSI.SecretRef),
			v.StorageOS != nil && is(v.StorageOS.SecretRef),
			v.CSI != nil && is(v.CSI.NodePublishSecretRef):
			return true
		case v.Projected != nil:
			if slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool { return s.Secret != nil && s.Secret.Name == name }) {
				return true
			}
		}
	}
	return anyEnv(p, func(from *v1.EnvFromSource, value *v1.EnvVarSource) bool {
		return from != nil && from.SecretRef != nil && from.SecretRef.Name == name ||
			value != nil && value.SecretKeyRef != nil && value.SecretKeyRef.Name == name
	})
}

// UsesConfigMap says the same of a ConfigMap.
func UsesConfigMap(p *v1.Pod, name string) bool {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.ConfigMap != nil && v.ConfigMap.Name == name {
			return true
		}
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool {
			return s.ConfigMap != nil && s.ConfigMap.Name == name
		}) {
			return true
		}
	}
	return anyEnv(p, func(from *v1.EnvFromSource, value *v1.EnvVarSource) bool {
		return from != nil && from.ConfigMapRef != nil && from.ConfigMapRef.Name == name ||
			value != nil && value.ConfigMapKeyRef != nil && value.ConfigMapKeyRef.Name == name
	})
}

// anyEnv asks is about every source of environment of every container.
func anyEnv(p *v1.Pod, is func(*v1.EnvFromSource, *v1.EnvVarSource) bool) bool {
	check := func(env []v1.EnvVar, from []v1.EnvFromSource) bool {
		for i := range env {
			if env[i].ValueFrom != nil && is(nil, env[i].ValueFrom) {
				return true
			}
		}
		for i := range from {
			if is(&from[i], nil) {
				return true
			}
		}
		return false
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if check(list[i].Env, list[i].EnvFrom) {
				return true
			}
		}
	}
	for i := range p.Spec.EphemeralContainers {
		if c := &p.Spec.EphemeralContainers[i]; check(c.Env, c.EnvFrom) {
			return true
		}
	}
	return false
}
