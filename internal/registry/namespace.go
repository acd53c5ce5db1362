package registry

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func namespaceKind() *Kind {
	of := func(obj runtime.Object) *v1.Namespace { return obj.(*v1.Namespace) }
	return &Kind{
		GVK:              v1.SchemeGroupVersion.WithKind("Namespace"),
		Resource:         "namespaces",
		Singular:         "namespace",
		ShortNames:       []string{"ns"},
		Dir:              "namespaces",
		Verbs:            noCollectionVerbs,
		ReturnsDeleted:   true,
		DeletedIsStatus:  true,
		New:              func() runtime.Object { return &v1.Namespace{} },
		NewList:          func() runtime.Object { return &v1.NamespaceList{} },
		ValidName:        apivalidation.ValidateNamespaceName,
		Default:          func(obj runtime.Object) { defaultNamespace(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) { prepareNamespace(of(obj)) },
		Validate:         func(obj runtime.Object) field.ErrorList { return namespaceFinalizers(of(obj), false) },
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Spec.Finalizers = of(old).Spec.Finalizers
					of(obj).Status = of(old).Status
				},
				Validate:           func(obj, _ runtime.Object) field.ErrorList { return namespaceFinalizers(of(obj), false) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Spec = of(old).Spec },
				Validate:           func(obj, _ runtime.Object) field.ErrorList { return validateNamespaceStatus(of(obj)) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
			// finalize is how a namespace lets go of the last thing that holds it.
			"finalize": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Status = of(old).Status },
				Validate:           func(obj, _ runtime.Object) field.ErrorList { return namespaceFinalizers(of(obj), true) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
				PutOnly:            true,
			},
		},
		Selectable: func(obj runtime.Object) fields.Set {
			// "name" is upstream's, from before there was metadata.name.
			return with(clusterFields(obj), "name", of(obj).Name, "status.phase", string(of(obj).Status.Phase))
		},
		Columns: []metav1.TableColumnDefinition{
			nameColumn, {Name: "Status", Type: "string", Description: "The status of the namespace"}, ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			return []any{of(obj).Name, string(of(obj).Status.Phase), age(of(obj).CreationTimestamp, now)}
		},
	}
}

// defaultNamespace labels it with its own name, so that selectors can name it. A generated name comes later, and then again here.
func defaultNamespace(ns *v1.Namespace) {
	if ns.Name != "" {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[v1.LabelMetadataName] = ns.Name
	}
	if ns.Status.Phase == "" {
		ns.Status.Phase = v1.NamespaceActive
	}
}

func prepareNamespace(ns *v1.Namespace) {
	ns.Status = v1.NamespaceStatus{Phase: v1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, v1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, v1.FinalizerKubernetes)
	}
	defaultNamespace(ns)
}

// namespaceFinalizers checks their names. Upstream tells which of them is wrong on the subresource finalize only.
func namespaceFinalizers(ns *v1.Namespace, indexed bool) field.ErrorList {
	var e check.Errors
	for i, f := range ns.Spec.Finalizers {
		p := specPath.Child("finalizers")
		if indexed {
			p = p.Index(i)
		}
		e.Add(apivalidation.ValidateFinalizerName(string(f), p))
		e.StandardFinalizer(p, string(f))
	}
	return e.List()
}

func validateNamespaceStatus(ns *v1.Namespace) field.ErrorList {
	var e check.Errors
	p, phase := statusPath.Child("Phase"), ns.Status.Phase
	switch going := !ns.DeletionTimestamp.IsZero(); {
	case !going && phase != v1.NamespaceActive:
		e.Invalid(p, phase, "may only be 'Active' if `deletionTimestamp` is empty")
	case going && phase != v1.NamespaceTerminating:
		e.Invalid(p, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
	}
	return e.List()
}
