package registry

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

func leaseKind() *Kind {
	return &Kind{
		GVK:        coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Resource:   "leases",
		Singular:   "lease",
		Namespaced: true,
		Dir:        "leases",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &coordinationv1.Lease{} },
		NewList:    func() runtime.Object { return &coordinationv1.LeaseList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Selectable: metaFields,
		Columns:    nameAge,
		Row:        nameAgeRow,
	}
}
