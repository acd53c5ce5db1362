package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/cronjob"
	"podo.dev/podo/internal/controllers/garbage"
	"podo.dev/podo/internal/controllers/job"
	"podo.dev/podo/internal/controllers/ttlafterfinished"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// batch runs the controllers of Jobs and CronJobs; stop ends that of Jobs.
func (w *world) batch(told *record.FakeRecorder) (stop func()) {
	w.everyNamespace()
	config := job.Config{View: w.view, Client: w.controllers, Events: told}
	stop = w.run(job.New(config))
	w.run(job.NewOrphans(config))
	w.run(cronjob.New(cronjob.Config{View: w.view, Client: w.controllers, Events: told}))
	w.run(ttlafterfinished.New(w.view, w.controllers, nil))
	w.run(garbage.New(garbage.Config{View: w.view, Client: w.controllers, Events: told, Kinds: registry.All()}))
	return stop
}

// work are the pods of the namespace, by name.
func (w *world) work() (out []*v1.Pod) {
	synctest.Wait()
	for e := range w.view.Snapshot().All(client.Pods.At("", "").Resource, "default", view.Key{}) {
		out = append(out, e.Object.(*v1.Pod))
	}
	return out
}

func (w *world) runs() (out []*v1.Pod) {
	for _, p := range w.work() {
		if p.DeletionTimestamp == nil && p.Status.Phase == v1.PodPending {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) ends(p *v1.Pod, phase v1.PodPhase) {
	w.must(w.admin.Mutate(context.Background(), client.Pods.At(p.Namespace, p.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		o.(*v1.Pod).Status.Phase = phase
		o.(*v1.Pod).Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, LastTransitionTime: metav1.Now()}}
		return true, nil
	}))
	time.Sleep(time.Second)
}

func (w *world) jobStatus(name string) string {
	obj := w.get(job.Jobs.At("default", name))
	if obj == nil {
		return "gone"
	}
	s := obj.(*batchv1.Job).Status
	out := fmt.Sprintf("%d active, %d succeeded, %d failed", s.Active, s.Succeeded, s.Failed)
	for _, c := range s.Conditions {
		if c.Status == v1.ConditionTrue {
			out += ", " + string(c.Type)
		}
	}
	return out
}

func newJob(name string, edit func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	j.Spec.Template.Spec = v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "c", Image: "busybox"}}}
	if edit != nil {
		edit(&j.Spec)
	}
	return j
}

// A Job over the real verbs: pods fail and succeed, one is deleted while the controller is away, and all are counted; then it goes.
func TestJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		told := record.NewFakeRecorder(1000)
		stop := w.batch(told)
		w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("j", func(s *batchv1.JobSpec) {
			s.Completions, s.Parallelism, s.TTLSecondsAfterFinished = new(int32(3)), new(int32(2)), new(int32(60))
		})))
		time.Sleep(time.Second)
		if got := w.jobStatus("j"); got != "2 active, 0 succeeded, 0 failed" || len(w.runs()) != 2 {
			t.Fatal(got)
		}
		p := w.runs()[0]
		if p.Labels[batchv1.JobNameLabel] != "j" || !slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
			t.Errorf("%+v", p.ObjectMeta)
		}
		w.ends(p, v1.PodFailed)
		if got := w.jobStatus("j"); got != "1 active, 0 succeeded, 1 failed" {
			t.Error(got)
		}
		time.Sleep(11 * time.Second) // the back-off
		if got := w.jobStatus("j"); got != "2 active, 0 succeeded, 1 failed" {
			t.Error(got)
		}
		stop()
		gone, done := w.runs()[0], w.runs()[1]
		w.ends(done, v1.PodSucceeded)
		w.delete(client.Pods.At("default", done.Name))
		w.delete(client.Pods.At("default", gone.Name))
		if len(w.work()) != 3 {
			t.Fatalf("%d pods: one went uncounted", len(w.work()))
		}
		w.run(job.New(job.Config{View: w.view, Client: w.controllers, Events: told}))
		time.Sleep(time.Minute)
		if got := w.jobStatus("j"); got != "2 active, 1 succeeded, 2 failed" {
			t.Error(got)
		}
		for _, p := range w.runs() {
			w.ends(p, v1.PodSucceeded)
		}
		if got := w.jobStatus("j"); got != "0 active, 3 succeeded, 2 failed, SuccessCriteriaMet, Complete" {
			t.Error(got)
		}
		for _, p := range w.work() {
			if len(p.Finalizers) > 0 {
				t.Errorf("%s: %v", p.Name, p.Finalizers)
			}
		}
		time.Sleep(2 * time.Minute)
		if got := w.jobStatus("j"); got != "gone" || len(w.work()) != 0 {
			t.Errorf("%s, %d pods", got, len(w.work()))
		}
		events := map[string]int{}
		for len(told.Events) > 0 {
			events[strings.Fields(<-told.Events)[1]]++
		}
		if events["SuccessfulCreate"] != 5 || events["Completed"] != 1 {
			t.Error(events)
		}
		// What the controller has counted since it began anew.
		for _, c := range []struct {
			name   string
			labels []string
			want   float64
		}{
			{"job_controller_jobs_finished_total", []string{"NonIndexed", "CompletionsReached", "succeeded"}, 1},
			{"job_controller_job_pods_finished_total", []string{"NonIndexed", "succeeded"}, 3},
			{"job_controller_job_pods_finished_total", []string{"NonIndexed", "failed"}, 1},
			{"ttl_after_finished_controller_job_deletion_duration_seconds", nil, 1},
		} {
			if got := w.metric(c.name, c.labels...); got != c.want {
				t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
			}
		}
		for _, action := range []string{"pods_created", "tracking"} {
			if looks, timed := w.metric("job_controller_job_syncs_total", action, "NonIndexed", "success"), w.metric("job_controller_job_sync_duration_seconds", action, "NonIndexed", "success"); looks == 0 || looks != timed {
				t.Errorf("%s: %v looks, %v of them timed", action, looks, timed)
			}
		}
	})
}

