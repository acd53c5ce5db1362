package registry

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

func podKind() *Kind {
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("Pod"),
		Resource:   "pods",
		Categories: []string{"all"},
		Singular:   "pod",
		ShortNames: []string{"po"},
		Namespaced: true,
		Dir:        "pods",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &v1.Pod{} },
		NewList:    func() runtime.Object { return &v1.PodList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Selectable: podFields,
		Columns:    nameAge,
		Row:        nameAgeRow,
		Indexes: map[string]func(runtime.Object) []string{
			"spec.nodeName": func(obj runtime.Object) []string { return []string{obj.(*v1.Pod).Spec.NodeName} },
		},
	}
}

func podFields(obj runtime.Object) fields.Set {
	pod := obj.(*v1.Pod)
	ip := pod.Status.PodIP
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return with(metaFields(obj),
		"spec.nodeName", pod.Spec.NodeName,
		"spec.restartPolicy", string(pod.Spec.RestartPolicy),
		"spec.schedulerName", pod.Spec.SchedulerName,
		"spec.serviceAccountName", pod.Spec.ServiceAccountName,
		"spec.hostNetwork", strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase", string(pod.Status.Phase),
		"status.podIP", ip,
		"status.nominatedNodeName", pod.Status.NominatedNodeName,
	)
}
