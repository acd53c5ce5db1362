package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// APIReference names a kind of API object that the pod refers to, "" when it refers to none, in upstream's words. Static pods, which run
// without the API, may refer to none, nor may their mirrors, which would give their node a right to it.
func APIReference(pod *v1.Pod) string {
	if pod.Spec.ServiceAccountName != "" {
		return "serviceaccounts"
	}
	secrets, configMaps := environment(pod)
	switch {
	case secrets || len(pod.Spec.ImagePullSecrets) > 0 || slices.ContainsFunc(pod.Spec.Volumes, secretVolume):
		return "secrets"
	case configMaps || slices.ContainsFunc(pod.Spec.Volumes, configMapVolume):
		return "configmaps"
	case len(pod.Spec.ResourceClaims) > 0:
		return "resourceclaims"
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.CSI != nil:
			return "csidrivers (via CSI volumes)"
		case v.Glusterfs != nil:
			return "endpoints (via glusterFS volumes)"
		case v.PersistentVolumeClaim != nil:
			return "persistentvolumeclaims"
		case v.Ephemeral != nil:
			return "persistentvolumeclaims (via ephemeral volumes)"
		case v.Projected != nil:
			if what := projected(v.Projected.Sources); what != "" {
				return what
			}
		}
	}
	return ""
}

func projected(sources []v1.VolumeProjection) string {
	for i := range sources {
		switch s := &sources[i]; {
		case s.ServiceAccountToken != nil:
			return "serviceaccounts (via projected volumes)"
		case s.ClusterTrustBundle != nil:
			return "clustertrustbundles"
		case s.PodCertificate != nil:
			return "podcertificates"
		}
	}
	return ""
}

func secretVolume(v v1.Volume) bool {
	switch {
	case v.Secret != nil, v.AzureFile != nil,
		v.CephFS != nil && v.CephFS.SecretRef != nil, v.Cinder != nil && v.Cinder.SecretRef != nil,
		v.FlexVolume != nil && v.FlexVolume.SecretRef != nil, v.RBD != nil && v.RBD.SecretRef != nil,
		v.ScaleIO != nil && v.ScaleIO.SecretRef != nil, v.ISCSI != nil && v.ISCSI.SecretRef != nil,
		v.StorageOS != nil && v.StorageOS.SecretRef != nil, v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		return true
	}
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool { return s.Secret != nil })
}

func configMapVolume(v v1.Volume) bool {
	return v.ConfigMap != nil ||
		v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool { return s.ConfigMap != nil })
}

// environment says whether any container's environment comes from Secrets or ConfigMaps.
func environment(pod *v1.Pod) (secrets, configMaps bool) {
	look := func(env []v1.EnvVar, from []v1.EnvFromSource) {
		for _, e := range env {
			secrets = secrets || e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil
			configMaps = configMaps || e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil
		}
		for _, f := range from {
			secrets, configMaps = secrets || f.SecretRef != nil, configMaps || f.ConfigMapRef != nil
		}
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			look(list[i].Env, list[i].EnvFrom)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		look(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom)
	}
	return secrets, configMaps
}
