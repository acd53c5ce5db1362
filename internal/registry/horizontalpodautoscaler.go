package registry

import (
	"fmt"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func horizontalPodAutoscalerKind() *Kind {
	of := func(obj runtime.Object) *autoscalingv2.HorizontalPodAutoscaler {
		return obj.(*autoscalingv2.HorizontalPodAutoscaler)
	}
	doc, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return &Kind{
		GVK:        autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		Resource:   "horizontalpodautoscalers",
		Singular:   "horizontalpodautoscaler",
		ShortNames: []string{"hpa"},
		Categories: []string{"all"},
		Namespaced: true,
		Dir:        "horizontalpodautoscalers",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
		NewList:    func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscalerList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Default:    func(obj runtime.Object) { defaultAutoscaler(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
			of(obj).Generation = 1
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateAutoscaler(&of(obj).Spec, nil) },
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					h, was := of(obj), of(old)
					h.Status = *was.Status.DeepCopy()
					if !equality.Semantic.DeepEqual(h.Spec, was.Spec) {
						h.Generation = was.Generation + 1
					}
				},
				Validate:           func(obj, old runtime.Object) field.ErrorList { return validateAutoscaler(&of(obj).Spec, &of(old).Spec) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Validate:           func(obj, _ runtime.Object) field.ErrorList { return validateAutoscalerStatus(&of(obj).Status) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Reference", Type: "string", Description: doc["scaleTargetRef"]},
			{Name: "Targets", Type: "string", Description: doc["metrics"]},
			{Name: "MinPods", Type: "string", Description: doc["minReplicas"]},
			{Name: "MaxPods", Type: "string", Description: doc["maxReplicas"]},
			{Name: "Replicas", Type: "string", Description: status["currentReplicas"]},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			h := of(obj)
			least := "<unset>"
			if h.Spec.MinReplicas != nil {
				least = fmt.Sprint(*h.Spec.MinReplicas)
			}
			return []any{
				h.Name, h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name, shownTargets(h), least,
				int64(h.Spec.MaxReplicas), int64(h.Status.CurrentReplicas), age(h.CreationTimestamp, now),
			}
		},
	}
}

// defaultAutoscaler fills what is left out. What v1 says in annotations v2 has fields for: the annotations are dropped.
func defaultAutoscaler(h *autoscalingv2.HorizontalPodAutoscaler) {
	h.Annotations = withoutAutoscalerNotes(h.Annotations)
	if h.Spec.MinReplicas == nil {
		h.Spec.MinReplicas = new(int32(1))
	}
	if len(h.Spec.Metrics) == 0 {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{cpuTarget(80)}
	}
	b := h.Spec.Behavior
	if b == nil {
		return
	}
	const period = 15
	percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: period}
	pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: period}
	b.ScaleUp = defaultScaling(b.ScaleUp, pods, percent)
	if b.ScaleUp.StabilizationWindowSeconds == nil {
		b.ScaleUp.StabilizationWindowSeconds = new(int32(0))
	}
	b.ScaleDown = defaultScaling(b.ScaleDown, percent) // the controller's own window counts where none is given
}

func defaultScaling(r *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	if r == nil {
		r = &autoscalingv2.HPAScalingRules{}
	}
	if r.SelectPolicy == nil {
		r.SelectPolicy = new(autoscalingv2.MaxChangePolicySelect)
	}
	if r.Policies == nil {
		r.Policies = policies
	}
	return r
}

// cpuTarget asks for a utilization of the requested CPU.
func cpuTarget(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name:   v1.ResourceCPU,
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}
}

// shownTargets has at most two metrics, each as what is measured and what is wanted.
func shownTargets(h *autoscalingv2.HorizontalPodAutoscaler) string {
	const most = 2
	var all []string
	for i := range h.Spec.Metrics {
		measured := &autoscalingv2.MetricStatus{}
		if i < len(h.Status.CurrentMetrics) {
			measured = &h.Status.CurrentMetrics[i]
		}
		all = append(all, shownMetric(&h.Spec.Metrics[i], measured))
	}
	switch {
	case len(all) == 0:
		return "<none>"
	case len(all) > most:
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// shownMetric is one of them. A status of another type than the metric's tells nothing of it.
func shownMetric(m *autoscalingv2.MetricSpec, s *autoscalingv2.MetricStatus) string {
	var current *autoscalingv2.MetricValueStatus
	switch {
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		if s.External != nil {
			current = &s.External.Current
		}
		return shownTotal(&m.External.Target, current)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		if s.Object != nil {
			current = &s.Object.Current
		}
		return shownTotal(&m.Object.Target, current)
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		if s.Pods != nil {
			current = &s.Pods.Current
		}
		return shownAverage(&m.Pods.Target, current)
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		if s.Resource != nil {
			current = &s.Resource.Current
		}
		return string(m.Resource.Name) + ": " + shownUsage(&m.Resource.Target, current)
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		if s.ContainerResource != nil {
			current = &s.ContainerResource.Current
		}
		return string(m.ContainerResource.Name) + ": " + shownUsage(&m.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

const unknownMetric = "<unknown>"

// shownTotal is of what is measured as a whole, and may be wanted in the average of the pods.
func shownTotal(t *autoscalingv2.MetricTarget, c *autoscalingv2.MetricValueStatus) string {
	if t.AverageValue == nil {
		have := unknownMetric
		if c != nil {
			have = c.Value.String()
		}
		return have + "/" + t.Value.String()
	}
	if c != nil && c.AverageValue == nil {
		c = nil
	}
	return shownAverage(t, c) + " (avg)"
}

func shownAverage(t *autoscalingv2.MetricTarget, c *autoscalingv2.MetricValueStatus) string {
	have := unknownMetric
	if c != nil {
		have = c.AverageValue.String()
	}
	return have + "/" + t.AverageValue.String()
}

// shownUsage is of a resource: an amount, or a share of what is requested.
func shownUsage(t *autoscalingv2.MetricTarget, c *autoscalingv2.MetricValueStatus) string {
	if t.AverageValue != nil {
		return shownAverage(t, c)
	}
	have, want := unknownMetric, "<auto>"
	if c != nil && c.AverageUtilization != nil {
		have = fmt.Sprintf("%d%%", *c.AverageUtilization)
	}
	if t.AverageUtilization != nil {
		want = fmt.Sprintf("%d%%", *t.AverageUtilization)
	}
	return have + "/" + want
}
