package job

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	firstDelay = 10 * time.Second
	lastDelay  = 10 * time.Minute
)

// Backoff is how many pods of a Job have failed since the last one that succeeded, and when the last one did. With a limit for each index,
// Kept has when the pods ended that wait for their replacement: their failures are counted in their annotations.
type Backoff struct {
	Failures int
	Last     time.Time
	Kept     map[types.UID]time.Time
}

// After is the back-off once further pods have ended.
func (b Backoff) After(succeeded, failed []*v1.Pod) Backoff {
	if len(succeeded) > 0 {
		last := ended(slices.MaxFunc(succeeded, byEnd))
		b = Backoff{Kept: b.Kept}
		failed = slices.DeleteFunc(slices.Clone(failed), func(p *v1.Pod) bool { return !ended(p).After(last) })
	}
	if len(failed) > 0 {
		b.Failures += len(failed)
		b.Last = ended(slices.MaxFunc(failed, byEnd))
	}
	return b
}

func byEnd(a, b *v1.Pod) int { return cmp.Or(ended(a).Compare(ended(b)), cmp.Compare(a.Name, b.Name)) }

// Left is how long no pod may be created yet: 10 s after a failure, twice as long after each further one, ten minutes at most.
func (b Backoff) Left(now time.Time) time.Duration {
	if b.Failures == 0 {
		return 0
	}
	delay := firstDelay
	for i := 1; i < b.Failures && delay < lastDelay; i++ {
		delay *= 2
	}
	return max(0, min(delay, lastDelay)-max(0, now.Sub(b.Last)))
}

// by is the back-off as it can have been at a time: what a node's clock has seen later was now at the latest.
func (b Backoff) by(now time.Time) Backoff {
	if b.Last.After(now) {
		b.Last = now
	}
	return b
}

// keep notes when pods ended, as it can have been at a time, and forgets others. Who is asked first says no later time for good: a node's
// clock that is ahead costs one wait, not the hours by which it is.
func (b *Backoff) keep(pods map[int]*v1.Pod, now time.Time) {
	before := b.Kept
	b.Kept = nil
	for _, p := range pods {
		at, noted := before[p.UID]
		if !noted {
			at = ended(p)
			if at.After(now) {
				at = now
			}
		}
		if b.Kept == nil {
			b.Kept = map[types.UID]time.Time{}
		}
		b.Kept[p.UID] = at
	}
}

// ended is when a pod that has ended did so, by its node's clock. No pod ends before it was made.
func ended(p *v1.Pod) time.Time {
	if t := told(p); t.After(p.CreationTimestamp.Time) {
		return t
	}
	return p.CreationTimestamp.Time
}

// told is when the last of a pod's containers ended, or when it was not ready any more, or when it was asked to end.
func told(p *v1.Pod) time.Time {
	if t, ok := containersEnded(p); ok {
		return t
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if p.DeletionTimestamp != nil {
		var grace int64
		if p.DeletionGracePeriodSeconds != nil {
			grace = *p.DeletionGracePeriodSeconds
		}
		return p.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)
	}
	return p.CreationTimestamp.Time
}

func containersEnded(p *v1.Pod) (last time.Time, ok bool) {
	sidecar := map[string]bool{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		sidecar[c.Name] = c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
	}
	look := func(c *v1.ContainerStatus) bool {
		t := c.State.Terminated
		if t == nil || t.FinishedAt.IsZero() {
			return false
		}
		if last.Before(t.FinishedAt.Time) {
			last = t.FinishedAt.Time
		}
		return true
	}
	for i := range p.Status.ContainerStatuses {
		if !look(&p.Status.ContainerStatuses[i]) {
			return last, false
		}
	}
	for i := range p.Status.InitContainerStatuses {
		if c := &p.Status.InitContainerStatuses[i]; sidecar[c.Name] && !look(c) {
			return last, false
		}
	}
	return last, !last.IsZero()
}
