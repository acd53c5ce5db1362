package job

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/registry/batchobject"
)

func expect(t *testing.T, w *world, want string) {
	t.Helper()
	w.settle()
	if got := w.text(); got != want {
		t.Errorf("have %s\nwant %s", got, want)
	}
}

// The documentation's first Job: one pod, done when it succeeds; when it fails, others follow, ever later.
func TestOnePod(t *testing.T) {
	w := newWorld(batchv1.JobSpec{BackoffLimit: new(int32(2))})
	expect(t, w, "active 1 ready 0 terminating 0 succeeded 0 failed 0")
	for i, delay := range []time.Duration{10 * time.Second, 20 * time.Second} {
		w.end(w.find(noIndex), v1.PodFailed, 1)
		w.settle()
		if w.find(noIndex) != nil || int(w.job.Status.Failed) != i+1 {
			t.Fatalf("failure %d: %s", i+1, w.text())
		}
		if p := Decide(w.job, w.pods, *w.backoff, w.now); p.Again != delay {
			t.Errorf("the next pod comes after %s, not %s", p.Again, delay)
		}
		w.now = w.now.Add(delay)
		w.settle()
	}
	w.end(w.find(noIndex), v1.PodFailed, 1)
	expect(t, w, "active 0 ready 0 terminating 0 succeeded 0 failed 3 FailureTarget=True:BackoffLimitExceeded Failed=True:BackoffLimitExceeded")
	if w.job.Status.CompletionTime != nil {
		t.Error("a failed Job has a time of completion")
	}
	w = newWorld(batchv1.JobSpec{})
	w.settle()
	w.end(w.find(noIndex), v1.PodSucceeded, 0)
	expect(t, w, "active 0 ready 0 terminating 0 succeeded 1 failed 0 SuccessCriteriaMet=True:CompletionsReached Complete=True:CompletionsReached")
	if !slices.Equal(w.told, []string{"Completed"}) {
		t.Error(w.told)
	}
}

// The clock of the node where a pod failed is an hour ahead, or behind: its successor comes after its back-off, neither later nor sooner.
func TestClocksOfNodes(t *testing.T) {
	for _, wrong := range []time.Duration{time.Hour, -time.Hour} {
		w := newWorld(batchv1.JobSpec{})
		w.settle()
		p := w.find(noIndex)
		p.CreationTimestamp = metav1.NewTime(w.now)
		right := w.now
		w.now = right.Add(wrong)
		w.end(p, v1.PodFailed, 1)
		w.now = right
		w.settle()
		if w.find(noIndex) != nil {
			t.Errorf("%s ahead: the next pod comes at once", wrong)
		}
		w.now = right.Add(firstDelay)
		w.settle()
		if w.find(noIndex) == nil {
			t.Errorf("%s ahead: the next pod does not come", wrong)
		}
	}
}

// A fixed completion count, and a work queue: "when any pod has terminated with success, no new pods are created".
func TestParallel(t *testing.T) {
	w := newWorld(batchv1.JobSpec{Completions: new(int32(5)), Parallelism: new(int32(2))})
	for range 4 {
		expect(t, w, w.textAfterSettle())
		if n := len(filter(w.pods, active)); n != 2 {
			t.Fatalf("%d run: %s", n, w.text())
		}
		w.end(w.find(noIndex), v1.PodSucceeded, 0)
	}
	expect(t, w, "active 1 ready 0 terminating 0 succeeded 4 failed 0")
	queue := newWorld(batchv1.JobSpec{Parallelism: new(int32(3))})
	expect(t, queue, "active 3 ready 0 terminating 0 succeeded 0 failed 0")
	queue.end(queue.find(noIndex), v1.PodSucceeded, 0)
	expect(t, queue, "active 2 ready 0 terminating 0 succeeded 1 failed 0")
	queue.end(queue.find(noIndex), v1.PodSucceeded, 0)
	queue.end(queue.find(noIndex), v1.PodFailed, 1)
	expect(t, queue, "active 0 ready 0 terminating 0 succeeded 2 failed 1 SuccessCriteriaMet=True:CompletionsReached Complete=True:CompletionsReached")
}

