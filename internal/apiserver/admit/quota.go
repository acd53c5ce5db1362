package admit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/quota"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
)

// ResourceQuota charges what objects use to the quotas of their namespace, in the object's own transaction:
//
//	read the quotas ─► does it fit? ─► object + usage, if every quota is still as it was read
//	      ▲                                              │ not so
//	      └──────────────────────────────────────────────┘
//
// So usage is exact however many create at once, and nothing is left charged when a creation fails. Creations under the same quotas
// would meet in that condition and all but one would have to try again: they stand in line instead, one line a namespace. Without a
// quota there is no line and no condition.
//
// A quota bounds nothing until the quota controller has counted once. Creations that are on their way meanwhile are not missed: they
// require the quota as they saw it, and those that did not see it at all require their namespace, which a new quota writes anew.
type ResourceQuota struct {
	View *view.View
	// Limited is what needs a quota to be used at all, from the configuration.
	Limited []quota.Limited
	Now     func() time.Time // default time.Now

	lines lines
}

var (
	resourceQuotas = schema.GroupResource{Resource: "resourcequotas"}
	quotaKind      = registry.Lookup(resourceQuotas)
	namespaceKind  = registry.Lookup(schema.GroupResource{Resource: "namespaces"})
)

// Validate implements Validator; it is the last to judge.
func (r *ResourceQuota) Validate(ctx context.Context, a *Attributes) error {
	if a.Ref.Namespace == "" || a.Kind == namespaceKind || a.Op != Create && a.Op != Update {
		return nil
	}
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	w := quota.Write{Resource: a.Ref.Resource, Subresource: a.Ref.Subresource, Object: a.Object, Old: a.Old, Now: now()}
	if !w.Concerns() {
		return nil
	}
	s := r.View.Snapshot()
	if a.Op == Create && !a.DryRun {
		if err := r.announce(s, a); err != nil {
			return err
		}
	}
	quotas, bounding := quotasOf(s, a.Ref)
	if bounding && a.Op == Create && !a.DryRun {
		// Who waited decides on what those before have left.
		seen, leave, err := r.lines.enter(ctx, a.Ref.Namespace)
		if err != nil {
			return apierrors.NewInternalError(errors.New("resource quota evaluation timed out"))
		}
		a.Hold(leave)
		if s, err = r.View.WaitFor(ctx, seen); err != nil {
			return apierrors.NewInternalError(err)
		}
		quotas, _ = quotasOf(s, a.Ref)
	}
	return r.charge(a, w, quotas)
}

// quotasOf are the quotas of the namespace, and whether one of them bounds the resource.
func quotasOf(s view.Snapshot, ref client.Ref) (quotas []*view.Entry, bounding bool) {
	for e := range s.All(resourceQuotas, ref.Namespace, view.Key{}) {
		quotas = append(quotas, e)
		bounding = bounding || quota.Bounds(e.Object.(*v1.ResourceQuota), ref.Resource)
	}
	return quotas, bounding
}

func (r *ResourceQuota) charge(a *Attributes, w quota.Write, entries []*view.Entry) error {
	if len(entries) == 0 && len(r.Limited) == 0 {
		return nil
	}
	quotas := make([]*v1.ResourceQuota, len(entries))
	for i, e := range entries {
		quotas[i] = e.Object.(*v1.ResourceQuota)
	}
	changed, err := quota.Charge(quotas, w, r.Limited)
	var uncovered *quota.Uncovered
	switch {
	case errors.As(err, &uncovered):
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: err.Error()}}
	case err != nil:
		return forbidden(a, err.Error())
	}
	for _, e := range entries {
		if quota.Bounds(e.Object.(*v1.ResourceQuota), w.Resource) {
			a.Require(quotaKind.Key(e.Key.Namespace, e.Key.Name), e.Rev)
		}
	}
	for _, q := range changed {
		if err := put(a, quotaKind, q); err != nil {
			return err
		}
	}
	return nil
}

// announce has a new quota's creation write its namespace as it is, so that creations which have not seen the quota look again.
func (r *ResourceQuota) announce(s view.Snapshot, a *Attributes) error {
	if a.Ref.Resource != resourceQuotas {
		return nil
	}
	e := s.Get(namespaceKind.GroupResource(), "", a.Ref.Namespace)
	if e == nil {
		return apierrors.NewNotFound(namespaceKind.GroupResource(), a.Ref.Namespace)
	}
	a.Require(namespaceKind.Key("", e.Key.Name), e.Rev)
	return put(a, namespaceKind, e.Object)
}

func put(a *Attributes, k *registry.Kind, obj runtime.Object) error {
	value, err := codec.Encode(obj)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	m, ok := obj.(metav1.Object)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("%T has no metadata", obj))
	}
	a.Write(store.Op{Key: k.Key(m.GetNamespace(), m.GetName()), Value: value})
	return nil
}

// lines are queues, one a namespace; there is one only while somebody is in it.
type lines struct {
	mu sync.Mutex
	of map[string]*line
}

// line lets one at a time in, in the order of coming.
type line struct {
	turn chan struct{} // holds one token
	in   int           // who waits or is in; guarded by lines.mu
	rev  int64         // of the last commit; the token's holder's
}

// enter waits for its turn. seen is the revision that whoever was in before has written. leave gives the turn on, with the
// revision of one's own commit or 0.
func (l *lines) enter(ctx context.Context, namespace string) (seen int64, leave func(rev int64), err error) {
	l.mu.Lock()
	q := l.of[namespace]
	if q == nil {
		if l.of == nil {
			l.of = map[string]*line{}
		}
		q = &line{turn: make(chan struct{}, 1)}
		q.turn <- struct{}{}
		l.of[namespace] = q
	}
	q.in++
	l.mu.Unlock()
	out := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if q.in--; q.in == 0 {
			delete(l.of, namespace)
		}
	}
	select {
	case <-q.turn:
	case <-ctx.Done():
		out()
		return 0, nil, ctx.Err()
	}
	return q.rev, func(rev int64) {
		q.rev = max(q.rev, rev)
		q.turn <- struct{}{}
		out()
	}, nil
}
