package mem

import (
	"context"
	"strings"

	"podo.dev/podo/internal/store"
)

// Watch implements store.Store. A watch is a cursor in the history: it buffers nothing, and one that nobody reads costs a
// goroutine that sleeps.
func (s *Store) Watch(ctx context.Context, prefix string, from int64, prev func(key string) bool) <-chan store.Batch {
	out := make(chan store.Batch)
	s.mu.Lock()
	w := &watch{s: s, prefix: prefix, prev: prev, next: from, progress: s.progress, broken: s.broken}
	if from == 0 {
		w.next = s.rev() + 1
	}
	s.mu.Unlock()
	go func() {
		defer close(out)
		if err, _ := s.fault(ctx, "watch", prefix); err != nil {
			if ctx.Err() == nil {
				send(ctx, out, store.Batch{Err: err})
			}
			return
		}
		w.run(ctx, out)
	}()
	return out
}

// RequestProgress implements store.Store.
func (s *Store) RequestProgress(ctx context.Context) error {
	if err, _ := s.fault(ctx, "progress", ""); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress++
	s.broadcast()
	return nil
}

// BreakWatches ends every watch with err, as a lost connection does.
func (s *Store) BreakWatches(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken++
	s.brokenBy = err
	s.broadcast()
}

// broadcast wakes all watches. s.mu is held.
func (s *Store) broadcast() {
	close(s.wake)
	s.wake = make(chan struct{})
}

type watch struct {
	s        *Store
	prefix   string
	prev     func(key string) bool
	next     int64 // the first revision not looked at yet
	progress int   // the requests for progress answered
	broken   int
}

func (w *watch) run(ctx context.Context, out chan<- store.Batch) {
	for {
		batch, wake := w.step()
		if wake != nil {
			select {
			case <-wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		if !send(ctx, out, batch) || batch.Err != nil {
			return
		}
	}
}

// step finds the next batch, or, when there is none, what to wait for.
func (w *watch) step() (store.Batch, <-chan struct{}) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.broken != s.broken {
		return store.Batch{Err: s.brokenBy}, nil
	}
	first := s.history[0].rev
	if w.next < first {
		return store.Batch{Err: store.ErrCompacted}, nil
	}
	for ; w.next <= s.rev(); w.next++ {
		var events []store.Event
		for _, e := range s.history[w.next-first].events {
			if !strings.HasPrefix(e.Key, w.prefix) {
				continue
			}
			if w.prev == nil || !w.prev(e.Key) {
				e.Prev = nil
			}
			events = append(events, e)
		}
		if len(events) > 0 {
			w.next++
			return store.Batch{Revision: w.next - 1, Events: events}, nil
		}
	}
	if w.progress != s.progress && w.next == s.rev()+1 {
		w.progress = s.progress
		return store.Batch{Revision: s.rev()}, nil
	}
	return store.Batch{}, s.wake
}

func send(ctx context.Context, out chan<- store.Batch, b store.Batch) bool {
	select {
	case out <- b:
		return true
	case <-ctx.Done():
		return false
	}
}