func (w *world) textAfterSettle() string { w.settle(); return w.text() }

func indexed(completions, parallelism int32) batchv1.JobSpec {
	return batchv1.JobSpec{Completions: &completions, Parallelism: &parallelism, CompletionMode: new(batchv1.IndexedCompletion)}
}

// The back-off of an index outlives a restart: the failed pod that waits for its replacement says how often it has failed. A node's clock
// that is ahead does not make it longer, but for the one wait that a restart begins anew.
func TestBackoffOfAnIndex(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour} {
		spec := indexed(1, 1)
		spec.BackoffLimitPerIndex = new(int32(5))
		w := newWorld(spec)
		w.settle()
		for n, delay := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
			began := w.now
			pod := w.find(0)
			w.now = w.now.Add(ahead)
			w.end(pod, v1.PodFailed, 1)
			w.now = began
			w.settle()
			if w.now = began.Add(5 * time.Second); ahead == 0 {
				w.backoff = nil // the controller starts anew
			}
			w.settle()
			w.now = began.Add(delay - time.Second)
			w.settle()
			if w.find(0) != nil {
				t.Errorf("clock %s ahead: failure %d is replaced within %s", ahead, n+1, delay)
			}
			w.now = began.Add(delay)
			w.settle()
			if w.find(0) == nil {
				t.Fatalf("clock %s ahead: failure %d is not replaced after %s", ahead, n+1, delay)
			}
			if n := number(w.find(0), batchv1.JobIndexFailureCountAnnotation); n == 0 {
				t.Error("the replacement does not know of the failure")
			}
		}
		if len(w.backoff.Kept) != 0 {
			t.Errorf("remembers %v", w.backoff.Kept)
		}
		w.end(w.find(0), v1.PodFailed, 1)
		w.pods[len(w.pods)-1].Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(w.now.Add(ahead))
		w.settle()
		w.now, w.backoff = w.now.Add(time.Minute), nil
		w.settle()
		w.now = w.now.Add(80 * time.Second)
		w.settle()
		if w.find(0) == nil {
			t.Errorf("clock %s ahead: a restart costs more than one wait", ahead)
		}
	}
}

// The documentation's example of a limit for each index: an index that fails too often is lost, the others go on.
func TestBackoffLimitPerIndex(t *testing.T) {
	spec := indexed(3, 3)
	spec.BackoffLimitPerIndex = new(int32(1))
	w := newWorld(spec)
	w.settle()
	w.end(w.find(1), v1.PodFailed, 1)
	expect(t, w, "active 2 ready 0 terminating 0 succeeded 0 failed 0 done  lost ")
	w.now = w.now.Add(10 * time.Second)
	expect(t, w, "active 3 ready 0 terminating 0 succeeded 0 failed 1 done  lost ")
	if p := w.find(1); p.Annotations[batchv1.JobIndexFailureCountAnnotation] != "1" || p.Spec.Hostname != "j-1" || p.Labels[batchv1.JobCompletionIndexAnnotation] != "1" {
		t.Errorf("%+v %s", p.ObjectMeta, p.Spec.Hostname)
	}
	w.end(w.find(1), v1.PodFailed, 1)
	w.end(w.find(0), v1.PodSucceeded, 0)
	expect(t, w, "active 1 ready 0 terminating 0 succeeded 1 failed 2 done 0 lost 1")
	w.end(w.find(2), v1.PodSucceeded, 0)
	expect(t, w, "active 0 ready 0 terminating 0 succeeded 2 failed 2 done 0,2 lost 1 FailureTarget=True:FailedIndexes Failed=True:FailedIndexes")
	spec.MaxFailedIndexes, spec.BackoffLimitPerIndex = new(int32(0)), new(int32(0))
	w = newWorld(spec)
	w.settle()
	w.end(w.find(0), v1.PodFailed, 1)
	w.settle()
	for _, p := range slices.Clone(w.pods) {
		w.end(p, v1.PodFailed, 143)
	}
	expect(t, w, "active 0 ready 0 terminating 0 succeeded 0 failed 3 done  lost 0 FailureTarget=True:MaxFailedIndexesExceeded Failed=True:MaxFailedIndexesExceeded")
}

