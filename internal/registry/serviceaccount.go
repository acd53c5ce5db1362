package registry

import (
	"time"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// serviceAccountKind has no rules beyond its metadata's.
func serviceAccountKind() *Kind {
	of := func(obj runtime.Object) *v1.ServiceAccount { return obj.(*v1.ServiceAccount) }
	return &Kind{
		GVK:              v1.SchemeGroupVersion.WithKind("ServiceAccount"),
		Resource:         "serviceaccounts",
		Singular:         "serviceaccount",
		ShortNames:       []string{"sa"},
		Namespaced:       true,
		Dir:              "serviceaccounts",
		Verbs:            allVerbs,
		ReturnsDeleted:   true,
		New:              func() runtime.Object { return &v1.ServiceAccount{} },
		NewList:          func() runtime.Object { return &v1.ServiceAccountList{} },
		ValidName:        apivalidation.ValidateServiceAccountName,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(obj runtime.Object) { nameSecretsOnly(of(obj)) },
		Validate:         func(runtime.Object) field.ErrorList { return nil },
		Warnings:         func(obj runtime.Object) []string { return serviceAccountWarnings(of(obj), nil) },
		Updates: map[string]Update{"": {
			Prepare:            func(obj, _ runtime.Object) { nameSecretsOnly(of(obj)) },
			Warnings:           func(obj, old runtime.Object) []string { return serviceAccountWarnings(of(obj), of(old)) },
			AllowUnconditional: true,
		}},
		Subresources: []Subresource{{Name: "token", GVK: tokenRequestGVK, Verbs: []string{"create"}}},
		Selectable:   metaFields,
		Columns:      []metav1.TableColumnDefinition{nameColumn, ageColumn},
		Row: func(obj runtime.Object, now time.Time) []any {
			return []any{of(obj).Name, age(of(obj).CreationTimestamp, now)}
		},
	}
}

// nameSecretsOnly drops all but the names of the secrets referred to: they are in the account's namespace, and of no other kind.
func nameSecretsOnly(s *v1.ServiceAccount) {
	for i := range s.Secrets {
		s.Secrets[i] = v1.ObjectReference{Name: s.Secrets[i].Name}
	}
}

// enforceMountable is the annotation that limits an account's pods to the secrets that it lists.
const enforceMountable = "kubernetes.io/enforce-mountable-secrets"

// serviceAccountWarnings tells of the annotation when it is new; old is nil on create.
func serviceAccountWarnings(s, old *v1.ServiceAccount) []string {
	if old != nil {
		if _, had := old.Annotations[enforceMountable]; had {
			return nil
		}
	}
	if _, has := s.Annotations[enforceMountable]; !has {
		return nil
	}
	return []string{"metadata.annotations[" + enforceMountable + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}
