package batchobject

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/check"
)

// templateUpdate: a template does not change once pods can have been made of it. While the Job is suspended and has none, where its
// pods may run and what their containers ask for can still be said.
func templateUpdate(e *check.Errors, j, old *batchv1.Job) {
	t, was := &j.Spec.Template, &old.Spec.Template
	if !noPods(old) {
		frozen(e, specPath.Child("template"), t, was)
		return
	}
	was = was.DeepCopy()
	allowPlacement(&was.Spec, &t.Spec)
	for _, lists := range [][2][]v1.Container{{was.Spec.Containers, t.Spec.Containers}, {was.Spec.InitContainers, t.Spec.InitContainers}} {
		if len(lists[0]) != len(lists[1]) {
			continue
		}
		for i := range lists[0] {
			if lists[0][i].Name == lists[1][i].Name {
				lists[0][i].Resources = lists[1][i].Resources
			}
		}
	}
	// The labels and annotations of the template may change too.
	frozen(e, specPath.Child("template.spec"), t.Spec, was.Spec)
}

// noPods tells a suspended Job whose pods, if there ever were any, are gone.
func noPods(j *batchv1.Job) bool {
	return j.Spec.Suspend != nil && *j.Spec.Suspend && j.Status.Active == 0 &&
		(j.Status.StartTime == nil || Has(j, batchv1.JobSuspended))
}

// allowPlacement makes old say of the pods' nodes what s says.
func allowPlacement(old, s *v1.PodSpec) {
	switch {
	case s.Affinity == nil && old.Affinity != nil:
		old.Affinity.NodeAffinity = nil
		if *old.Affinity == (v1.Affinity{}) {
			old.Affinity = nil // it said nothing else
		}
	case s.Affinity != nil && old.Affinity == nil:
		old.Affinity = &v1.Affinity{NodeAffinity: s.Affinity.NodeAffinity}
	case s.Affinity != nil:
		old.Affinity.NodeAffinity = s.Affinity.NodeAffinity
	}
	old.NodeSelector = s.NodeSelector
	old.Tolerations, old.SchedulingGates = slices.Clone(s.Tolerations), slices.Clone(s.SchedulingGates)
}
