package worker

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/podlife"
)

// Whose resize is judged first.
func TestOrderOfResizes(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	inOrder := []wish{
		{class: v1.PodQOSBurstable}, // it gives something back, whoever it is
		{more: true, priority: 100, class: v1.PodQOSBurstable, since: at(50)},
		{more: true, priority: 1, class: v1.PodQOSGuaranteed},
		{more: true, priority: 1, class: v1.PodQOSBurstable, since: at(10)},
		{more: true, priority: 1, class: v1.PodQOSBurstable, since: at(20)},
		{more: true, priority: 1, class: v1.PodQOSBurstable}, // it has only just come
		{more: true, priority: 0, class: v1.PodQOSGuaranteed, since: at(1)},
	}
	for i := range inOrder {
		for j := range inOrder {
			if got := before(inOrder[i], inOrder[j]); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%+v and %+v: %d", inOrder[i], inOrder[j], got)
			}
		}
	}
	turned := slices.Clone(inOrder)
	slices.Reverse(turned)
	slices.SortStableFunc(turned, before)
	if !slices.Equal(turned, inOrder) {
		t.Errorf("sorted: %+v", turned)
	}
}

// Since when a pod waits is known without a status: there would be two for each comparison of two pods, while nobody else is admitted.
func TestSinceWhenAPodWaits(t *testing.T) {
	p, since := &v1.Pod{}, time.Unix(7, 0)
	n := &pod{desired: p, state: podlife.State{Pod: p}} // of which no status can be made
	if w := waiting(n); !w.since.IsZero() {
		t.Errorf("%+v", w)
	}
	n.state.Pending = &podlife.Resize{Reason: v1.PodReasonDeferred, Since: since}
	if w := waiting(n); !w.since.Equal(since) {
		t.Errorf("%+v", w)
	}
}
