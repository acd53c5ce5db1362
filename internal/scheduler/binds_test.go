package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/timeline"
)

// boundAt is when a pod's story tells that it was bound, after the start; -1: it does not.
func (w *world) boundAt(name string, start time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if r.Pod.Name == name && r.Stage == timeline.Bound {
			return r.At.Sub(start)
		}
	}
	return -1
}

// Binds that are ready at once are handed over at once, whatever their pods are like. One that fails is undone and tried again alone; the others
// have nothing to do with it.
func TestBindsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "4"))
		for i := range 4 {
			w.create(pod(fmt.Sprint("p-", i), fmt.Sprint(100*(1+i/2), "m")))
		}
		failed := 0
		w.client.bind = func(ctx context.Context, b *v1.Binding) error {
			if b.Name == "p-2" && failed == 0 {
				failed++
				return apierrors.NewConflict(podKind, b.Name, errors.New("not now"))
			}
			return w.client.really(ctx, b)
		}
		start := time.Now()
		w.start()
		time.Sleep(time.Minute)
		want := [][]string{{"p-0", "p-1", "p-2", "p-3"}, {"p-2"}}
		if got := w.client.together(); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("bound together: %q, want %q", got, want)
		}
		for name, want := range map[string]time.Duration{"p-0": 0, "p-1": 0, "p-2": time.Second, "p-3": 0} {
			w.on(name, "node-a")
			if at := w.boundAt(name, start); at != want {
				t.Errorf("%s was bound after %v, want %v", name, at, want)
			}
		}
	})
}

// silent is a client whose reads of one pod are not answered for a while.
type silent struct {
	client.Client
	pod   string
	until time.Time
}

func (s *silent) Get(ctx context.Context, ref client.Ref) (runtime.Object, error) {
	if ref.Name == s.pod && time.Now().Before(s.until) {
		return nil, errors.New("no answer")
	}
	return s.Client.Get(ctx, ref)
}

// A bind whose answer was lost is found out about alone: those that were bound with it are told at once.
func TestLostAnswerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "4"))
		for i := range 3 {
			w.create(pod(fmt.Sprint("p-", i), "100m"))
		}
		start := time.Now()
		w.client.Client = &silent{w.client.Client, "p-1", start.Add(time.Minute)}
		w.client.bind = func(ctx context.Context, b *v1.Binding) error {
			if err := w.client.really(ctx, b); err != nil || b.Name != "p-1" {
				return err
			}
			return errors.New("timeout")
		}
		w.start()
		time.Sleep(2 * time.Minute)
		for name, late := range map[string]bool{"p-0": false, "p-1": true, "p-2": false} {
			w.on(name, "node-a")
			if at := w.boundAt(name, start); at < 0 || at >= time.Minute != late {
				t.Errorf("%s was told as bound after %v", name, at)
			}
		}
		if got := w.client.together(); len(got) != 1 {
			t.Errorf("bound: %q", got)
		}
	})
}

// late is a store whose answers to what is written of one pod take their time.
type late struct {
	store.Store
	pod string
	by  time.Duration
}

func (l *late) Txn(ctx context.Context, conds []store.Cond, ops []store.Op) (store.TxnResult, error) {
	res, err := l.Store.Txn(ctx, conds, ops)
	if l.pod != "" && path.Base(ops[0].Key) == l.pod {
		time.Sleep(l.by)
	}
	return res, err
}

// An answer that comes late holds up nobody: the story of those that were bound with it goes on, as they do on their nodes.
func TestLateAnswerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "4"))
		for i := range 3 {
			w.create(pod(fmt.Sprint("p-", i), "100m"))
		}
		w.store.pod, w.store.by = "p-1", 5*time.Second
		start := time.Now()
		w.start()
		time.Sleep(time.Minute)
		for name, want := range map[string]time.Duration{"p-0": 0, "p-1": 5 * time.Second, "p-2": 0} {
			w.on(name, "node-a")
			if at := w.boundAt(name, start); at != want {
				t.Errorf("%s was told as bound after %v, want %v", name, at, want)
			}
		}
		if got := w.client.together(); len(got) != 1 {
			t.Errorf("bound: %q", got)
		}
	})
}
