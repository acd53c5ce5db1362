package podset

import (
	"errors"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Of two pods the one whose containers, or else whose sidecars, restarted more often is first; what prepared a pod says nothing.
func TestRestarts(t *testing.T) {
	pod := func(main, sidecar, prepare int32) *v1.Pod {
		p := &v1.Pod{}
		p.Spec.InitContainers = []v1.Container{{Name: "prepare"}, {Name: "sidecar", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
		p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "prepare", RestartCount: prepare}, {Name: "sidecar", RestartCount: sidecar}}
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "quiet"}, {Name: "main", RestartCount: main}}
		return p
	}
	for _, c := range []struct {
		a, b *v1.Pod
		want int
	}{
		{pod(2, 0, 0), pod(1, 9, 9), -1},
		{pod(1, 1, 0), pod(1, 2, 0), 1},
		{pod(1, 1, 0), pod(1, 1, 5), 0},
	} {
		if got := Restarts(c.a, c.b); got != c.want {
			t.Errorf("%d, want %d", got, c.want)
		}
	}
}

// Creation stops at the first batch that fails, and each thing is done once.
func TestSlowly(t *testing.T) {
	var mu sync.Mutex
	var done []int
	do := func(fails int) func(int) error {
		done = nil
		return func(i int) error {
			mu.Lock()
			defer mu.Unlock()
			if done = append(done, i); len(done) >= fails {
				return errors.New("full")
			}
			return nil
		}
	}
	if err := Slowly(100, do(101)); err != nil || len(done) != 100 {
		t.Errorf("%d tries, %v", len(done), err)
	}
	slices.Sort(done)
	if len(slices.Compact(done)) != 100 {
		t.Errorf("done were %v", done)
	}
	if err := Slowly(100, do(3)); err == nil || len(done) > 3 {
		t.Errorf("%d tries, %v", len(done), err)
	}
}
