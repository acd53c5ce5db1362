package node

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

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
