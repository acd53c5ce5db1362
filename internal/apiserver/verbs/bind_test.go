package verbs

import (
	"errors"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view/viewtest"
)

func bindings(w *world, names ...string) (out []Asked) {
	for _, name := range names {
		out = append(out, Asked{w.ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Target: v1.ObjectReference{Kind: "Node", Name: "n1"},
		}})
	}
	return out
}

// answers are what is told of bindings, each once.
func (w *world) answers(u user.Info, asked []Asked) []error {
	w.t.Helper()
	var mu sync.Mutex
	errs, told := make([]error, len(asked)), make([]int, len(asked))
	w.BindAll(w.ctx, u, asked, Options{}, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs[i], told[i] = err, told[i]+1
	})
	for i, n := range told {
		if n != 1 {
			w.t.Errorf("%s is told %d times", asked[i].Binding.Name, n)
		}
	}
	return errs
}

// Of pods that are bound together each is judged by itself: one that somebody writes meanwhile is decided about again, and keeps what he wrote;
// one whose transaction fails says so; the others are bound.
func TestBindAll(t *testing.T) {
	s := newSick(t)
	viewtest.Put(t, s.mem, viewtest.Account("default"))
	for _, name := range []string{"a", "b", "c", "d"} {
		s.create(pod(name))
	}
	var written atomic.Bool
	s.with(func(c mem.Call) mem.Fault {
		switch {
		case c.Op != "txn":
		case path.Base(c.Key) == "b" && !written.Swap(true):
			_, err := s.Mutate(s.ctx, admin, client.Pods.At("default", "b"), func(o runtime.Object) (bool, error) {
				o.(*v1.Pod).Labels = map[string]string{"mine": "yes"}
				return true, nil
			}, Options{})
			return mem.Fault{Err: err}
		case path.Base(c.Key) == "c":
			return mem.Fault{Err: store.ErrUnavailable}
		}
		return mem.Fault{}
	})
	errs := s.answers(admin, bindings(s.world, "a", "b", "c", "d", "d", "none"))
	if errs[0] != nil || errs[1] != nil || !apierrors.IsServiceUnavailable(errs[2]) || !apierrors.IsNotFound(errs[5]) {
		t.Errorf("answers: %v", errs)
	}
	// Twice the same pod: one of them was the first.
	if both := errors.Join(errs[3], errs[4]); (errs[3] == nil) == (errs[4] == nil) || !apierrors.IsConflict(both) {
		t.Errorf("d: %v, %v", errs[3], errs[4])
	}
	s.well()
	revisions := map[string]string{}
	for name, node := range map[string]string{"a": "n1", "b": "n1", "c": "", "d": "n1"} {
		p := s.get(client.Pods.At("default", name)).(*v1.Pod)
		if p.Spec.NodeName != node || revisions[p.ResourceVersion] != "" {
			t.Errorf("%s is on %q, at revision %s as %q", name, p.Spec.NodeName, p.ResourceVersion, revisions[p.ResourceVersion])
		}
		if revisions[p.ResourceVersion] = name; name == "b" && p.Labels["mine"] != "yes" {
			t.Error("what was written meanwhile is lost")
		}
	}
}

// Who may not bind may not bind many either, and binds none of them.
func TestBindAllIsAuthorized(t *testing.T) {
	w := newWorld(t)
	w.create(pod("a"))
	nobody := &user.DefaultInfo{Name: "nobody", Groups: []string{user.AllAuthenticated}}
	for _, err := range w.answers(nobody, bindings(w, "a", "none")) {
		if !apierrors.IsForbidden(err) {
			t.Errorf("answer: %v", err)
		}
	}
	if p := w.get(client.Pods.At("default", "a")).(*v1.Pod); p.Spec.NodeName != "" {
		t.Errorf("bound to %s", p.Spec.NodeName)
	}
}
