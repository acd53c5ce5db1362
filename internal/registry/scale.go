package registry

import (
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// scaleKind is the type of every subresource "scale".
var scaleKind = &Kind{
	GVK:        autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
	Resource:   "scale",
	Namespaced: true,
	New:        func() runtime.Object { return &autoscalingv1.Scale{} },
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Description: metaDoc["name"]},
		{Name: "Desired", Type: "integer", Description: autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]},
		{Name: "Available", Type: "integer", Description: autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]},
		ageColumn,
	},
	Row: func(obj runtime.Object, now time.Time) []any {
		s := obj.(*autoscalingv1.Scale)
		return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), age(s.CreationTimestamp, now)}
	},
}

// scalePart is the subresource "scale" of a kind: read tells how many replicas are wanted, how many there are, and which labels they
// have; write sets how many are wanted.
func scalePart[T runtime.Object](read func(obj T) (wanted, have int32, selector string), write func(obj T, wanted int32)) Part {
	return Part{
		Kind: scaleKind,
		Path: "spec.replicas",
		Of: func(obj runtime.Object) runtime.Object {
			m := accessor(obj)
			s := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
				Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
				CreationTimestamp: m.GetCreationTimestamp(),
			}}
			s.SetGroupVersionKind(scaleKind.GVK)
			s.Spec.Replicas, s.Status.Replicas, s.Status.Selector = read(obj.(T))
			return s
		},
		Into: func(part, obj runtime.Object) { write(obj.(T), part.(*autoscalingv1.Scale).Spec.Replicas) },
		Validate: func(part runtime.Object) field.ErrorList {
			var e check.Errors
			e.Add(metav1validation.ValidateManagedFields(part.(*autoscalingv1.Scale).ManagedFields, metaPath.Child("managedFields")))
			e.NonNegative(specPath.Child("replicas"), int64(part.(*autoscalingv1.Scale).Spec.Replicas))
			return e.List()
		},
	}
}
