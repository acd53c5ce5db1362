package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/statefulset"
	"podo.dev/podo/internal/view"
)

// StatefulSets, each with a disruption budget, and Jobs: what users do with them, and what must hold of them.

var (
	statefulSets = client.Resource{Group: appsv1.GroupName, Resource: "statefulsets"}
	jobs         = client.Resource{Group: batchv1.GroupName, Resource: "jobs"}
	budgets      = client.Resource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}
)

// Labels of a set's pods: its name, and how many of them its budget keeps.
const (
	setLabel   = "set"
	leastLabel = "least"
)

// keepers is what users do with StatefulSets and Jobs.
var keepers = []action{{6, (*World).createSet}, {6, (*World).changeSet}, {1, (*World).deleteSet}, {6, (*World).createJob}, {1, (*World).deleteJob}}

func (w *World) createSet() {
	w.serial++
	name, least := fmt.Sprintf("set-%d", w.serial), 1+w.rng.IntN(2)
	labels := map[string]string{setLabel: name, leastLabel: strconv.Itoa(least)}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{setLabel: name}}
	_, err := w.admin.Create(w.ctx(), budgets.At("default", ""), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt(least)), Selector: selector},
	})
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	set.Spec.Replicas, set.Spec.Selector = new(int32(1+w.rng.IntN(4))), selector
	set.Spec.PodManagementPolicy = []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement}[w.rng.IntN(2)]
	set.Spec.Template = v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1 + w.rng.IntN(20))), // with none, a deletion does not wait for the kubelet
		Containers:                    []v1.Container{{Name: "main", Image: Image, ImagePullPolicy: v1.PullIfNotPresent, Command: w.program()}},
	}}
	_, serr := w.admin.Create(w.ctx(), statefulSets.At("default", ""), set)
	w.note("create %s of %d, %s, with a budget that keeps %d: %v %v", name, *set.Spec.Replicas, set.Spec.PodManagementPolicy, least, err, serr)
}

func pick[T runtime.Object](w *World, r client.Resource) (out T, ok bool) {
	var all []T
	for e := range w.View.Snapshot().All(schema.GroupResource(r), "", view.Key{}) {
		all = append(all, e.Object.(T))
	}
	if len(all) == 0 {
		return out, false
	}
	return all[w.rng.IntN(len(all))], true
}

// changeSet changes a set's size or its template.
func (w *World) changeSet() {
	set, ok := pick[*appsv1.StatefulSet](w, statefulSets)
	if !ok {
		return
	}
	what, n, program := w.rng.IntN(2), int32(w.rng.IntN(5)), w.program()
	_, err := w.admin.Mutate(w.ctx(), statefulSets.At(set.Namespace, set.Name), func(o runtime.Object) (bool, error) {
		spec := &o.(*appsv1.StatefulSet).Spec
		if what == 0 {
			spec.Replicas = &n
		} else {
			spec.Template.Spec.Containers[0].Command = program
		}
		return true, nil
	})
	w.note("change %s (%d, %d, %v): %v", set.Name, what, n, program, err)
}

func (w *World) deleteSet() {
	set, ok := pick[*appsv1.StatefulSet](w, statefulSets)
	if !ok {
		return
	}
	how := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground}[w.rng.IntN(2)]
	err := w.admin.Delete(w.ctx(), statefulSets.At(set.Namespace, set.Name), metav1.DeleteOptions{PropagationPolicy: &how})
	w.note("delete %s (%s): %v", set.Name, how, err)
}

func (w *World) createJob() {
	w.serial++
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("job-%d", w.serial)}}
	j.Spec.Completions, j.Spec.Parallelism, j.Spec.BackoffLimit = new(int32(1+w.rng.IntN(5))), new(int32(1+w.rng.IntN(3))), new(int32(w.rng.IntN(4)))
	if w.rng.IntN(2) == 0 {
		j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	}
	j.Spec.Template.Spec = v1.PodSpec{
		RestartPolicy: v1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(w.rng.IntN(20))),
		Containers: []v1.Container{{Name: "main", Image: Image, ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"work"}}},
	}
	_, err := w.admin.Create(w.ctx(), jobs.At("default", ""), j)
	w.note("create %s, %d by %d, limit %d: %v", j.Name, *j.Spec.Completions, *j.Spec.Parallelism, *j.Spec.BackoffLimit, err)
}

