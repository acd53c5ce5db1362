package registry

import (
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/registry/check"
)

// What v1 has no field for it says in annotations, as JSON.
const (
	metricsNote       = "autoscaling.alpha.kubernetes.io/metrics"
	measuredNote      = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsNote    = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorNote      = "autoscaling.alpha.kubernetes.io/behavior"
	upToleranceNote   = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
	downToleranceNote = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"
)

var autoscalerNotes = []string{metricsNote, measuredNote, conditionsNote, behaviorNote, upToleranceNote, downToleranceNote}

// horizontalPodAutoscalerV1Kind serves the autoscalers of stored, which are v2, in the older form: one target for CPU, and the rest in
// annotations.
func horizontalPodAutoscalerV1Kind(stored *Kind) *Kind {
	k := *stored
	k.GVK = autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
	k.Served = &Served{
		Stored:  stored,
		New:     func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
		NewList: func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscalerList{} },
		In: func(obj runtime.Object) runtime.Object {
			return autoscalerIn(obj.(*autoscalingv1.HorizontalPodAutoscaler))
		},
		Out: func(obj runtime.Object) runtime.Object {
			return autoscalerOut(obj.(*autoscalingv2.HorizontalPodAutoscaler))
		},
		ByValue: true,
	}
	// A behavior is completed when it is read again, as v2.
	k.Default = func(obj runtime.Object) {
		if h := obj.(*autoscalingv2.HorizontalPodAutoscaler); h.Spec.MinReplicas == nil {
			h.Spec.MinReplicas = new(int32(1))
		}
	}
	return &k
}

// withoutAutoscalerNotes are the annotations but for those that stand for fields; the map itself when it has none of them.
func withoutAutoscalerNotes(all map[string]string) map[string]string {
	copied := false
	for _, name := range autoscalerNotes {
		if _, ok := all[name]; !ok {
			continue
		}
		if !copied {
			all, copied = maps.Clone(all), true
		}
		delete(all, name)
	}
	return all
}

// readNote reads an annotation; one that cannot be read says nothing.
func readNote[T any](notes map[string]string, name string) (out T, ok bool) {
	text, ok := notes[name]
	if !ok {
		return out, false
	}
	if tame := check.Tame([]byte(text)); tame != nil {
		var first T
		if json.Unmarshal(tame, &first) != nil {
			return out, false
		}
	}
	return out, json.Unmarshal([]byte(text), &out) == nil
}

// writeNote writes an annotation. All that is written can be.
func writeNote(notes map[string]string, name string, v any) {
	if text, err := json.Marshal(v); err == nil {
		notes[name] = string(text)
	}
}

// scalingNote are scaling rules as the annotation has them: its fields are called as in Go.
type scalingNote struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []policyNote
	Tolerance                  *resource.Quantity
}

type policyNote struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

type behaviorNotes struct{ ScaleUp, ScaleDown *scalingNote }

func scalingIn(n *scalingNote) *autoscalingv2.HPAScalingRules {
	if n == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: n.StabilizationWindowSeconds, SelectPolicy: n.SelectPolicy, Tolerance: n.Tolerance,
		Policies: converted(n.Policies, func(p *policyNote) autoscalingv2.HPAScalingPolicy { return autoscalingv2.HPAScalingPolicy(*p) }),
	}
	return out
}

func scalingOut(r *autoscalingv2.HPAScalingRules) *scalingNote {
	if r == nil {
		return nil
	}
	return &scalingNote{
		StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance,
		Policies: converted(r.Policies, func(p *autoscalingv2.HPAScalingPolicy) policyNote { return policyNote(*p) }),
	}
}

// converted is nil of nil only.
func converted[A, B any](in []A, one func(*A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = one(&in[i])
	}
	return out
}

