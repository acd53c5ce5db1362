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
	creates := a.Op == Create && !a.DryRun
	if creates {
		if err := r.announce(s, a); err != nil {
			return err
		}
	}
	quotas, bounding := quotasOf(s, a.Ref)
	if !bounding || !creates {
		_, err := r.charge(a, w, quotas)
		return err
	}
	turn, err := r.lines.enter(ctx, a.Ref.Namespace)
	if err != nil {
		return apierrors.NewInternalError(errors.New("resource quota evaluation timed out"))
	}
	// Who waited decides on what those before have left, which the view may not have yet.
	quotas, _ = quotasOf(r.View.Snapshot(), a.Ref)
	charged, err := r.charge(a, w, turn.newest(quotas))
	if err != nil {
		turn.leave(nil, 0)
		return err
	}
	a.Hold(func(committed int64) { turn.leave(charged, committed) })
	return nil
}

// seen is a quota at a revision.
type seen struct {
	quota *v1.ResourceQuota
	rev   int64
}

// quotasOf are the quotas of the namespace, and whether one of them bounds the resource.
func quotasOf(s view.Snapshot, ref client.Ref) (quotas []seen, bounding bool) {
	for e := range s.All(resourceQuotas, ref.Namespace, view.Key{}) {
		q := e.Object.(*v1.ResourceQuota)
		quotas = append(quotas, seen{q, e.Rev})
		bounding = bounding || quota.Bounds(q, ref.Resource)
	}
	return quotas, bounding
}

// charge makes the write require the quotas that it was decided by, and change those that it is charged to, which it returns.
func (r *ResourceQuota) charge(a *Attributes, w quota.Write, all []seen) ([]*v1.ResourceQuota, error) {
	if len(all) == 0 && len(r.Limited) == 0 {
		return nil, nil
	}
	quotas := make([]*v1.ResourceQuota, len(all))
	for i := range all {
		quotas[i] = all[i].quota
	}
	changed, err := quota.Charge(quotas, w, r.Limited)
	var uncovered *quota.Uncovered
	switch {
	case errors.As(err, &uncovered):
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: err.Error()}}
	case err != nil:
		return nil, forbidden(a, err.Error())
	}
	for _, x := range all {
		if quota.Bounds(x.quota, w.Resource) {
			a.Require(quotaKind.Key(x.quota.Namespace, x.quota.Name), x.rev)
		}
	}
	for _, q := range changed {
		if err := put(a, quotaKind, q); err != nil {
			return nil, err
		}
	}
	return changed, nil
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
	lines     *lines
	namespace string
	turn      chan struct{} // holds one token
	in        int           // who waits or is in; guarded by lines.mu
	// What those who were in have written, by name. The token's holder's.
	written map[string]seen
}

// enter waits for the turn, which must be left.
func (l *lines) enter(ctx context.Context, namespace string) (*line, error) {
	l.mu.Lock()
	q := l.of[namespace]
	if q == nil {
		if l.of == nil {
			l.of = map[string]*line{}
		}
		q = &line{lines: l, namespace: namespace, turn: make(chan struct{}, 1), written: map[string]seen{}}
		q.turn <- struct{}{}
		l.of[namespace] = q
	}
	q.in++
	l.mu.Unlock()
	select {
	case <-q.turn:
		return q, nil
	case <-ctx.Done():
		q.gone()
		return nil, ctx.Err()
	}
}

func (q *line) gone() {
	q.lines.mu.Lock()
	defer q.lines.mu.Unlock()
	if q.in--; q.in == 0 {
		delete(q.lines.of, q.namespace)
	}
}

// newest puts what was written in place of what the view is behind with. A quota that others have changed meanwhile is found out when
// the write is committed; by the next try the view has it.
func (q *line) newest(all []seen) []seen {
	for i, x := range all {
		if w, ok := q.written[x.quota.Name]; ok && w.rev > x.rev && w.quota.UID == x.quota.UID {
			all[i] = w
		}
	}
	return all
}

// leave gives the turn on, with what was written at the revision; 0 says that nothing was.
func (q *line) leave(written []*v1.ResourceQuota, rev int64) {
	if rev > 0 {
		for _, x := range written {
			q.written[x.Name] = seen{x, rev}
		}
	}
	q.turn <- struct{}{}
	q.gone()
}
