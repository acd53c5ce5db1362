package registry

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/gate"
	"podo.dev/podo/internal/registry/podobject"
	"podo.dev/podo/internal/registry/storageobject"
)

func statefulSetKind() *Kind {
	of := func(obj runtime.Object) *appsv1.StatefulSet { return obj.(*appsv1.StatefulSet) }
	return &Kind{
		GVK:        appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		Resource:   "statefulsets",
		Singular:   "statefulset",
		ShortNames: []string{"sts"},
		Categories: []string{"all"},
		Namespaced: true,
		Dir:        "statefulsets",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &appsv1.StatefulSet{} },
		NewList:    func() runtime.Object { return &appsv1.StatefulSetList{} },
		ValidName:  apivalidation.NameIsDNSLabel,
		Default:    func(obj runtime.Object) { defaultStatefulSet(of(obj)) },
		Types:      func(obj runtime.Object) { claimTypes(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Status = appsv1.StatefulSetStatus{}
			of(obj).Generation = 1
			podobject.DropTemplate(&of(obj).Spec.Template, nil)
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateStatefulSet(of(obj)) },
		Warnings: func(obj runtime.Object) []string {
			return append(podobject.TemplateWarnings(&of(obj).Spec.Template, specPath.Child("template")), statefulSetWarnings(of(obj), "")...)
		},
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					s, was := of(obj), of(old)
					s.Status = *was.Status.DeepCopy()
					podobject.DropTemplate(&s.Spec.Template, &was.Spec.Template)
					if !equality.Semantic.DeepEqual(s.Spec, was.Spec) {
						s.Generation = was.Generation + 1
					}
				},
				Validate: func(obj, old runtime.Object) field.ErrorList { return validateStatefulSetUpdate(of(obj), of(old)) },
				Warnings: func(obj, old runtime.Object) []string {
					var out []string
					if of(obj).Generation != of(old).Generation {
						out = podobject.TemplateWarnings(&of(obj).Spec.Template, specPath.Child("template"))
					}
					return append(out, statefulSetWarnings(of(obj), "Spec")...)
				},
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare: func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return validateStatefulSetStatus(&of(obj).Status, &of(old).Status)
				},
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Parts: map[string]Part{"scale": scalePart(
			func(s *appsv1.StatefulSet) (wanted, have int32, selector string) {
				return valueOr(s.Spec.Replicas, 0), s.Status.Replicas, selectorText(s.Spec.Selector)
			},
			func(s *appsv1.StatefulSet, wanted int32) { s.Spec.Replicas = &wanted },
		)},
		Selectable: metaFields,
		Columns: append([]metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Ready", Type: "string", Description: "Number of the pod with ready state"},
			ageColumn,
		}, wideColumns("")[:2]...), // without the selector
		Row: func(obj runtime.Object, now time.Time) []any {
			s := of(obj)
			names, images := podobject.Containers(&s.Spec.Template.Spec)
			return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, valueOr(s.Spec.Replicas, 0)), age(s.CreationTimestamp, now), names, images}
		},
	}
}

func defaultStatefulSet(s *appsv1.StatefulSet) {
	podobject.DefaultTemplate(&s.Spec.Template)
	if s.Spec.PodManagementPolicy == "" {
		s.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	u := &s.Spec.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if u.RollingUpdate == nil {
			u.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if r := u.RollingUpdate; r != nil {
		if r.Partition == nil { // upstream's own type has zero where none is said, whatever the strategy
			r.Partition = new(int32(0))
		}
		if gate.MaxUnavailableStatefulSet && u.Type == appsv1.RollingUpdateStatefulSetStrategyType && r.MaxUnavailable == nil {
			r.MaxUnavailable = new(intstr.FromInt32(1))
		}
	}
	p := s.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		p = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
		s.Spec.PersistentVolumeClaimRetentionPolicy = p
	}
	for _, when := range []*appsv1.PersistentVolumeClaimRetentionPolicyType{&p.WhenDeleted, &p.WhenScaled} {
		if *when == "" {
			*when = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
		}
	}
	if s.Spec.Replicas == nil {
		s.Spec.Replicas = new(int32(1))
	}
	if s.Spec.RevisionHistoryLimit == nil {
		s.Spec.RevisionHistoryLimit = new(int32(10))
	}
	for i := range s.Spec.VolumeClaimTemplates {
		storageobject.DefaultClaim(&s.Spec.VolumeClaimTemplates[i])
	}
	claimTypes(s)
}

func claimTypes(s *appsv1.StatefulSet) {
	for i := range s.Spec.VolumeClaimTemplates {
		c := &s.Spec.VolumeClaimTemplates[i]
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
	}
}

// statefulSetWarnings tells what is accepted but unwise, the template apart; below is where upstream looks for a claim's spec.
func statefulSetWarnings(s *appsv1.StatefulSet, below string) (out []string) {
	for i := range s.Spec.VolumeClaimTemplates {
		p := specPath.Child("volumeClaimTemplates").Index(i)
		if below != "" {
			p = p.Child(below)
		}
		out = append(out, storageobject.SizeWarnings(&s.Spec.VolumeClaimTemplates[i].Spec, p)...)
	}
	if n := s.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		out = append(out, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
}

// claimVolumes is a template with the volumes that its set's claims become, as its pods will have them, and without what they get from
// the set.
func claimVolumes(s *appsv1.StatefulSet) *v1.PodTemplateSpec {
	t := s.Spec.Template.DeepCopy()
	t.Spec.Subdomain, t.Spec.Hostname = "", ""
	if len(s.Spec.VolumeClaimTemplates) == 0 {
		return t
	}
	claimed := map[string]bool{}
	var volumes []v1.Volume
	for _, c := range s.Spec.VolumeClaimTemplates {
		if claimed[c.Name] {
			continue
		}
		claimed[c.Name] = true
		volumes = append(volumes, v1.Volume{Name: c.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name},
		}})
	}
	for _, v := range t.Spec.Volumes {
		if !claimed[v.Name] {
			volumes = append(volumes, v)
		}
	}
	t.Spec.Volumes = volumes
	return t
}
