package registry

import (
	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

func configMapKind() *Kind {
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("ConfigMap"),
		Resource:   "configmaps",
		Singular:   "configmap",
		ShortNames: []string{"cm"},
		Namespaced: true,
		Dir:        "configmaps",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &v1.ConfigMap{} },
		NewList:    func() runtime.Object { return &v1.ConfigMapList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Selectable: metaFields,
		Columns:    nameAge,
		Row:        nameAgeRow,
	}
}