func autoscalerIn(h *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta}
	out.Annotations = withoutAutoscalerNotes(h.Annotations)
	out.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(h.Spec.ScaleTargetRef),
		MinReplicas:    h.Spec.MinReplicas, MaxReplicas: h.Spec.MaxReplicas,
	}
	if metrics, ok := readNote[[]autoscalingv1.MetricSpec](h.Annotations, metricsNote); ok {
		out.Spec.Metrics = converted(metrics, metricIn)
	}
	if target := h.Spec.TargetCPUUtilizationPercentage; target != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuTarget(*target))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuTarget(80)}
	}
	if b, ok := readNote[behaviorNotes](h.Annotations, behaviorNote); ok && b != (behaviorNotes{}) {
		out.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: scalingIn(b.ScaleUp), ScaleDown: scalingIn(b.ScaleDown)}
	}
	s := &h.Status
	out.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: s.ObservedGeneration, LastScaleTime: s.LastScaleTime, CurrentReplicas: s.CurrentReplicas, DesiredReplicas: s.DesiredReplicas,
	}
	if use := s.CurrentCPUUtilizationPercentage; use != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{
			Name: v1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: new(*use)},
		}}}
	}
	if measured, ok := readNote[[]autoscalingv1.MetricStatus](h.Annotations, measuredNote); ok { // they know more
		out.Status.CurrentMetrics = converted(measured, measuredIn)
	}
	if conditions, ok := readNote[[]autoscalingv1.HorizontalPodAutoscalerCondition](h.Annotations, conditionsNote); ok {
		out.Status.Conditions = converted(conditions, func(c *autoscalingv1.HorizontalPodAutoscalerCondition) autoscalingv2.HorizontalPodAutoscalerCondition {
			return autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
				Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
			}
		})
	}
	return out
}

// asCPU tells whether a metric is the one that v1 has a field for.
func asCPU(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == v1.ResourceCPU &&
		m.Resource.Target.AverageUtilization != nil
}

func autoscalerOut(h *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.HorizontalPodAutoscaler {
	out := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta}
	out.Spec = autoscalingv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(h.Spec.ScaleTargetRef),
		MinReplicas:    h.Spec.MinReplicas, MaxReplicas: h.Spec.MaxReplicas,
	}
	notes := map[string]string{}
	var others []autoscalingv1.MetricSpec
	for i := range h.Spec.Metrics {
		switch m := &h.Spec.Metrics[i]; {
		case !asCPU(m):
			others = append(others, metricOut(m))
		case out.Spec.TargetCPUUtilizationPercentage == nil:
			out.Spec.TargetCPUUtilizationPercentage = new(*m.Resource.Target.AverageUtilization)
		}
	}
	if len(others) > 0 {
		writeNote(notes, metricsNote, others)
	}
	if b := h.Spec.Behavior; b != nil {
		writeNote(notes, behaviorNote, behaviorNotes{ScaleUp: scalingOut(b.ScaleUp), ScaleDown: scalingOut(b.ScaleDown)})
	}
	s := &h.Status
	out.Status = autoscalingv1.HorizontalPodAutoscalerStatus{
		ObservedGeneration: s.ObservedGeneration, LastScaleTime: s.LastScaleTime, CurrentReplicas: s.CurrentReplicas, DesiredReplicas: s.DesiredReplicas,
	}
	for _, m := range s.CurrentMetrics {
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == v1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = new(*m.Resource.Current.AverageUtilization)
		}
	}
	if len(s.CurrentMetrics) > 0 {
		writeNote(notes, measuredNote, converted(s.CurrentMetrics, measuredOut))
	}
	if len(s.Conditions) > 0 {
		writeNote(notes, conditionsNote, converted(s.Conditions, func(c *autoscalingv2.HorizontalPodAutoscalerCondition) autoscalingv1.HorizontalPodAutoscalerCondition {
			return autoscalingv1.HorizontalPodAutoscalerCondition{
				Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
				Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
			}
		}))
	}
	if out.Annotations = withoutAutoscalerNotes(h.Annotations); len(notes) > 0 {
		maps.Copy(notes, out.Annotations)
		out.Annotations = notes
	}
	return out
}
