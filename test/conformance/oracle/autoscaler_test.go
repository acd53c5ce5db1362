package oracle

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"podo.dev/podo/internal/registry"
)

// TestAutoscalersInV1: an autoscaler is the same in v1 on both sides, with the annotations that say there what v1 has no fields for, and
// what is written as v1 is the same in v2.
func TestAutoscalersInV1(t *testing.T) {
	v1 := registry.ByGVK(autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	each(t, func(t *testing.T, k Kind) {
		if k.Podo.GVK != autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler") {
			t.Skip("served in one version")
		}
		m := mutatorFor(t)
		pop := newPopulation(seeds(t, k))
		var r Report
		convert := func(obj runtime.Object, to runtime.GroupVersioner) runtime.Object {
			out, err := legacyscheme.Scheme.ConvertToVersion(obj, to)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		differ := func(obj runtime.Object) []Difference {
			older := convert(k.internal(obj), autoscalingv1.SchemeGroupVersion)
			if out := compareJSON("v1", tree(older), tree(v1.Out(k.stands(obj)))); len(out) > 0 {
				return out
			}
			newer := k.external(k.internal(older))
			podo := v1.In(older.DeepCopyObject())
			v1.Default(podo)
			podo.GetObjectKind().SetGroupVersionKind(k.Podo.GVK)
			return compareJSON("v2", tree(newer), tree(k.Podo.Out(podo)))
		}
		for range rounds(1.0 / 3) {
			obj := pop.pick(m)
			m.Mutate(obj, 1+m.IntN(6))
			k.complete(obj)
			r.ran()
			r.found("v1 of "+k.name(), differ(obj), k.smallest("v1", obj, differ))
			pop.keep(m, obj)
		}
		r.fail(t)
	})
}
