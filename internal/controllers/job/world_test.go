package job

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/registry/batchobject"
)

// world is a Job and its pods as the store has them, and the controller's steps: each write is one, and it may crash before any.
type world struct {
	job     *batchv1.Job
	pods    []*v1.Pod
	backoff *Backoff
	now     time.Time
	made    int
	told    []string
	crashIn int                // after so many writes; 0 for never
	young   map[types.UID]bool // pods that were made since nothing else happens; nil while something does

	// What really happened to pods that were to be counted.
	succeeded, failed int
	mostActive        int
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld(spec batchv1.JobSpec) *world {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j", UID: "u", CreationTimestamp: metav1.NewTime(start)}, Spec: spec}
	if j.Spec.Template.Spec.RestartPolicy == "" {
		j.Spec.Template.Spec.RestartPolicy = v1.RestartPolicyNever
	}
	batchobject.DefaultJob(j)
	batchobject.PrepareJob(j)
	return &world{job: j, now: start}
}

type crash struct{}

// write counts a write, and crashes instead of it when it is time to.
func (w *world) write() {
	if w.crashIn > 0 {
		if w.crashIn--; w.crashIn == 0 {
			panic(crash{})
		}
	}
}

// sync is one look of the controller; false says that there was nothing to do.
func (w *world) sync() (did bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crash); !ok {
				panic(p)
			}
			w.backoff, did = nil, true // the memory is lost
		}
		w.mostActive = max(w.mostActive, len(filter(w.pods, active)))
	}()
	if batchobject.Finished(w.job) {
		return false
	}
	if w.backoff == nil {
		w.backoff = new(Seed(w.job, w.pods))
	}
	p := Decide(w.job, w.pods, *w.backoff, w.now)
	for _, c := range p.Create {
		w.write()
		pod := newPod(w.job, c)
		w.made++
		pod.Name = fmt.Sprintf("%s%d", pod.GenerateName, w.made)
		pod.UID = types.UID(pod.Name)
		pod.CreationTimestamp = metav1.NewTime(w.now)
		pod.Status.Phase = v1.PodPending
		w.pods = append(w.pods, pod)
		if w.young != nil {
			w.young[pod.UID] = true
		}
		did = true
	}
	for _, pod := range p.Remove {
		if w.young[pod.UID] {
			panic("a pod comes and goes while nothing happens")
		}
		w.remove(pod)
		did = true
	}
	if !equality.Semantic.DeepEqual(p.Status, w.job.Status) {
		w.write()
		next := w.job.DeepCopy()
		next.Status = p.Status
		if errs := batchobject.ValidateJobStatus(next, w.job); len(errs) > 0 {
			panic(errs.ToAggregate())
		}
		w.job = next
		for _, e := range p.Tell {
			w.told = append(w.told, e.Reason)
		}
		did = true
	}
	w.backoff = &p.Backoff
	for _, pod := range p.Untrack {
		w.untrack(pod)
		did = true
	}
	for _, pod := range p.End {
		w.remove(pod)
		did = true
	}
	return did
}

// settle lets the controller look until there is nothing to do. What it makes meanwhile it does not remove.
func (w *world) settle() {
	w.young = map[types.UID]bool{}
	defer func() { w.young = nil }()
	for range 1000 {
		if !w.sync() {
			return
		}
	}
	panic("the controller does not come to rest")
}

// change replaces a pod, as a write does; others may hold the old one.
func (w *world) change(pod *v1.Pod, edit func(*v1.Pod)) {
	i := slices.IndexFunc(w.pods, func(p *v1.Pod) bool { return p.UID == pod.UID })
	if i < 0 {
		return
	}
	w.pods[i] = w.pods[i].DeepCopy()
	edit(w.pods[i])
	if p := w.pods[i]; p.DeletionTimestamp != nil && finished(p) && !tracked(p) {
		w.pods = slices.Delete(w.pods, i, i+1)
	}
}

func (w *world) untrack(pod *v1.Pod) {
	if !tracked(pod) {
		return
	}
	w.write()
	w.change(pod, func(p *v1.Pod) { p.Finalizers = nil })
}

func (w *world) remove(pod *v1.Pod) {
	w.untrack(pod)
	w.write()
	w.change(pod, func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(w.now)) })
}

// end is what a kubelet says of a pod that has ended. Whatever ends with its finalizer is to be counted.
func (w *world) end(pod *v1.Pod, phase v1.PodPhase, code int32) {
	w.change(pod, func(p *v1.Pod) {
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{
			Terminated: &v1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(w.now)},
		}}}
		if !tracked(p) {
			return
		}
		if phase == v1.PodSucceeded {
			w.succeeded++
		} else {
			w.failed++
		}
	})
}

func (w *world) find(index int) *v1.Pod {
	for _, p := range w.pods {
		if active(p) && (index == noIndex || indexOf(p) == index) {
			return p
		}
	}
	return nil
}

func indexOf(p *v1.Pod) int { return index(p) }

// text is the state in a line.
func (w *world) text() string {
	s := w.job.Status
	out := fmt.Sprintf("active %d ready %d terminating %d succeeded %d failed %d", s.Active, *s.Ready, *s.Terminating, s.Succeeded, s.Failed)
	if batchobject.Indexed(&w.job.Spec) {
		out += " done " + s.CompletedIndexes
	}
	if s.FailedIndexes != nil {
		out += " lost " + *s.FailedIndexes
	}
	for _, c := range s.Conditions {
		out += fmt.Sprintf(" %s=%s:%s", c.Type, c.Status, c.Reason)
	}
	return out
}
