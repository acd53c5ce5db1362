package registry_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"podo.dev/podo/internal/registry"
)

// These types are in a module of their own, which client-go's scheme does not know.
func init() { utilruntime.Must(v1beta1.AddToScheme(scheme.Scheme)) }

func TestMetricsRows(t *testing.T) {
	used := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	window := metav1.Duration{Duration: 15024 * time.Millisecond}
	pod := &v1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Window: window,
		Containers: []v1beta1.ContainerMetrics{{Name: "a", Usage: used("3n", "4Ki")}, {Name: "b", Usage: used("1m", "1020Ki")}},
	}
	node := &v1beta1.NodeMetrics{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Window: window, Usage: used("1500m", "2Gi")}
	for want, got := range map[[4]any][]any{
		{"p", "1000003n", "1Mi", "15.024s"}: registry.ByGVK(v1beta1.SchemeGroupVersion.WithKind("PodMetrics")).Row(pod, time.Time{}),
		{"n", "1500m", "2Gi", "15.024s"}:    registry.ByGVK(v1beta1.SchemeGroupVersion.WithKind("NodeMetrics")).Row(node, time.Time{}),
	} {
		if len(got) != len(want) || [4]any(got) != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
