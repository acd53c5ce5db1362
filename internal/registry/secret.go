package registry

import (
	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

func secretKind() *Kind {
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("Secret"),
		Resource:   "secrets",
		Singular:   "secret",
		Namespaced: true,
		Dir:        "secrets",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &v1.Secret{} },
		NewList:    func() runtime.Object { return &v1.SecretList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Selectable: metaFields,
		Columns:    nameAge,
		Row:        nameAgeRow,
	}
}
