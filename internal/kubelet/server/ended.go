package server

import (
	"context"
	"sync"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
)

// Bell wakes everybody who waits for something to have happened to containers. Its zero value is ready.
type Bell struct {
	mu   sync.Mutex
	next chan struct{}
}

// Ring wakes all who wait. It never blocks.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Next returns a channel that is closed by the next Ring.
func (b *Bell) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// containerStatus is what asking takes.
type containerStatus interface {
	ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error)
}

// EndedBy returns a function for Config.Ended. Once at first, whenever bell rings, and every so often as a backstop it asks the
// runtime whether the container still runs.
func EndedBy(rt containerStatus, bell *Bell, backstop time.Duration) func(context.Context, string) <-chan struct{} {
	return func(ctx context.Context, id string) <-chan struct{} {
		ended := make(chan struct{})
		go func() {
			tick := time.NewTicker(backstop)
			defer tick.Stop()
			for {
				rung := bell.Next() // taken before asking: whatever happens after the answer rings it
				if !runs(ctx, rt, id) {
					close(ended)
					return
				}
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				case <-rung:
				}
			}
		}()
		return ended
	}
}

// PollEnded is EndedBy without a bell.
func PollEnded(rt containerStatus, every time.Duration) func(context.Context, string) <-chan struct{} {
	return EndedBy(rt, &Bell{}, every)
}

// runs tells whether a container runs or may yet; one that the runtime cannot tell about may.
func runs(ctx context.Context, rt containerStatus, id string) bool {
	status, err := rt.ContainerStatus(ctx, id)
	if err != nil {
		return !cri.IsNotFound(err)
	}
	return status.State == runtimev1.ContainerState_CONTAINER_RUNNING || status.State == runtimev1.ContainerState_CONTAINER_CREATED
}
