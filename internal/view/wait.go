package view

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// WaitFor returns a snapshot that reflects at least rev ("read your own writes"). The error is ctx's.
func (v *View) WaitFor(ctx context.Context, rev int64) (Snapshot, error) {
	if v.delivered.Load() >= rev {
		return v.Snapshot(), nil
	}
	reached := v.waiters.add(rev, &v.delivered)
	// Usually rev is on its way. If it was a write outside the watched keys, only a progress mark tells.
	nudge := firstNudge
	timer := time.NewTimer(nudge)
	defer timer.Stop()
	for {
		select {
		case <-reached:
			return v.Snapshot(), nil
		case <-ctx.Done():
			v.waiters.remove(reached)
			return Snapshot{}, ctx.Err()
		case <-timer.C:
			if v.cur.Load().rev > 0 {
				// An error means that the store does not answer, which the feed notices and logs too.
				_ = v.c.Store.RequestProgress(ctx)
			}
			nudge = min(2*nudge, lastNudge)
			timer.Reset(nudge)
		}
	}
}

// Fresh returns a snapshot that reflects every write acknowledged before the call, including other servers'. It asks the store
// for its revision; errors are the store's, or ctx's.
func (v *View) Fresh(ctx context.Context) (Snapshot, error) {
	rev, err := v.c.Store.Revision(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	return v.WaitFor(ctx, rev)
}

// waiters wait for revisions; the lowest comes first.
type waiters struct {
	mu   sync.Mutex
	heap waiterHeap
}

type waiter struct {
	rev     int64
	reached chan struct{}
	pos     int
}

// add queues a waiter. If the view has reached the revision meanwhile, the channel is closed at once.
func (w *waiters) add(rev int64, delivered *atomic.Int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	// reached() runs after delivered was stored: either it finds us in the heap, or we see here what it stored.
	if delivered.Load() >= rev {
		return closed
	}
	x := &waiter{rev: rev, reached: make(chan struct{})}
	heap.Push(&w.heap, x)
	return x.reached
}

func (w *waiters) remove(reached <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.heap {
		if x.reached == reached {
			heap.Remove(&w.heap, x.pos)
			return
		}
	}
}

func (w *waiters) reached(rev int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.heap) > 0 && w.heap[0].rev <= rev {
		close(heap.Pop(&w.heap).(*waiter).reached)
	}
}

type waiterHeap []*waiter

func (h waiterHeap) Len() int           { return len(h) }
func (h waiterHeap) Less(i, j int) bool { return h[i].rev < h[j].rev }
func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *waiterHeap) Push(x any) {
	w := x.(*waiter)
	w.pos = len(*h)
	*h = append(*h, w)
}

func (h *waiterHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}
