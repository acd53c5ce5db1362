package registry

import (
	"errors"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// The longest period of a scaling policy, and the longest stabilization window, in seconds.
const (
	maxScalingPeriod = 1800
	maxStabilization = 3600
)

// apiVersions are which apiVersions a reference may have.
type apiVersions int

const (
	grouped apiVersions = iota // one that can be read, and names a group
	legible                    // one that can be read
	anyVersion
)

// validateAutoscaler checks a spec whole; old is nil on create. References that were there before may go on naming their target as they
// did.
func validateAutoscaler(spec, old *autoscalingv2.HorizontalPodAutoscalerSpec) field.ErrorList {
	var e check.Errors
	least, most := valueOr(spec.MinReplicas, 0), specPath.Child("maxReplicas")
	if spec.MinReplicas != nil && spec.MaxReplicas < least {
		e.Invalid(most, spec.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
	target, described := grouped, legible
	switch {
	case old != nil && old.ScaleTargetRef.APIVersion == spec.ScaleTargetRef.APIVersion && old.ScaleTargetRef.Kind == spec.ScaleTargetRef.Kind:
		target = anyVersion
	case spec.ScaleTargetRef.Kind == "ReplicationController": // the one of the core group
		target = legible
	}
	if old != nil && slices.ContainsFunc(old.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil && legible.judge(m.Object.DescribedObject.APIVersion) != nil
	}) {
		described = anyVersion
	}
	crossReference(&e, specPath.Child("scaleTargetRef"), spec.ScaleTargetRef, target)
	outside := false
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		validateMetric(&e, specPath.Child("metrics").Index(i), m, described)
		outside = outside || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if spec.MinReplicas != nil && least == 0 && !outside {
		e.Forbidden(specPath.Child("metrics"), "must specify at least one Object or External metric to support scaling to zero replicas")
	}
	if b := spec.Behavior; b != nil {
		validateScaling(&e, specPath.Child("behavior", "scaleUp"), b.ScaleUp)
		validateScaling(&e, specPath.Child("behavior", "scaleDown"), b.ScaleDown)
	}
	// What upstream declares of a type it says after all that it has rules for.
	if least < 0 {
		e.Invalid(specPath.Child("minReplicas"), least, "must be greater than or equal to 0")
	}
	switch {
	case spec.MaxReplicas == 0:
		e.Required(most, "")
	case spec.MaxReplicas < 0:
		e.Invalid(most, spec.MaxReplicas, "must be greater than or equal to 1")
	}
	return e.List()
}

func (v apiVersions) judge(apiVersion string) error {
	if v == anyVersion {
		return nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err == nil && v == grouped && gv.Group == "" {
		err = errors.New("apiVersion must specify API group")
	}
	return err
}

func crossReference(e *check.Errors, p *field.Path, ref autoscalingv2.CrossVersionObjectReference, versions apiVersions) {
	segment := func(name, v string) {
		if v == "" {
			e.Required(p.Child(name), "")
			return
		}
		e.Each(p.Child(name), v, content.IsPathSegmentName(v))
	}
	segment("kind", ref.Kind)
	segment("name", ref.Name)
	if err := versions.judge(ref.APIVersion); err != nil {
		e.Invalid(p.Child("apiVersion"), ref.APIVersion, err.Error())
	}
}

func validateScaling(e *check.Errors, p *field.Path, r *autoscalingv2.HPAScalingRules) {
	if r == nil {
		return
	}
	if w := r.StabilizationWindowSeconds; w != nil {
		if *w < 0 {
			e.Invalid(p.Child("stabilizationWindowSeconds"), *w, "must be greater than or equal to zero")
		}
		if *w > maxStabilization {
			e.Invalid(p.Child("stabilizationWindowSeconds"), *w, fmt.Sprintf("must be less than or equal to %d", maxStabilization))
		}
	}
	if r.SelectPolicy != nil {
		check.OneOf(e, p.Child("selectPolicy"), *r.SelectPolicy,
			autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	}
	if len(r.Policies) == 0 {
		e.Required(p.Child("policies"), "must specify at least one Policy")
	}
	for i, policy := range r.Policies {
		p := p.Child("policies").Index(i)
		check.OneOf(e, p.Child("type"), policy.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
		if policy.Value <= 0 {
			e.Invalid(p.Child("value"), policy.Value, "must be greater than zero")
		}
		if policy.PeriodSeconds <= 0 {
			e.Invalid(p.Child("periodSeconds"), policy.PeriodSeconds, "must be greater than zero")
		}
		if policy.PeriodSeconds > maxScalingPeriod {
			e.Invalid(p.Child("periodSeconds"), policy.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", maxScalingPeriod))
		}
	}
	if r.Tolerance != nil && r.Tolerance.Sign() < 0 {
		e.Invalid(p.Child("tolerance"), r.Tolerance.String(), apivalidation.IsNegativeErrorMsg)
	}
}

// source is one of the metric's members: its name, its type, whether it is there, and its rules.
type source struct {
	name  string
	of    autoscalingv2.MetricSourceType
	given bool
	check func(p *field.Path)
}

// validateMetric checks that a metric has the source of its type alone. Of several sources the first is looked at.
func validateMetric(e *check.Errors, p *field.Path, m *autoscalingv2.MetricSpec, described apiVersions) {
	supported := []autoscalingv2.MetricSourceType{
		autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType,
		autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType,
	}
	sources := []source{
		{"object", autoscalingv2.ObjectMetricSourceType, m.Object != nil, func(p *field.Path) { validateObjectMetric(e, p, m.Object, described) }},
		{"external", autoscalingv2.ExternalMetricSourceType, m.External != nil, func(p *field.Path) { validateExternalMetric(e, p, m.External) }},
		{"pods", autoscalingv2.PodsMetricSourceType, m.Pods != nil, func(p *field.Path) { validatePodsMetric(e, p, m.Pods) }},
		{"resource", autoscalingv2.ResourceMetricSourceType, m.Resource != nil, func(p *field.Path) { validateResourceMetric(e, p, m.Resource) }},
		{"containerResource", autoscalingv2.ContainerResourceMetricSourceType, m.ContainerResource != nil, func(p *field.Path) {
			validateContainerMetric(e, p, m.ContainerResource)
		}},
	}
	if m.Type == "" {
		e.Required(p.Child("type"), "must specify a metric source type")
	}
	check.OneOf(e, p.Child("type"), m.Type, supported...)
	given := 0
	for _, s := range sources {
		if s.given {
			if given == 0 {
				s.check(p.Child(s.name))
			}
			given++
		}
	}
	for _, s := range sources {
		if s.of == m.Type && !s.given {
			e.Required(p.Child(s.name), "must populate information for the given metric source")
		}
	}
	check.OneOf(e, p.Child("type"), m.Type, supported...) // upstream says it twice
	if given == 1 {
		return
	}
	for _, s := range sources {
		if s.given && s.of != m.Type {
			e.Forbidden(p.Child(s.name), "must populate the given metric source only")
		}
	}
}

func validateObjectMetric(e *check.Errors, p *field.Path, m *autoscalingv2.ObjectMetricSource, described apiVersions) {
	crossReference(e, p.Child("describedObject"), m.DescribedObject, described)
	validateIdentifier(e, p.Child("metric"), m.Metric)
	validateTarget(e, p.Child("target"), &m.Target)
	if m.Target.Value == nil && m.Target.AverageValue == nil {
		e.Required(p.Child("target", "averageValue"), "must set either a target value or averageValue")
	}
}

func validateExternalMetric(e *check.Errors, p *field.Path, m *autoscalingv2.ExternalMetricSource) {
	validateIdentifier(e, p.Child("metric"), m.Metric)
	validateTarget(e, p.Child("target"), &m.Target)
	switch whole, average := m.Target.Value != nil, m.Target.AverageValue != nil; {
	case !whole && !average:
		e.Required(p.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target")
	case whole && average:
		e.Forbidden(p.Child("target", "value"), "may not set both a target value for metric and a per-pod target")
	}
}

func validatePodsMetric(e *check.Errors, p *field.Path, m *autoscalingv2.PodsMetricSource) {
	validateIdentifier(e, p.Child("metric"), m.Metric)
	validateTarget(e, p.Child("target"), &m.Target)
	if m.Target.AverageValue == nil {
		e.Required(p.Child("target", "averageValue"), "must specify a positive target averageValue")
	}
}

func validateResourceMetric(e *check.Errors, p *field.Path, m *autoscalingv2.ResourceMetricSource) {
	if m.Name == "" {
		e.Required(p.Child("name"), "must specify a resource name")
	}
	validateUsageTarget(e, p.Child("target"), &m.Target)
}

func validateContainerMetric(e *check.Errors, p *field.Path, m *autoscalingv2.ContainerResourceMetricSource) {
	if m.Name == "" {
		e.Required(p.Child("name"), "must specify a resource name")
	} else {
		e.ContainerResourceName(p.Child("name"), m.Name)
	}
	if m.Container == "" {
		e.Required(p.Child("container"), "must specify a container")
	} else {
		e.DNSLabel(p.Child("container"), m.Container)
	}
	validateUsageTarget(e, p.Child("target"), &m.Target)
}

// validateUsageTarget is of a resource: an amount or a share of what is requested.
func validateUsageTarget(e *check.Errors, p *field.Path, t *autoscalingv2.MetricTarget) {
	validateTarget(e, p, t)
	switch share, amount := t.AverageUtilization != nil, t.AverageValue != nil; {
	case !share && !amount:
		e.Required(p.Child("averageUtilization"), "must set either a target raw value or a target utilization")
	case share && amount:
		e.Forbidden(p.Child("averageValue"), "may not set both a target raw value and a target utilization")
	}
}

func validateTarget(e *check.Errors, p *field.Path, t *autoscalingv2.MetricTarget) {
	if t.Type == "" {
		e.Required(p.Child("type"), "must specify a metric target type")
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		e.Invalid(p.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue")
	}
	positive := func(name string, q *resource.Quantity) {
		if q != nil && q.Sign() != 1 {
			e.Invalid(p.Child(name), q, "must be positive")
		}
	}
	positive("value", t.Value)
	positive("averageValue", t.AverageValue)
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		e.Invalid(p.Child("averageUtilization"), *t.AverageUtilization, "must be greater than 0")
	}
}

func validateIdentifier(e *check.Errors, p *field.Path, id autoscalingv2.MetricIdentifier) {
	if id.Name == "" {
		e.Required(p.Child("name"), "must specify a metric name")
		return
	}
	e.Each(p.Child("name"), id.Name, content.IsPathSegmentName(id.Name))
}

func validateAutoscalerStatus(s *autoscalingv2.HorizontalPodAutoscalerStatus) field.ErrorList {
	var e check.Errors
	for i, c := range s.Conditions {
		if c.ObservedGeneration != nil {
			e.NonNegative(statusPath.Child("conditions").Index(i).Child("observedGeneration"), *c.ObservedGeneration)
		}
	}
	e.NonNegative(statusPath.Child("currentReplicas"), int64(s.CurrentReplicas))
	e.NonNegative(statusPath.Child("desiredReplicas"), int64(s.DesiredReplicas))
	return e.List()
}
