package batchobject

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podspec"
)

const (
	mostRules       = 20
	mostExitCodes   = 255
	mostConditions  = 20
	longestIndexSet = 64 << 10
)

// What policies may say, sorted.
var (
	failureActions = []batchv1.PodFailurePolicyAction{
		batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionFailJob,
		batchv1.PodFailurePolicyActionIgnore,
	}
	exitCodeOperators = []batchv1.PodFailurePolicyOnExitCodesOperator{
		batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn,
	}
	conditionStatuses = []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionTrue, v1.ConditionUnknown}
)

// given is check.OneOf for a field that must not be empty; unlike elsewhere, what it may be is told then too.
func given[T ~string](e *check.Errors, p *field.Path, value T, supported []T) {
	if value == "" {
		e.Required(p, fmt.Sprintf("valid values: %q", supported))
		return
	}
	check.OneOf(e, p, value, supported...)
}

func failurePolicy(e *check.Errors, s *batchv1.JobSpec, p *field.Path) {
	rules := p.Child("rules")
	if n := len(s.PodFailurePolicy.Rules); n > mostRules {
		e.Put(field.TooMany(rules, n, mostRules))
	}
	var containers []string
	for c := range podspec.Containers(&s.Template.Spec) {
		containers = append(containers, c.Name)
	}
	for i := range s.PodFailurePolicy.Rules {
		rule, at := &s.PodFailurePolicy.Rules[i], rules.Index(i)
		if rule.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil {
			e.Invalid(at.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set")
		} else {
			given(e, at.Child("action"), rule.Action, failureActions)
		}
		if rule.OnExitCodes != nil {
			exitCodes(e, rule.OnExitCodes, at.Child("onExitCodes"), containers)
		}
		podConditions(e, rule.OnPodConditions, at.Child("onPodConditions"))
		switch codes, conditions := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0; {
		case codes && conditions:
			e.Invalid(at, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported")
		case !codes && !conditions:
			e.Invalid(at, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required")
		}
	}
}

func podConditions(e *check.Errors, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, p *field.Path) {
	if n := len(patterns); n > mostConditions {
		e.Put(field.TooMany(p, n, mostConditions))
	}
	for i, c := range patterns {
		e.Qualified(p.Index(i).Child("type"), string(c.Type))
		given(e, p.Index(i).Child("status"), c.Status, conditionStatuses)
	}
}

func exitCodes(e *check.Errors, r *batchv1.PodFailurePolicyOnExitCodesRequirement, p *field.Path, containers []string) {
	given(e, p.Child("operator"), r.Operator, exitCodeOperators)
	if c := r.ContainerName; c != nil && !slices.Contains(containers, *c) {
		e.Invalid(p.Child("containerName"), *c, "must be one of the container or initContainer names in the pod template")
	}
	values := p.Child("values")
	if n := len(r.Values); n == 0 {
		e.Invalid(values, r.Values, "at least one value is required")
	} else if n > mostExitCodes {
		e.Put(field.TooMany(values, n, mostExitCodes))
	}
	for i, code := range r.Values {
		if r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && code == 0 {
			e.Invalid(values.Index(i), code, "must not be 0 for the In operator")
		}
		if slices.Contains(r.Values[:i], code) {
			e.Duplicate(values.Index(i), code)
		}
	}
	if !slices.IsSorted(r.Values) {
		e.Invalid(values, r.Values, "must be ordered")
	}
}

// successPolicy judges the rules of an indexed Job, of which other findings may say that it has no completions.
func successPolicy(e *check.Errors, s *batchv1.JobSpec, p *field.Path) {
	rules := p.Child("rules")
	if len(s.SuccessPolicy.Rules) == 0 {
		e.Required(rules, "at least one rules must be specified when the successPolicy is specified")
	}
	if n := len(s.SuccessPolicy.Rules); n > mostRules {
		e.Put(field.TooMany(rules, n, mostRules))
	}
	if s.Completions == nil {
		return
	}
	for i := range s.SuccessPolicy.Rules {
		successRule(e, &s.SuccessPolicy.Rules[i], *s.Completions, rules.Index(i))
	}
}

func successRule(e *check.Errors, r *batchv1.SuccessPolicyRule, completions int32, p *field.Path) {
	if r.SucceededCount == nil && r.SucceededIndexes == nil {
		e.Required(p, "at least one of succeededCount or succeededIndexes must be specified")
	}
	var total int32
	if text := r.SucceededIndexes; text != nil {
		at := p.Child("succeededIndexes")
		if len(*text) > longestIndexSet {
			e.TooLong(at, longestIndexSet)
		}
		list, err := intervals(*text, completions)
		if err != nil {
			e.Invalid(at, *text, "error parsing succeededIndexes: "+err.Error())
		}
		for _, i := range list {
			total += i.last - i.first + 1
		}
	}
	if n := r.SucceededCount; n != nil {
		at := p.Child("succeededCount")
		e.NonNegative(at, int64(*n))
		if *n > completions {
			e.Invalid(at, *n, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions))
		}
		if r.SucceededIndexes != nil && *n > total {
			e.Invalid(at, *n, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total))
		}
	}
}
