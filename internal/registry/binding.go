package registry

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// bindingKind: a binding is done when it is created, and not kept.
func bindingKind() *Kind {
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("Binding"),
		Resource:   "bindings",
		Singular:   "binding",
		Namespaced: true,
		Verbs:      []string{"create"},
		Unstored:   true,
		New:        func() runtime.Object { return &v1.Binding{} },
		NewList:    func() runtime.Object { return nil },
	}
}
