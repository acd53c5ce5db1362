package node

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// usesSecret says that a pod refers to a Secret of its namespace in any way that its node has to follow.
func usesSecret(p *v1.Pod, name string) bool {
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

func usesConfigMap(p *v1.Pod, name string) bool {
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

// claimsOf are the names of the PersistentVolumeClaims of a pod's volumes.
func claimsOf(p *v1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range p.Spec.Volumes {
			name := ""
			switch v := &p.Spec.Volumes[i]; {
			case v.PersistentVolumeClaim != nil:
				name = v.PersistentVolumeClaim.ClaimName
			case v.Ephemeral != nil:
				name = p.Name + "-" + v.Name
			}
			if name != "" && !yield(name) {
				return
			}
		}
	}
}

// usesResourceClaim: by name, by a claim that was made for the pod, or by the one for its extended resources.
func usesResourceClaim(p *v1.Pod, name string) bool {
	if x := p.Status.ExtendedResourceClaimStatus; x != nil && x.ResourceClaimName == name {
		return true
	}
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil && *c.ResourceClaimName == name {
			return true
		}
		if c.ResourceClaimTemplateName == nil {
			continue
		}
		for _, s := range p.Status.ResourceClaimStatuses {
			if s.Name == c.Name && s.ResourceClaimName != nil && *s.ResourceClaimName == name {
				return true
			}
		}
	}
	return false
}

// volumeUsesSecret: of a volume's secrets, those that the kubelet needs.
func volumeUsesSecret(v *v1.PersistentVolume, namespace, name string) bool {
	claim := ""
	if v.Spec.ClaimRef != nil {
		claim = v.Spec.ClaimRef.Namespace
	}
	is := func(ref *v1.SecretReference) bool {
		if ref == nil || ref.Name != name {
			return false
		}
		in := ref.Namespace
		if in == "" {
			in = claim
		}
		return in == namespace
	}
	s := &v.Spec.PersistentVolumeSource
	switch {
	case s.AzureFile != nil:
		in := claim
		if s.AzureFile.SecretNamespace != nil {
			in = *s.AzureFile.SecretNamespace
		}
		return s.AzureFile.SecretName == name && in == namespace
	case s.CephFS != nil:
		return is(s.CephFS.SecretRef)
	case s.Cinder != nil:
		return is(s.Cinder.SecretRef)
	case s.FlexVolume != nil:
		return is(s.FlexVolume.SecretRef)
	case s.RBD != nil:
		return is(s.RBD.SecretRef)
	case s.ScaleIO != nil:
		return is(s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		return is(s.ISCSI.SecretRef)
	case s.CSI != nil:
		return is(s.CSI.NodePublishSecretRef) || is(s.CSI.NodeStageSecretRef) || is(s.CSI.NodeExpandSecretRef)
	}
	return false
}