// What the controller tells of the pods and indexes of Jobs, under upstream's names.
func TestJobMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.batch(record.NewFakeRecorder(1000))
		w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("theirs", func(s *batchv1.JobSpec) { s.ManagedBy = new("example.com/them") })))
		w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("j", func(s *batchv1.JobSpec) {
			s.Completions, s.Parallelism, s.CompletionMode = new(int32(3)), new(int32(3)), new(batchv1.IndexedCompletion)
			s.BackoffLimitPerIndex = new(int32(1))
			disrupted := []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}}
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: disrupted}}}
		})))
		time.Sleep(time.Second)
		failed := w.runs()[0]
		w.ends(failed, v1.PodFailed)
		w.ends(w.runs()[0], v1.PodSucceeded)
		w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", w.runs()[0].Name).Sub("status"), func(o runtime.Object) (bool, error) {
			s := &o.(*v1.Pod).Status
			s.Phase = v1.PodFailed
			s.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			return true, nil
		}))
		time.Sleep(15 * time.Second)
		for _, p := range w.runs() {
			if p.Annotations[batchv1.JobIndexFailureCountAnnotation] == "1" {
				w.ends(p, v1.PodFailed)
			}
		}
		for _, c := range []struct {
			name   string
			labels []string
			want   float64
		}{
			{"jobs_by_external_controller_total", []string{"example.com/them"}, 1},
			{"job_pods_creation_total", []string{"new", "succeeded"}, 3},
			{"job_pods_creation_total", []string{"recreate_failed", "succeeded"}, 2},
			{"job_finished_indexes_total", []string{"perIndex", "succeeded"}, 1},
			{"job_finished_indexes_total", []string{"perIndex", "failed"}, 1},
			{"pod_failures_handled_by_failure_policy_total", []string{"Ignore"}, 1},
			{"terminated_pods_tracking_finalizer_total", []string{"add"}, 4},
			{"terminated_pods_tracking_finalizer_total", []string{"delete"}, 4},
		} {
			if got := w.metric("job_controller_"+c.name, c.labels...); got != c.want {
				t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
			}
		}
	})
}

// A Job that is deleted leaves no pod behind that cannot go, orphaned or not.
func TestJobDeleted(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.batch(record.NewFakeRecorder(1000))
			w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("j", nil)))
			time.Sleep(time.Second)
			if err := w.admin.Delete(context.Background(), job.Jobs.At("default", "j"), metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			left := 0
			if policy == metav1.DeletePropagationOrphan {
				left = 1
			}
			if got := w.work(); w.jobStatus("j") != "gone" || len(got) != left || left == 1 && len(got[0].Finalizers) > 0 {
				t.Errorf("%s: %s, %d pods", policy, w.jobStatus("j"), len(got))
			}
		})
	}
}

// A CronJob starts at its minutes, keeps its history, and costs nothing in between.
func TestCronJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		told := record.NewFakeRecorder(1000)
		w.batch(told)
		c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
		c.Spec = batchv1.CronJobSpec{Schedule: "*/10 * * * *", SuccessfulJobsHistoryLimit: new(int32(2)), JobTemplate: batchv1.JobTemplateSpec{Spec: newJob("", nil).Spec}}
		w.must(w.admin.Create(context.Background(), cronjob.CronJobs.At("default", ""), c))
		time.Sleep(time.Second)
		for i := range 4 {
			time.Sleep(10 * time.Minute)
			if n := len(w.runs()); n != 1 {
				t.Fatalf("%d run after start %d", n, i+1)
			}
			got := w.get(cronjob.CronJobs.At("default", "c")).(*batchv1.CronJob).Status
			if len(got.Active) != 1 || got.LastScheduleTime.Minute()%10 != 0 || got.Active[0].Name != fmt.Sprintf("c-%d", got.LastScheduleTime.Unix()/60) {
				t.Errorf("%+v", got)
			}
			w.ends(w.runs()[0], v1.PodSucceeded)
		}
		got := w.get(cronjob.CronJobs.At("default", "c")).(*batchv1.CronJob).Status
		if len(got.Active) != 0 || got.LastSuccessfulTime == nil || len(w.work()) != 2 {
			t.Errorf("%+v, %d pods", got, len(w.work()))
		}
		if n := w.metric("cronjob_controller_job_creation_skew_duration_seconds"); n != 4 {
			t.Errorf("%v Jobs by the metric", n)
		}
	})
}
