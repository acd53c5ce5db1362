package registry

import (
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podfill"
	"podo.dev/podo/internal/registry/podobject"
)

func podKind() *Kind {
	of := func(obj runtime.Object) *v1.Pod { return obj.(*v1.Pod) }
	update := func(prepare func(pod, old *v1.Pod), validate func(pod, old *v1.Pod) field.ErrorList) Update {
		return Update{
			Prepare:            func(obj, old runtime.Object) { prepare(of(obj), of(old)) },
			Validate:           func(obj, old runtime.Object) field.ErrorList { return validate(of(obj), of(old)) },
			AllowUnconditional: true,
		}
	}
	status := update(podobject.PrepareStatus, podobject.ValidateStatus)
	status.Resets = []string{"spec", "metadata.deletionTimestamp", "metadata.ownerReferences"}
	status.Warnings = func(obj, _ runtime.Object) []string { return podobject.StatusWarnings(of(obj)) }
	whole := update(podobject.PrepareUpdate, podobject.ValidateUpdate)
	ephemeral := update(podobject.PrepareEphemeral, podobject.ValidateEphemeral)
	resize := update(podobject.PrepareResize, podobject.ValidateResize)
	whole.Resets, ephemeral.Resets, resize.Resets = []string{"status"}, []string{"status"}, []string{"status"}
	core := func(name, kind string, verbs ...string) Subresource {
		return Subresource{Name: name, GVK: v1.SchemeGroupVersion.WithKind(kind), Verbs: verbs}
	}
	return &Kind{
		GVK:              v1.SchemeGroupVersion.WithKind("Pod"),
		Resource:         "pods",
		Singular:         "pod",
		ShortNames:       []string{"po"},
		Categories:       []string{"all"},
		Namespaced:       true,
		Dir:              "pods",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &v1.Pod{} },
		NewList:          func() runtime.Object { return &v1.PodList{} },
		ValidName:        check.ObjectName,
		Default:          func(obj runtime.Object) { podfill.DefaultPod(of(obj)) },
		Outdated:         func(obj runtime.Object) []string { return podobject.Outdated(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) { podobject.PrepareCreate(of(obj)) },
		Validate:         func(obj runtime.Object) field.ErrorList { return podobject.ValidateCreate(of(obj)) },
		Warnings:         func(obj runtime.Object) []string { return podobject.Warnings(of(obj)) },
		Updates: map[string]Update{
			"":                    whole,
			"status":              status,
			"ephemeralcontainers": ephemeral,
			"resize":              resize,
		},
		Graceful:       func(obj runtime.Object, o *metav1.DeleteOptions) int64 { return podobject.Grace(of(obj), o) },
		ReturnsDeleted: true,

		Selectable:    podFields,
		Columns:       podobject.Columns(),
		Row:           func(obj runtime.Object, now time.Time) []any { return podobject.Row(of(obj), now) },
		RowConditions: func(obj runtime.Object) []metav1.TableRowCondition { return podobject.Completed(of(obj)) },
		Indexes: map[string]func(runtime.Object) []string{
			"spec.nodeName": func(obj runtime.Object) []string { return []string{of(obj).Spec.NodeName} },
			ControllerIndex: controlledBy,
			ClaimIndex:      claimsOfPod,
		},
		Subresources: []Subresource{
			core("attach", "PodAttachOptions", "create", "get"),
			core("binding", "Binding", "create"),
			{Name: "eviction", GVK: policyv1.SchemeGroupVersion.WithKind("Eviction"), Verbs: []string{"create"}},
			core("exec", "PodExecOptions", "create", "get"),
			core("log", "Pod", "get"),
			core("portforward", "PodPortForwardOptions", "create", "get"),
			proxyPart("PodProxyOptions"),
		},
	}
}

func podFields(obj runtime.Object) fields.Set {
	pod := obj.(*v1.Pod)
	ip := ""
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
		"status.podIPs", "", // upstream takes it, and knows none of any pod
		"status.nominatedNodeName", pod.Status.NominatedNodeName,
	)
}

// ControllerIndex is the view's index of pods, and of other kinds that have it, by the UID of what controls them; those that nothing
// controls are at Uncontrolled.
const ControllerIndex = "controller"

// Uncontrolled is where the objects of a namespace are that nothing controls.
func Uncontrolled(namespace string) string { return "none in " + namespace }

func controlledBy(obj runtime.Object) []string {
	m := accessor(obj)
	if ref := metav1.GetControllerOfNoCopy(m); ref != nil {
		return []string{string(ref.UID)}
	}
	return []string{Uncontrolled(m.GetNamespace())}
}