// The documentation's pod failure policy: exit code 42 fails the Job, disruptions count nothing.
func TestPodFailurePolicy(t *testing.T) {
	spec := batchv1.JobSpec{
		Completions: new(int32(12)), Parallelism: new(int32(3)), BackoffLimit: new(int32(0)),
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new("c"), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
			}},
			{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: v1.DisruptionTarget, Status: v1.ConditionTrue},
			}},
		}},
	}
	w := newWorld(spec)
	w.settle()
	evicted := w.find(noIndex)
	w.change(evicted, func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}}
	})
	w.end(evicted, v1.PodFailed, 137)
	w.settle()
	w.now = w.now.Add(10 * time.Second)
	expect(t, w, "active 3 ready 0 terminating 0 succeeded 0 failed 0")
	w.end(w.find(noIndex), v1.PodFailed, 42)
	expect(t, w, "active 0 ready 0 terminating 2 succeeded 0 failed 3 FailureTarget=True:PodFailurePolicy")
	if m := w.job.Status.Conditions[0].Message; m != "Container c for pod default/j-1 failed with exit code 42 matching FailJob rule at index 0" &&
		m != "Container c for pod default/j-2 failed with exit code 42 matching FailJob rule at index 0" && m != "Container c for pod default/j-3 failed with exit code 42 matching FailJob rule at index 0" {
		t.Error(m)
	}
	for _, p := range filter(w.pods, terminating) {
		w.end(p, v1.PodFailed, 143)
	}
	expect(t, w, "active 0 ready 0 terminating 0 succeeded 0 failed 3 FailureTarget=True:PodFailurePolicy Failed=True:PodFailurePolicy")
}

// The documentation's success policy: done when the leader is, whatever the workers do.
func TestSuccessPolicy(t *testing.T) {
	spec := indexed(10, 10)
	spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: new("0,2-3"), SucceededCount: new(int32(1))}}}
	w := newWorld(spec)
	w.settle()
	w.end(w.find(1), v1.PodSucceeded, 0)
	expect(t, w, "active 9 ready 0 terminating 0 succeeded 1 failed 0 done 1")
	w.end(w.find(2), v1.PodSucceeded, 0)
	expect(t, w, "active 0 ready 0 terminating 8 succeeded 2 failed 0 done 1,2 SuccessCriteriaMet=True:SuccessPolicy")
	for _, p := range filter(w.pods, terminating) {
		w.end(p, v1.PodFailed, 143)
	}
	expect(t, w, "active 0 ready 0 terminating 0 succeeded 2 failed 0 done 1,2 SuccessCriteriaMet=True:SuccessPolicy Complete=True:SuccessPolicy")
}

