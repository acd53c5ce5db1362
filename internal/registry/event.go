package registry

import (
	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

func eventKind() *Kind {
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("Event"),
		Resource:   "events",
		Singular:   "event",
		ShortNames: []string{"ev"},
		Namespaced: true,
		Dir:        "events",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &v1.Event{} },
		NewList:    func() runtime.Object { return &v1.EventList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Selectable: metaFields,
		Columns:    nameAge,
		Row:        nameAgeRow,
	}
}
