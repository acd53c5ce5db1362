package job

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/controllers/podset"
)

// noIndex is the index of pods that have none.
const noIndex = -1

func index(p *v1.Pod) int {
	if i, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation]); err == nil && i >= 0 {
		return i
	}
	return noIndex
}

func tracked(p *v1.Pod) bool { return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) }

func finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

func active(p *v1.Pod) bool { return !finished(p) && p.DeletionTimestamp == nil }

func terminating(p *v1.Pod) bool { return !finished(p) && p.DeletionTimestamp != nil }

func ready(p *v1.Pod) bool {
	_, ok := podset.Ready(p)
	return ok
}

func filter(pods []*v1.Pod, keep func(*v1.Pod) bool) (out []*v1.Pod) {
	for _, p := range pods {
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

func number(p *v1.Pod, annotation string) int {
	n, err := strconv.Atoi(p.Annotations[annotation])
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return n
}

// failures are how often pods of the index have failed before this one: those that count, and those that a policy ignores.
func failures(p *v1.Pod) (counted, ignored int) {
	return number(p, batchv1.JobIndexFailureCountAnnotation), number(p, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// spareFirst orders active pods so that those that have come the least far are first: unbound before bound, pending before unknown
// before running, not ready before ready, ready for a shorter time, with more restarts, younger.
func spareFirst(pods []*v1.Pod) {
	no := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	phase := map[v1.PodPhase]int{v1.PodPending: 0, v1.PodUnknown: 1, v1.PodRunning: 2}
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int {
		sinceA, readyA := podset.Ready(a)
		sinceB, readyB := podset.Ready(b)
		c := cmp.Or(
			cmp.Compare(no(a.Spec.NodeName != ""), no(b.Spec.NodeName != "")),
			cmp.Compare(phase[a.Status.Phase], phase[b.Status.Phase]),
			cmp.Compare(no(readyA), no(readyB)),
		)
		if c == 0 && readyA {
			c = sinceB.Compare(sinceA)
		}
		return cmp.Or(c, podset.Restarts(a, b), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// longestGenerated is how much of a pod's name is not random.
const longestGenerated = 58

// newPod is a pod of a Job; c says which of an indexed one.
func newPod(j *batchv1.Job, c Creation) *v1.Pod {
	pod := Kind.New(j, &j.Spec.Template)
	if !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if c.Index == noIndex {
		return pod
	}
	text := strconv.Itoa(c.Index)
	for _, m := range []*map[string]string{&pod.Annotations, &pod.Labels} {
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[batchv1.JobCompletionIndexAnnotation] = text
	}
	if j.Spec.BackoffLimitPerIndex != nil {
		pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(c.Failures)
		if c.Ignored > 0 {
			pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(c.Ignored)
		}
	}
	pod.Spec.Hostname = j.Name + "-" + text
	suffix := "-" + text + "-"
	pod.GenerateName = j.Name[:min(len(j.Name), longestGenerated-len(suffix))] + suffix
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			tellIndex(&list[i])
		}
	}
	return pod
}

// tellIndex lets a container know its index, unless its author has said otherwise.
func tellIndex(c *v1.Container) {
	const name = "JOB_COMPLETION_INDEX"
	if slices.ContainsFunc(c.Env, func(e v1.EnvVar) bool { return e.Name == name }) {
		return
	}
	c.Env = append(c.Env, v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{
		FieldPath: fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation),
	}}})
}
