package registry

import (
	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

func namespaceKind() *Kind {
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("Namespace"),
		Resource:   "namespaces",
		Singular:   "namespace",
		ShortNames: []string{"ns"},
		Dir:        "namespaces",
		Verbs:      noCollectionVerbs,
		New:        func() runtime.Object { return &v1.Namespace{} },
		NewList:    func() runtime.Object { return &v1.NamespaceList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Selectable: metaFields,
		Columns:    nameAge,
		Row:        nameAgeRow,
	}
}