func (w *World) deleteJob() {
	j, ok := pick[*batchv1.Job](w, jobs)
	if !ok {
		return
	}
	how := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}[w.rng.IntN(3)]
	err := w.admin.Delete(w.ctx(), jobs.At(j.Namespace, j.Name), metav1.DeleteOptions{PropagationPolicy: &how})
	w.note("delete %s (%s): %v", j.Name, how, err)
}

// setsKept: a set has its pods, each of its number and all of its template, and says so.
func (w *World) setsKept(s view.Snapshot) {
	w.t.Helper()
	have := map[string][]int{}
	for _, p := range pods(s) {
		if ref := metav1.GetControllerOf(p); ref != nil && ref.Kind == "StatefulSet" {
			have[ref.Name] = append(have[ref.Name], statefulset.Ordinal(p))
		}
	}
	for e := range s.All(schema.GroupResource(statefulSets), "", view.Key{}) {
		set := e.Object.(*appsv1.StatefulSet)
		n, st := *set.Spec.Replicas, set.Status
		var want []int
		for i := range n {
			want = append(want, int(i))
		}
		slices.Sort(have[set.Name])
		if !slices.Equal(have[set.Name], want) || st.ObservedGeneration != set.Generation || st.Replicas != n || st.ReadyReplicas != n ||
			st.UpdatedReplicas != n || st.CurrentRevision != st.UpdateRevision {
			w.Failf(nil, "%s of %d has the pods %v and says %+v", set.Name, n, have[set.Name], st)
		}
	}
}

// jobsCounted: a Job has ended, its counts are what ran, and nothing holds its pods.
func (w *World) jobsCounted(s view.Snapshot) {
	w.t.Helper()
	for e := range s.All(schema.GroupResource(jobs), "", view.Key{}) {
		j := e.Object.(*batchv1.Job)
		done := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == v1.ConditionTrue
		})
		if !done || j.Status.Active != 0 || j.DeletionTimestamp != nil {
			w.Failf(nil, "%s has not ended: %+v", j.Name, j)
		}
		if wrong := w.ledger.counted(j); wrong != "" {
			w.Failf(nil, "%s: %s; it says %+v", j.Name, wrong, j.Status)
		}
	}
	for _, p := range pods(s) {
		if ended(p) && slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
			w.Failf(p, "%s has ended and is not counted", p.Name)
		}
	}
}

// giveUpKeepers deletes every set and Job.
func (w *World) giveUpKeepers() {
	w.t.Helper()
	for _, r := range []client.Resource{statefulSets, jobs} {
		for e := range w.View.Snapshot().All(schema.GroupResource(r), "", view.Key{}) {
			w.must(w.admin.Delete(w.ctx(), r.At("default", e.Key.Name), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
		}
	}
}

// starts says that a machine runs a pod of a set. Never do two of one number run, wherever, unless somebody said that the one's machine is
// no more.
func (w *World) starts(m *Machine, p *v1.Pod) {
	if p.Labels[setLabel] == "" {
		return
	}
	w.alive.Lock()
	defer w.alive.Unlock()
	if m.runs[p.UID] != "" {
		return
	}
	for _, other := range w.machines {
		for uid, name := range other.runs {
			if name == p.Name && !other.disowned {
				w.t.Errorf("seed %d: %s (%s) runs on %s while %s of its name does on %s", w.opts.Seed, p.Name, p.UID, m.Name, uid, other.Name)
			}
		}
	}
	m.runs[p.UID] = p.Name
}

// life is how long a Job's pod works, and how that ends.
func life(p *v1.Pod) (time.Duration, v1.PodPhase) {
	sum := 0
	for _, c := range p.UID {
		sum = sum*31 + int(c)
	}
	sum = max(sum, -sum)
	if sum%7 == 0 {
		return time.Duration(sum%40) * time.Second, v1.PodFailed
	}
	return time.Duration(sum%40) * time.Second, v1.PodSucceeded
}
