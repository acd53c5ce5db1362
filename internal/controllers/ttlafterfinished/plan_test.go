package ttlafterfinished

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGoes(t *testing.T) {
	ended := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ends := func(what batchv1.JobConditionType, s v1.ConditionStatus) []batchv1.JobCondition {
		return []batchv1.JobCondition{{Type: what, Status: s, LastTransitionTime: metav1.NewTime(ended)}}
	}
	for _, c := range []struct {
		what       string
		ttl        *int32
		conditions []batchv1.JobCondition
		deleting   bool
		want       time.Time // zero: it stays
	}{
		{"it runs", new(int32(5)), nil, false, time.Time{}},
		{"it is about to fail", new(int32(5)), ends(batchv1.JobFailureTarget, v1.ConditionTrue), false, time.Time{}},
		{"it has completed", new(int32(5)), ends(batchv1.JobComplete, v1.ConditionTrue), false, ended.Add(5 * time.Second)},
		{"it has failed, and goes at once", new(int32(0)), ends(batchv1.JobFailed, v1.ConditionTrue), false, ended},
		{"it has no limit", nil, ends(batchv1.JobComplete, v1.ConditionTrue), false, time.Time{}},
		{"it goes already", new(int32(5)), ends(batchv1.JobComplete, v1.ConditionTrue), true, time.Time{}},
	} {
		j := &batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: c.ttl}, Status: batchv1.JobStatus{Conditions: c.conditions}}
		if c.deleting {
			j.DeletionTimestamp = new(metav1.NewTime(ended))
		}
		if at, ok := Goes(j); !at.Equal(c.want) || ok == c.want.IsZero() {
			t.Errorf("%s: %v %v", c.what, at, ok)
		}
	}
}
