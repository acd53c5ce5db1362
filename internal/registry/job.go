package registry

import (
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/batchobject"
)

func jobKind() *Kind {
	of := func(obj runtime.Object) *batchv1.Job { return obj.(*batchv1.Job) }
	selector := batchv1.JobSpec{}.SwaggerDoc()["selector"]
	return &Kind{
		GVK:              batchv1.SchemeGroupVersion.WithKind("Job"),
		Resource:         "jobs",
		Singular:         "job",
		Categories:       []string{"all"},
		Namespaced:       true,
		Dir:              "jobs",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &batchv1.Job{} },
		NewList:          func() runtime.Object { return &batchv1.JobList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { batchobject.DefaultJob(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) { batchobject.PrepareJob(of(obj)) },
		Validate:         func(obj runtime.Object) field.ErrorList { return batchobject.ValidateJob(of(obj)) },
		Warnings: func(obj runtime.Object) []string {
			return append(warnPodNames(of(obj).Name), batchobject.SpecWarnings(&of(obj).Spec, specPath)...)
		},
		Updates: map[string]Update{
			"": {
				Prepare:  func(obj, old runtime.Object) { batchobject.PrepareJobUpdate(of(obj), of(old)) },
				Validate: func(obj, old runtime.Object) field.ErrorList { return batchobject.ValidateJobUpdate(of(obj), of(old)) },
				Warnings: func(obj, old runtime.Object) []string {
					if of(obj).Generation == of(old).Generation {
						return nil
					}
					return batchobject.SpecWarnings(&of(obj).Spec, specPath)
				},
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Validate:           func(obj, old runtime.Object) field.ErrorList { return batchobject.ValidateJobStatus(of(obj), of(old)) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Dependents: OrphanDependents,
		DeleteWarning: "child pods are preserved by default when jobs are deleted; " +
			"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
		Indexes: map[string]func(obj runtime.Object) []string{ControllerIndex: controlledBy},
		Selectable: func(obj runtime.Object) fields.Set {
			return with(metaFields(obj), "status.successful", strconv.Itoa(int(of(obj).Status.Succeeded)))
		},
		Unselectable: func(name string) string { return fmt.Sprintf("field label %q not supported for Job", name) },
		Columns:      append(batchobject.JobColumns(nameColumn, ageColumn), wideColumns(selector)...),
		Row: func(obj runtime.Object, now time.Time) []any {
			return batchobject.JobRow(of(obj), age(of(obj).CreationTimestamp, now), now)
		},
	}
}

func cronJobKind() *Kind {
	of := func(obj runtime.Object) *batchv1.CronJob { return obj.(*batchv1.CronJob) }
	selector := batchv1.JobSpec{}.SwaggerDoc()["selector"]
	return &Kind{
		GVK:              batchv1.SchemeGroupVersion.WithKind("CronJob"),
		Resource:         "cronjobs",
		Singular:         "cronjob",
		ShortNames:       []string{"cj"},
		Categories:       []string{"all"},
		Namespaced:       true,
		Dir:              "cronjobs",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &batchv1.CronJob{} },
		NewList:          func() runtime.Object { return &batchv1.CronJobList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { batchobject.DefaultCronJob(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) { batchobject.PrepareCronJob(of(obj)) },
		Validate:         func(obj runtime.Object) field.ErrorList { return batchobject.ValidateCronJob(of(obj), nil) },
		Warnings: func(obj runtime.Object) []string {
			return append(warnPodNames(of(obj).Name), batchobject.CronJobWarnings(of(obj))...)
		},
		Updates: map[string]Update{
			"": {
				Prepare:            func(obj, old runtime.Object) { batchobject.PrepareCronJobUpdate(of(obj), of(old)) },
				Validate:           func(obj, old runtime.Object) field.ErrorList { return batchobject.ValidateCronJob(of(obj), of(old)) },
				Warnings:           func(obj, old runtime.Object) []string { return batchobject.CronJobUpdateWarnings(of(obj), of(old)) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: metaFields,
		Columns:    append(batchobject.CronJobColumns(nameColumn, ageColumn), wideColumns(selector)...),
		Row: func(obj runtime.Object, now time.Time) []any {
			return batchobject.CronJobRow(of(obj), func(t metav1.Time) string { return age(t, now) })
		},
	}
}
