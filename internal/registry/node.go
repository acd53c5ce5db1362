package registry

import (
	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

func nodeKind() *Kind {
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("Node"),
		Resource:   "nodes",
		Singular:   "node",
		ShortNames: []string{"no"},
		Dir:        "minions",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &v1.Node{} },
		NewList:    func() runtime.Object { return &v1.NodeList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Selectable: metaFields,
		Columns:    nameAge,
		Row:        nameAgeRow,
	}
}
