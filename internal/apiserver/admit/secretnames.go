package admit

import v1 "k8s.io/api/core/v1"

// refersToSecrets tells whether a pod names any Secret.
func refersToSecrets(pod *v1.Pod) bool {
	for i := range pod.Spec.ImagePullSecrets {
		if pod.Spec.ImagePullSecrets[i].Name != "" {
			return true
		}
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if environmentOfSecrets(list[i].Env, list[i].EnvFrom) {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; environmentOfSecrets(c.Env, c.EnvFrom) {
			return true
		}
	}
	for i := range pod.Spec.Volumes {
		if volumeOfSecret(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

func environmentOfSecrets(env []v1.EnvVar, from []v1.EnvFromSource) bool {
	for i := range env {
		if f := env[i].ValueFrom; f != nil && f.SecretKeyRef != nil && f.SecretKeyRef.Name != "" {
			return true
		}
	}
	for i := range from {
		if s := from[i].SecretRef; s != nil && s.Name != "" {
			return true
		}
	}
	return false
}

func volumeOfSecret(v *v1.Volume) bool {
	local := func(r *v1.LocalObjectReference) bool { return r != nil && r.Name != "" }
	switch {
	case v.Secret != nil:
		return v.Secret.SecretName != ""
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if s := v.Projected.Sources[i].Secret; s != nil && s.Name != "" {
				return true
			}
		}
	case v.AzureFile != nil:
		return v.AzureFile.SecretName != ""
	case v.CephFS != nil:
		return local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return local(v.FlexVolume.SecretRef)
	case v.RBD != nil:
		return local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		return local(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		return local(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		return local(v.StorageOS.SecretRef)
	case v.CSI != nil:
		return local(v.CSI.NodePublishSecretRef)
	}
	return false
}
