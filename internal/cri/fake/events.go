package fake

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Events streams what happens. A reader that is too slow loses its stream, as with a real runtime.
func (r *Runtime) Events(ctx context.Context, connected func(), out chan<- *runtimev1.ContainerEventResponse) error {
	after, err := r.enter(ctx, "Events", "")
	if err != nil {
		return err
	}
	if err := after(nil); err != nil {
		return err
	}
	in := make(chan *runtimev1.ContainerEventResponse, 1000)
	broken := make(chan error, 1)
	r.mu.Lock()
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