func TestSuspension(t *testing.T) {
	w := newWorld(batchv1.JobSpec{Suspend: new(true), Parallelism: new(int32(2)), Completions: new(int32(2)), ActiveDeadlineSeconds: new(int64(60))})
	expect(t, w, "active 0 ready 0 terminating 0 succeeded 0 failed 0 Suspended=True:JobSuspended")
	if w.job.Status.StartTime != nil {
		t.Error("it has started")
	}
	w.now = w.now.Add(time.Hour)
	w.job.Spec.Suspend = new(false)
	expect(t, w, "active 2 ready 0 terminating 0 succeeded 0 failed 0 Suspended=False:JobResumed")
	w.job.Spec.Suspend = new(true)
	expect(t, w, "active 0 ready 0 terminating 2 succeeded 0 failed 0 Suspended=True:JobSuspended")
	w.job.Spec.Suspend = new(false)
	for _, p := range slices.Clone(w.pods) {
		w.end(p, v1.PodFailed, 143)
	}
	expect(t, w, "active 2 ready 0 terminating 0 succeeded 0 failed 0 Suspended=False:JobResumed")
	w.now = w.now.Add(time.Minute)
	w.settle()
	for _, p := range slices.Clone(w.pods) {
		w.end(p, v1.PodFailed, 143)
	}
	expect(t, w, "active 0 ready 0 terminating 0 succeeded 0 failed 2 Suspended=False:JobResumed FailureTarget=True:DeadlineExceeded Failed=True:DeadlineExceeded")
	if !slices.Equal(w.told, []string{"Suspended", "Resumed", "Suspended", "Resumed", "DeadlineExceeded"}) {
		t.Error(w.told)
	}
}

// An older controller left the time of its start to a suspended Job: its deadline begins when it is resumed all the same.
func TestResumeAfterATakeOver(t *testing.T) {
	w := newWorld(batchv1.JobSpec{Suspend: new(true), ActiveDeadlineSeconds: new(int64(60))})
	w.settle()
	w.job.Status.StartTime = new(metav1.NewTime(w.now))
	w.now = w.now.Add(time.Hour)
	w.job.Spec.Suspend = new(false)
	expect(t, w, "active 1 ready 0 terminating 0 succeeded 0 failed 0 Suspended=False:JobResumed")
	if !w.job.Status.StartTime.Time.Equal(w.now) {
		t.Errorf("it has started at %s", w.job.Status.StartTime)
	}
}

// A pod that is asked to end is replaced at once, or only when it has ended.
func TestReplacement(t *testing.T) {
	for _, policy := range []batchv1.PodReplacementPolicy{batchv1.TerminatingOrFailed, batchv1.Failed} {
		w := newWorld(batchv1.JobSpec{PodReplacementPolicy: &policy})
		w.settle()
		victim := w.find(noIndex)
		w.change(victim, func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(w.now)) })
		w.now = w.now.Add(10 * time.Second)
		w.settle()
		if late := w.find(noIndex) == nil; late != (policy == batchv1.Failed) {
			t.Errorf("%s: %s", policy, w.text())
		}
		w.end(victim, v1.PodFailed, 143)
		w.settle()
		w.now = w.now.Add(10 * time.Second)
		w.settle()
		if w.find(noIndex) == nil || w.job.Status.Failed != 1 {
			t.Errorf("%s: %s", policy, w.text())
		}
	}
}

// Elastic Jobs grow and shrink; what is out of range counts no more.
func TestElastic(t *testing.T) {
	w := newWorld(indexed(3, 3))
	w.settle()
	w.end(w.find(2), v1.PodSucceeded, 0)
	expect(t, w, "active 2 ready 0 terminating 0 succeeded 1 failed 0 done 2")
	w.job.Spec.Completions, w.job.Spec.Parallelism = new(int32(2)), new(int32(2))
	expect(t, w, "active 2 ready 0 terminating 0 succeeded 0 failed 0 done ")
	w.job.Spec.Completions, w.job.Spec.Parallelism = new(int32(1)), new(int32(1))
	w.settle()
	if p := w.find(noIndex); index(p) != 0 || len(filter(w.pods, active)) != 1 {
		t.Errorf("%d runs: %s", index(p), w.text())
	}
}

