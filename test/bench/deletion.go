package main

import (
	"context"
	"fmt"

	"podo.dev/podo/internal/runtime"
	"podo.dev/podo/test/bench/figures"
)

const (
	deletedPods  = 100
	deleteRounds = 3
)

// deletion: many pods deleted at once with grace 0, until the runtime has nothing left of them. Their process ends when it is asked to: one
// that does not is given two seconds by every kubelet, also with grace 0, which the floor, killing at once, knows nothing of (the
// figures pod.deleted.runtime have such a process).
func deletion(ctx context.Context, b *bench) error {
	t := b.pausing()
	if t == nil {
		return nil
	}
	image, command := b.floor.Image, b.floor.Command
	b.floor.Image, b.floor.Command = runtime.PauseImage, nil
	defer func() { b.floor.Image, b.floor.Command = image, command }()
	empty := figures.Samples{}
	for i := range deleteRounds + 1 { // the first is forgotten
		pods := names(fmt.Sprintf("gone-%d", i), deletedPods)
		for _, s := range []starter{t, bare{b.floor}} {
			if _, err := s.start(ctx, pods...); err != nil {
				return err
			}
			_, took, err := s.remove(ctx, pods...)
			if err != nil {
				return err
			}
			if i > 0 {
				empty.Time(s.who(), took)
			}
		}
	}
	b.book.Median(fmt.Sprintf("deletion.%d.pods.runtime", deletedPods), "ms", empty)
	return nil
}
