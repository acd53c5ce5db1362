package admit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podo.dev/podo/internal/quota"
	"podo.dev/podo/internal/store"
)

// turns lets creations under the same quotas commit one after the other, a namespace's in the order of their coming, so that they never
// meet in their quotas' revisions:
//
//	comes ─► waits for its turn ─► refused: it does not fit any more
//	                                │ its transaction
//	                                ├─► done
//	                                ├─► its own condition failed: the caller decides
//	                                └─► a quota was changed by somebody else: its turn begins anew
//
// Each has a transaction, and so a revision, of its own: who watches resumes behind a revision, and would miss the second object of one.
type turns struct {
	mu sync.Mutex
	of map[string]*line // by namespace; there while somebody waits
}

type line struct {
	waiting []*creation // guarded by turns.mu
	// written are the quotas as this line has written them, by name: the view may not have them yet.
	written map[string]seen
}

// creation is one on its way: what it wants and, when done is closed, how it went.
type creation struct {
	a     *Attributes
	write quota.Write
	txn   Txn
	conds []store.Cond
	ops   []store.Op

	done chan struct{}
	res  store.TxnResult
	err  error
}

const (
	mostTries     = 32
	commitTimeout = 30 * time.Second
)

func (t *turns) commit(ctx context.Context, r *ResourceQuota, c *creation) (store.TxnResult, error) {
	c.done = make(chan struct{})
	namespace := c.a.Ref.Namespace
	t.mu.Lock()
	l := t.of[namespace]
	if l == nil {
		if t.of == nil {
			t.of = map[string]*line{}
		}
		l = &line{written: map[string]seen{}}
		t.of[namespace] = l
		go t.serve(r, namespace, l)
	}
	l.waiting = append(l.waiting, c)
	t.mu.Unlock()
	select {
	case <-c.done:
		return c.res, c.err
	case <-ctx.Done(): // it may still happen, as with any transaction
		return store.TxnResult{}, ctx.Err()
	}
}

// serve gives turns until nobody waits.
func (t *turns) serve(r *ResourceQuota, namespace string, l *line) {
	for {
		t.mu.Lock()
		if len(l.waiting) == 0 {
			delete(t.of, namespace)
			t.mu.Unlock()
			return
		}
		c := l.waiting[0]
		l.waiting = l.waiting[1:]
		t.mu.Unlock()
		c.res, c.err = l.turn(r, namespace, c)
		close(c.done)
	}
}

// turn commits one creation, or finds out why not.
func (l *line) turn(r *ResourceQuota, namespace string, c *creation) (res store.TxnResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	for range mostTries {
		quotas, _ := quotasOf(r.View.Snapshot(), namespace, c.write.Resource)
		res, charged, err := l.try(ctx, c, l.newest(quotas), r.Limited)
		if err != nil || res.OK || !charged {
			return res, err
		}
		clear(l.written)
		if _, err := r.View.WaitFor(ctx, res.Revision); err != nil {
			return store.TxnResult{}, err
		}
	}
	return store.TxnResult{}, apierrors.NewConflict(c.a.Ref.Resource, c.a.Ref.Name, errors.New("the quotas of its namespace kept changing"))
}

// newest puts what was written in place of what the view is behind with. A quota that others have changed meanwhile is found out by
// the transaction.
func (l *line) newest(quotas []seen) []seen {
	for i, x := range quotas {
		if w, ok := l.written[x.quota.Name]; ok && w.rev > x.rev && w.quota.UID == x.quota.UID {
			quotas[i] = w
		}
	}
	return quotas
}

// try charges the creation to the quotas and commits both. When the transaction's conditions did not hold, charged says that it was a
// quota's alone.
func (l *line) try(ctx context.Context, c *creation, quotas []seen, limited []quota.Limited) (res store.TxnResult, charged bool, err error) {
	changed, err := quota.Charge(objectsOf(quotas), c.write, limited)
	if err != nil {
		return res, false, refusal(c.a, err)
	}
	conds, ops := c.conds[:len(c.conds):len(c.conds)], c.ops[:len(c.ops):len(c.ops)]
	for _, x := range quotas { // also those that it is not charged to: they may be about to change so that it is
		if quota.Bounds(x.quota, c.write.Resource) {
			conds = append(conds, store.Cond{Key: quotaKind.Key(x.quota.Namespace, x.quota.Name), Revision: x.rev})
		}
	}
	for _, q := range changed {
		op, err := put(quotaKind, q)
		if err != nil {
			return res, false, err
		}
		ops = append(ops, op)
	}
	res, err = c.txn(ctx, conds, ops)
	switch {
	case err != nil:
		return res, false, err
	case res.OK:
		for _, q := range changed {
			l.written[q.Name] = seen{q, res.Revision}
		}
		return res, false, nil
	}
	res.Found = res.Found[:len(c.conds)]
	for i, cond := range c.conds {
		if res.Found[i].ModRevision != cond.Revision {
			return res, false, nil
		}
	}
	return res, true, nil
}
