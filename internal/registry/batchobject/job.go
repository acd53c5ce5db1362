package batchobject

import (
	"fmt"
	"maps"
	"math"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
)

// The labels of a Job's pods by the names that they had before they got a domain.
const (
	oldJobName       = "job-name"
	oldControllerUID = "controller-uid"
)

// DefaultJob fills what a Job's author left out. A Job without labels has its template's: the same map, so that those which are
// generated for the template are the Job's too. Upstream copies a Job whose name is to be generated before it generates any of this: such
// a one has the labels that its author gave the template.
func DefaultJob(j *batchv1.Job) {
	s := &j.Spec
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = new(int32(1))
	}
	orElse(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		orElse(&s.BackoffLimit, math.MaxInt32)
	}
	orElse(&s.BackoffLimit, 6)
	if s.Template.Labels != nil && len(j.Labels) == 0 {
		j.Labels = s.Template.Labels
		if j.Name == "" {
			j.Labels = maps.Clone(j.Labels)
		}
	}
	orElse(&s.CompletionMode, batchv1.NonIndexedCompletion)
	orElse(&s.Suspend, false)
	if s.PodFailurePolicy != nil {
		orElse(&s.PodReplacementPolicy, batchv1.Failed)
	}
	orElse(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	orElse(&s.ManualSelector, false)
	defaultSpec(s)
}