func TestIndexes(t *testing.T) {
	for text, want := range map[string]string{"1,3-5,7": "1,3-5,7", "0-9": "0-7", "": "", "3,4": "3,4", "9": "", "a,2": "2", "1-2": "1,2"} {
		if got := parseIndexes(text, 8).String(); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.SliceOfDistinct(rapid.IntRange(0, 30), func(i int) int { return i })
		a, b := set.Draw(t, "a"), set.Draw(t, "b")
		x, y := indexes(nil).with(slices.Clone(a)...), indexes(nil).with(slices.Clone(b)...)
		both, either := 0, x.merge(y)
		for i := range 31 {
			in, in2 := slices.Contains(a, i), slices.Contains(b, i)
			if x.has(i) != in || either.has(i) != (in || in2) || slices.Contains(x.missing(31, 31), i) == in {
				t.Fatalf("%d of %s and %s", i, x, y)
			}
			if in && in2 {
				both++
			}
		}
		if x.common(y) != both || y.common(x) != both || x.total() != len(a) || parseIndexes(x.String(), 31).String() != x.String() {
			t.Fatalf("%s and %s", x, y)
		}
	})
}

// Whatever happens to pods, and wherever the controller crashes: each pod that ended is counted once, there are never more than
// parallelism, and when nothing happens any more there are as many as there should be, and nothing is done any more.
func TestEveryPodIsCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := batchv1.JobSpec{
			Completions: new(rapid.Int32Range(0, 6).Draw(t, "completions")), Parallelism: new(rapid.Int32Range(0, 4).Draw(t, "parallelism")),
			BackoffLimit: new(int32(100)),
		}
		perIndex := false
		if rapid.Bool().Draw(t, "indexed") {
			spec.CompletionMode = new(batchv1.IndexedCompletion)
			if perIndex = rapid.Bool().Draw(t, "perIndex"); perIndex {
				spec.BackoffLimitPerIndex = new(rapid.Int32Range(0, 2).Draw(t, "limit"))
			}
		}
		spec.PodReplacementPolicy = new(batchv1.Failed) // who is asked to end is counted when he has
		w := newWorld(spec)
		done := map[int]int{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w.crashIn = 0
			if rapid.Bool().Draw(t, "crashes") {
				w.crashIn = rapid.IntRange(1, 6).Draw(t, "in")
			}
			w.sync()
			if len(w.pods) > 0 {
				p := rapid.SampledFrom(w.pods).Draw(t, "pod")
				switch rapid.IntRange(0, 3).Draw(t, "what") {
				case 0:
					if !finished(p) {
						if tracked(p) {
							done[index(p)]++
						}
						w.end(p, v1.PodSucceeded, 0)
					}
				case 1:
					if !finished(p) {
						w.end(p, v1.PodFailed, 1)
					}
				case 2:
					w.change(p, func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(w.now)) })
				}
			}
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
		}
		w.crashIn = 0
		w.settle()
		for range 10 { // everybody who waits for a replacement gets one, or his index is lost; who is to end has ended
			w.now = w.now.Add(time.Hour)
			for _, p := range slices.Clone(w.pods) {
				if p.DeletionTimestamp != nil && !finished(p) {
					w.end(p, v1.PodFailed, 137)
				}
			}
			w.settle()
		}
		s := w.job.Status
		succeeded := w.succeeded
		if spec.CompletionMode != nil {
			succeeded = len(done)
		}
		if int(s.Succeeded) != succeeded {
			t.Fatalf("%d succeeded, counted: %s", succeeded, w.text())
		}
		if waits := perIndex && *spec.Parallelism == 0; int(s.Failed) != w.failed && !waits {
			t.Fatalf("%d failed, counted: %s", w.failed, w.text())
		}
		if w.mostActive > int(*spec.Parallelism) {
			t.Fatalf("%d were active at once", w.mostActive)
		}
		if want := int(min(*spec.Parallelism, *spec.Completions-s.Succeeded)); !perIndex && !batchobject.Finished(w.job) && len(filter(w.pods, active)) != want {
			t.Fatalf("%d should be active: %s", want, w.text())
		}
		if w.sync() {
			t.Fatal("it never rests")
		}
	})
}
