package batchobject

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
	"podo.dev/podo/internal/registry/podspec"
)

// Bounds of indexed Jobs, so that the text of their indexes fits in an object.
const (
	mostParallel      = 100_000
	mostFailedIndexes = 100_000
	manyCompletions   = 100_000 // from here on
	manyParallel      = 10_000  // this is the bound of both
	longestManager    = 63
)

func selects(s *metav1.LabelSelector, set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err != nil || selector.Matches(labels.Set(set)) // what cannot be read is told elsewhere
}

// jobSpec judges a Job's spec; old is nil on create.
func jobSpec(e *check.Errors, s, old *batchv1.JobSpec) {
	common(e, s, old, specPath)
	p := specPath.Child("selector")
	if s.Selector == nil {
		e.Required(p, "")
	} else {
		lax := metav1validation.LabelSelectorValidationOptions{}
		if old != nil {
			lax.AllowInvalidLabelValueInSelector = podspec.OptionsFor(&old.Template.Spec).BadLabelValueInSelector ||
				metav1validation.LabelSelectorHasInvalidLabelValue(old.Selector)
		}
		e.Add(metav1validation.ValidateLabelSelector(s.Selector, lax, p))
	}
	if !selects(s.Selector, s.Template.Labels) {
		e.Invalid(specPath.Child("template", "metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`")
	}
}

// common judges what a Job's spec and a CronJob's template, at p, have in common.
func common(e *check.Errors, s, old *batchv1.JobSpec, p *field.Path) {
	notNegative := func(name string, n *int32) {
		if n != nil {
			e.NonNegative(p.Child(name), int64(*n))
		}
	}
	notNegative("parallelism", s.Parallelism)
	notNegative("completions", s.Completions)
	if n := s.ActiveDeadlineSeconds; n != nil {
		e.NonNegative(p.Child("activeDeadlineSeconds"), *n)
	}
	notNegative("backoffLimit", s.BackoffLimit)
	notNegative("ttlSecondsAfterFinished", s.TTLSecondsAfterFinished)
	notNegative("backoffLimitPerIndex", s.BackoffLimitPerIndex)
	notNegative("maxFailedIndexes", s.MaxFailedIndexes)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		e.Required(p.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
	}
	if m := s.ManagedBy; m != nil {
		e.Add(validation.IsDomainPrefixedPath(p.Child("managedBy"), *m))
		if len(*m) > longestManager {
			e.TooLong(p.Child("managedBy"), longestManager)
		}
	}
	completionMode(e, s, p)
	if s.PodFailurePolicy != nil {
		failurePolicy(e, s, p.Child("podFailurePolicy"))
	}
	if s.SuccessPolicy != nil {
		if at := p.Child("successPolicy"); Indexed(s) {
			successPolicy(e, s, at)
		} else {
			e.Invalid(at, *s.SuccessPolicy, "requires indexed completion mode")
		}
	}
	if r := s.PodReplacementPolicy; r != nil {
		allowed := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
		if s.PodFailurePolicy != nil {
			allowed = allowed[:1]
		}
		check.OneOf(e, p.Child("podReplacementPolicy"), *r, allowed...)
	}
	podTemplate(e, s, old, p)
}

func podTemplate(e *check.Errors, s, old *batchv1.JobSpec, p *field.Path) {
	var was *v1.PodTemplateSpec
	if old != nil {
		was = &old.Template
	}
	e.Add(podobject.ValidateTemplate(&s.Template, was, p.Child("template")))
	at := p.Child("template", "spec", "restartPolicy")
	switch r := s.Template.Spec.RestartPolicy; {
	case r == v1.RestartPolicyAlways || r == "": // the default of pods is none of Jobs
		e.Required(at, fmt.Sprintf("valid values: %q, %q", v1.RestartPolicyOnFailure, v1.RestartPolicyNever))
	case r != v1.RestartPolicyOnFailure && r != v1.RestartPolicyNever:
		check.OneOf(e, at, r, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	case s.PodFailurePolicy != nil && r != v1.RestartPolicyNever:
		e.Invalid(at, r, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", v1.RestartPolicyNever))
	}
}

func completionMode(e *check.Errors, s *batchv1.JobSpec, p *field.Path) {
	mode := batchv1.NonIndexedCompletion
	if s.CompletionMode != nil {
		mode = *s.CompletionMode
		check.OneOf(e, p.Child("completionMode"), mode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	}
	switch mode {
	case batchv1.IndexedCompletion:
		indexBounds(e, s, p)
	case batchv1.NonIndexedCompletion:
		for _, f := range []struct {
			name string
			n    *int32
		}{{"backoffLimitPerIndex", s.BackoffLimitPerIndex}, {"maxFailedIndexes", s.MaxFailedIndexes}} {
			if f.n != nil {
				e.Invalid(p.Child(f.name), *f.n, "requires indexed completion mode")
			}
		}
	}
}

func indexBounds(e *check.Errors, s *batchv1.JobSpec, p *field.Path) {
	most := func(name string, n *int32, limit int32, detail string) {
		if n != nil && *n > limit {
			e.Invalid(p.Child(name), *n, detail)
		}
	}
	if s.Completions == nil {
		e.Required(p.Child("completions"), "when completion mode is Indexed")
	}
	most("parallelism", s.Parallelism, mostParallel, fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", mostParallel))
	if s.Completions != nil {
		most("maxFailedIndexes", s.MaxFailedIndexes, *s.Completions, "must be less than or equal to completions")
	}
	most("maxFailedIndexes", s.MaxFailedIndexes, mostFailedIndexes, fmt.Sprintf("must be less than or equal to %d", mostFailedIndexes))
	if s.Completions == nil || *s.Completions <= manyCompletions || s.BackoffLimitPerIndex == nil {
		return
	}
	if s.MaxFailedIndexes == nil {
		e.Required(p.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", manyCompletions))
	}
	detail := fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per index", manyParallel, manyCompletions)
	most("parallelism", s.Parallelism, manyParallel, detail)
	most("maxFailedIndexes", s.MaxFailedIndexes, manyParallel, detail)
}