func orElse[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// defaultSpec fills what a Job and a CronJob's template have in common.
func defaultSpec(s *batchv1.JobSpec) {
	if s.PodFailurePolicy != nil {
		for i := range s.PodFailurePolicy.Rules {
			for j := range s.PodFailurePolicy.Rules[i].OnPodConditions {
				if c := &s.PodFailurePolicy.Rules[i].OnPodConditions[j]; c.Status == "" {
					c.Status = v1.ConditionTrue
				}
			}
		}
	}
	podobject.DefaultTemplate(&s.Template)
}

// drop removes what a switched-off gate guards and old, nil on create, does not use: workload-aware scheduling.
func drop(s, old *batchv1.JobSpec) {
	if old == nil {
		s.Scheduling = nil
		podobject.DropTemplate(&s.Template, nil)
		return
	}
	if old.Scheduling == nil {
		s.Scheduling = nil
	}
	podobject.DropTemplate(&s.Template, &old.Template)
}

// PrepareJob makes a new Job's selector, unless its author does that himself, and starts its history.
func PrepareJob(j *batchv1.Job) {
	if !*j.Spec.ManualSelector {
		selectOwn(j)
	}
	// As it will be read. Bad labels of the template are told once, where they stand.
	if t := j.Spec.Template.Labels; len(j.Labels) == 0 && len(metav1validation.ValidateLabels(t, nil)) == 0 {
		j.Labels = maps.Clone(t)
	}
	j.Status = batchv1.JobStatus{}
	j.Generation = 1
	drop(&j.Spec, nil)
}

// selectOwn labels the template with the Job's name and identity, and selects by the latter. Labels that are there stay: when they are
// others, the validation says so.
func selectOwn(j *batchv1.Job) {
	t := &j.Spec.Template
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	for _, l := range [][2]string{
		{oldJobName, j.Name}, {batchv1.JobNameLabel, j.Name}, {oldControllerUID, string(j.UID)}, {batchv1.ControllerUidLabel, string(j.UID)},
	} {
		if _, ok := t.Labels[l[0]]; !ok {
			t.Labels[l[0]] = l[1]
		}
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	if m := j.Spec.Selector.MatchLabels; m[batchv1.ControllerUidLabel] == "" {
		if _, ok := m[batchv1.ControllerUidLabel]; !ok {
			m[batchv1.ControllerUidLabel] = string(j.UID)
		}
	}
}

// PrepareJobUpdate keeps the status and counts changes of the spec.
func PrepareJobUpdate(j, old *batchv1.Job) {
	j.Status = *old.Status.DeepCopy()
	drop(&j.Spec, &old.Spec)
	if !equality.Semantic.DeepEqual(j.Spec, old.Spec) {
		j.Generation = old.Generation + 1
	}
}

// ValidateJob judges a new Job.
func ValidateJob(j *batchv1.Job) field.ErrorList {
	var e check.Errors
	ownSelector(&e, j)
	jobSpec(&e, &j.Spec, nil)
	hostnames(&e, j)
	return e.List()
}

// ownSelector: a selector that was made by us, and the labels that it selects, are the Job's and nobody else's.
func ownSelector(e *check.Errors, j *batchv1.Job) {
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector || j.Spec.Selector == nil {
		return
	}
	if j.UID == "" {
		e.Required(metaPath.Child("uid"), "")
	}
	labels := map[string]string{}
	for _, l := range [][2]string{
		{oldControllerUID, string(j.UID)}, {oldJobName, j.Name}, {batchv1.ControllerUidLabel, string(j.UID)}, {batchv1.JobNameLabel, j.Name},
	} {
		labels[l[0]] = l[1]
		p := specPath.Child("template", "metadata", "labels").Key(l[0])
		if has, ok := j.Spec.Template.Labels[l[0]]; !ok {
			e.Required(p, fmt.Sprintf("must be '%s'", l[1]))
		} else if has != l[1] {
			e.Invalid(p, j.Spec.Template.Labels, fmt.Sprintf("must be '%s'", l[1]))
		}
	}
	if !selects(j.Spec.Selector, labels) {
		e.Invalid(specPath.Child("selector"), j.Spec.Selector, "`selector` not auto-generated")
	}
}

// hostnames: the pods of an indexed Job are called by their index, which must leave a name that a host can have.
func hostnames(e *check.Errors, j *batchv1.Job) {
	if n := j.Spec.Completions; Indexed(&j.Spec) && n != nil && *n > 0 {
		last := fmt.Sprintf("%s-%d", j.Name, *n-1)
		if len(validation.IsDNS1123Label(last)) > 0 {
			e.Invalid(metaPath.Child("name"), j.Name, "will not able to create pod with invalid DNS label: "+last)
		}
	}
}

// ValidateJobUpdate judges a change.
func ValidateJobUpdate(j, old *batchv1.Job) field.ErrorList {
	var e check.Errors
	s, was := &j.Spec, &old.Spec
	immutable := func(name string, a, b any) {
		e.Add(apivalidation.ValidateImmutableField(a, b, specPath.Child(name)))
	}
	jobSpec(&e, s, was)
	if !Indexed(s) {
		immutable("completions", s.Completions, was.Completions)
	} else if s.Completions != nil && !equality.Semantic.DeepEqual(s.Completions, was.Completions) && *s.Completions != *s.Parallelism {
		e.Invalid(specPath.Child("completions"), s.Completions, "can only be modified in tandem with spec.parallelism")
	}
	immutable("selector", s.Selector, was.Selector)
	templateUpdate(&e, j, old)
	immutable("completionMode", s.CompletionMode, was.CompletionMode)
	frozen(&e, specPath.Child("podFailurePolicy"), s.PodFailurePolicy, was.PodFailurePolicy)
	immutable("backoffLimitPerIndex", s.BackoffLimitPerIndex, was.BackoffLimitPerIndex)
	immutable("managedBy", s.ManagedBy, was.ManagedBy)
	frozen(&e, specPath.Child("successPolicy"), s.SuccessPolicy, was.SuccessPolicy)
	hostnames(&e, j)
	return e.List()
}

// frozen refuses a change of an API structure.
func frozen[T any](e *check.Errors, p *field.Path, value, old T) {
	if !equality.Semantic.DeepEqual(value, old) {
		e.Invalid(p, value, apivalidation.FieldImmutableErrorMsg)
	}
}

// SpecWarnings tells what is accepted of a spec, which stands at p, but unwise.
func SpecWarnings(s *batchv1.JobSpec, p *field.Path) (out []string) {
	if Indexed(s) && s.Completions != nil && *s.Completions > manyCompletions && s.Parallelism != nil && *s.Parallelism > manyParallel {
		out = append(out, p.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(out, podobject.TemplateWarnings(&s.Template, p.Child("template"))...)
}
