package fake

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// unheard is how long an event is kept while nobody listens, as by containerd.
const unheard = 5 * time.Minute

const buffer = 1000 // events

// Events streams what happens, and before it, as a real runtime does, what happened lately while nobody listened: as it was then. A reader
// that is too slow loses its stream.
func (r *Runtime) Events(ctx context.Context, connected func(), out chan<- *runtimev1.ContainerEventResponse) error {
	after, err := r.enter(ctx, "Events", "")
	if err != nil {
		return err
	}
	if err := after(nil); err != nil {
		return err
	}
	in := make(chan *runtimev1.ContainerEventResponse, buffer)
	broken := make(chan error, 1)
	r.mu.Lock()
	r.hold()
	for _, e := range r.held {
		in <- e
	}
	r.held = nil
	r.subs[in] = broken
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.subs, in)
		r.mu.Unlock()
	}()
	connected()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broken:
			return err
		case e := <-in:
			if after, err := r.enter(ctx, "event", ""); err != nil || after(nil) != nil {
				continue // scripted to be lost
			}
			select {
			case out <- e:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// DropEvents breaks every event stream.
func (r *Runtime) DropEvents() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.subs {
		select {
		case b <- status.Error(codes.Unavailable, "transport is closing"):
		default:
		}
	}
}

// hold keeps the last events.
func (r *Runtime) hold(more ...*runtimev1.ContainerEventResponse) {
	r.held = append(r.held, more...)
	first := max(0, len(r.held)-buffer)
	for first < len(r.held) && r.held[first].GetCreatedAt() <= now()-int64(unheard) {
		first++
	}
	r.held = r.held[first:]
}

func (r *Runtime) publish(sandboxID, id string, kind runtimev1.ContainerEventType) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &runtimev1.ContainerEventResponse{ContainerId: id, ContainerEventType: kind, CreatedAt: now()}
	if s := r.sandboxes[sandboxID]; s != nil {
		e.PodSandboxStatus = s.status()
	}
	for _, cid := range sortedKeys(r.containers) {
		if c := r.containers[cid]; c.sandbox == sandboxID {
			e.ContainersStatuses = append(e.ContainersStatuses, r.status(c))
		}
	}
	if len(r.subs) == 0 {
		r.hold(e)
	}
	for in, broken := range r.subs {
		select {
		case in <- e:
		default:
			select {
			case broken <- status.Error(codes.ResourceExhausted, "too slow"):
			default:
			}
		}
	}
}
