package eviction

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Limited tells whether anything limits what the pod may write to the node's disk. While the node is well, only such pods are
// measured.
func Limited(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		if e := p.Spec.Volumes[i].EmptyDir; e != nil && e.Medium != v1.StorageMediumMemory && e.SizeLimit != nil && e.SizeLimit.Sign() > 0 {
			return true
		}
	}
	limits := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})
	if _, ok := limits[v1.ResourceEphemeralStorage]; ok {
		return true
	}
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if q := list[i].Resources.Limits.StorageEphemeral(); q.Sign() > 0 {
				return true
			}
		}
	}
	return false
}

// Exceeded says in upstream's words which limit of local storage the pod has exceeded; "" for none. Volumes are checked first,
// then the pod as a whole, then its containers. Volumes in memory are limited by the kernel. With apart (the runtime has a file
// system of its own) a container's root file system counts for the pod and not for the container.
func Exceeded(p *v1.Pod, u Usage, apart bool) (Signal, string) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.Medium == v1.StorageMediumMemory || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		if u.Volumes[v.Name].Bytes+u.Pages[v.Name] > v.EmptyDir.SizeLimit.Value() {
			return emptyDirLimit, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String())
		}
	}
	limits := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})
	if limit, ok := limits[v1.ResourceEphemeralStorage]; ok && u.files(All).Bytes > limit.Value() {
		return podLimit, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
	}
	check := func(c *v1.Container) string {
		used := u.Containers[c.Name].Logs.Bytes
		if !apart {
			used += u.Containers[c.Name].RootFS.Bytes
		}
		if limit := c.Resources.Limits.StorageEphemeral(); limit.Sign() > 0 && used > limit.Value() {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
		return ""
	}
	for i := range p.Spec.Containers {
		if text := check(&p.Spec.Containers[i]); text != "" {
			return containerLimit, text
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways {
			continue
		}
		if text := check(c); text != "" {
			return containerLimit, text
		}
	}
	return "", ""
}
