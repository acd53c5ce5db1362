package registry

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// What metrics-server serves where there is one: what nodes and pods use now.

func nodeMetricsKind() *Kind {
	k := metricsKind("nodes", "NodeMetrics")
	k.Selectable = clusterFields
	k.New = func() runtime.Object { return &v1beta1.NodeMetrics{} }
	k.NewList = func() runtime.Object { return &v1beta1.NodeMetricsList{} }
	k.Row = func(obj runtime.Object, _ time.Time) []any {
		n := obj.(*v1beta1.NodeMetrics)
		return usageRow(n.Name, n.Window, n.Usage)
	}
	return k
}

func podMetricsKind() *Kind {
	k := metricsKind("pods", "PodMetrics")
	k.Namespaced, k.Selectable = true, metaFields
	k.New = func() runtime.Object { return &v1beta1.PodMetrics{} }
	k.NewList = func() runtime.Object { return &v1beta1.PodMetricsList{} }
	k.Row = func(obj runtime.Object, _ time.Time) []any {
		p := obj.(*v1beta1.PodMetrics)
		sum := v1.ResourceList{}
		for _, c := range p.Containers {
			for name, used := range c.Usage {
				total := sum[name]
				total.Add(used)
				sum[name] = total
			}
		}
		return usageRow(p.Name, p.Window, sum)
	}
	return k
}

func metricsKind(resource, kind string) *Kind {
	return &Kind{
		GVK: v1beta1.SchemeGroupVersion.WithKind(kind), Resource: resource, Verbs: []string{"get", "list"}, Unstored: true, Computed: true,
		Default: func(runtime.Object) {},
		Columns: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"},
			{Name: "cpu", Type: "string", Format: "quantity"},
			{Name: "memory", Type: "string", Format: "quantity"},
			{Name: "Window", Type: "string", Format: "duration"},
		},
	}
}

func usageRow(name string, window metav1.Duration, usage v1.ResourceList) []any {
	return []any{name, usage.Cpu().String(), usage.Memory().String(), window.Duration.String()}
}
