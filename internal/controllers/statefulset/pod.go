package statefulset

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/podset"
)

var kind = podset.Kind{
	Resource: client.Resource{Group: "apps", Resource: "statefulsets"}, GVK: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Selector: selector,
}

// split takes the name of a set's pod apart; the number is -1 when there is none.
func split(name string) (set string, ordinal int) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return "", -1
	}
	for _, c := range name[i+1:] {
		if c < '0' || c > '9' {
			return "", -1
		}
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil {
		n = -1
	}
	return name[:i], int(n)
}

// Ordinal is a pod's number in its set, -1 when it has none.
func Ordinal(pod *v1.Pod) int {
	_, n := split(pod.Name)
	return n
}

// member says that a pod has the name of one of the set's.
func member(set *appsv1.StatefulSet, pod *v1.Pod) bool {
	name, _ := split(pod.Name)
	return name == set.Name
}

// newPod is the set's pod with a number, of the template that it should have now: those below the partition keep the earlier one.
func (r *ranks) newPod(ordinal int) *v1.Pod {
	from := r.Update
	if u := r.Set.Spec.UpdateStrategy; u.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		kept := int(r.Set.Status.CurrentReplicas)
		if u.RollingUpdate != nil {
			kept = 0
			if u.RollingUpdate.Partition != nil {
				kept = int(*u.RollingUpdate.Partition)
			}
		}
		if ordinal < firstOrdinal(r.Set)+kept {
			from = r.Current
		}
	}
	pod := kind.New(r.Set, from.Template)
	pod.Name = fmt.Sprintf("%s-%d", r.Set.Name, ordinal)
	identify(pod, ordinal)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = from.Name
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, r.Set.Spec.ServiceName
	mount(pod, r.Set, ordinal)
	return pod
}

func identify(pod *v1.Pod, ordinal int) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
}

// mount gives a pod its claims as volumes, in the place of others of these names.
func mount(pod *v1.Pod, set *appsv1.StatefulSet, ordinal int) {
	taken := map[string]bool{}
	var volumes []v1.Volume
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		if taken[t.Name] {
			continue
		}
		taken[t.Name] = true
		volumes = append(volumes, v1.Volume{Name: t.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, t, ordinal)},
		}})
	}
	for _, v := range pod.Spec.Volumes {
		if !taken[v.Name] {
			volumes = append(volumes, v)
		}
	}
	pod.Spec.Volumes = volumes
}
