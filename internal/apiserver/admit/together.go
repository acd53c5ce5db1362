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

// together commits creations under the same quotas, each namespace's in one transaction at a time:
//
//	creations come ─► wait while one transaction is on its way ─► all that fit: one transaction ─► each hears how its own went
//	                       ▲                                            │ a quota has changed: all try again
//	                       └────────────────────────────────────────────┘ a creation's own condition failed: the others try again
//
// They are served in the order of coming, and never meet each other. One that does not fit any more is refused here.
type together struct {
	mu sync.Mutex
	of map[string]*crowd // by namespace; there while somebody waits
}

type crowd struct {
	waiting []*creation // guarded by together.mu
	// written are the quotas as this crowd has written them, by name: the view may not have them yet.
	written map[string]seen
}

// creation is one on its way: what it wants and, when done is closed, how it went.
type creation struct {
	a     *Attributes
	write quota.Write
	txn   Txn
	conds []store.Cond
	ops   []store.Op
	tries int

	done chan struct{}
	res  store.TxnResult
	err  error
}

func (c *creation) end(res store.TxnResult, err error) {
	c.res, c.err = res, err
	close(c.done)
}

// What goes into one transaction. etcd takes 128 conditions and 1.5 MB unless told otherwise.
const (
	mostConds     = 100
	mostBytes     = 512 << 10
	mostTries     = 32
	commitTimeout = 30 * time.Second
)

func (t *together) commit(ctx context.Context, r *ResourceQuota, c *creation) (store.TxnResult, error) {
	c.done = make(chan struct{})
	namespace := c.a.Ref.Namespace
	t.mu.Lock()
	q := t.of[namespace]
	if q == nil {
		if t.of == nil {
			t.of = map[string]*crowd{}
		}
		q = &crowd{written: map[string]seen{}}
		t.of[namespace] = q
		go t.serve(r, namespace, q)
	}
	q.waiting = append(q.waiting, c)
	t.mu.Unlock()
	select {
	case <-c.done:
		return c.res, c.err
	case <-ctx.Done(): // it may still happen, as with any transaction
		return store.TxnResult{}, ctx.Err()
	}
}

// serve commits until nobody waits.
func (t *together) serve(r *ResourceQuota, namespace string, q *crowd) {
	for {
		t.mu.Lock()
		all := q.waiting
		q.waiting = nil
		if len(all) == 0 {
			delete(t.of, namespace)
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		rest := q.round(r, namespace, all)
		t.mu.Lock()
		q.waiting = append(rest, q.waiting...)
		t.mu.Unlock()
	}
}

// round commits those of all that fit into one transaction, and returns who has to wait for another one.
func (q *crowd) round(r *ResourceQuota, namespace string, all []*creation) (rest []*creation) {
	defer func() {
		if p := recover(); p != nil {
			for _, c := range all {
				select {
				case <-c.done:
				default:
					c.end(store.TxnResult{}, fmt.Errorf("panic: %v", p))
				}
			}
			rest = nil
		}
	}()
	quotas, _ := quotasOf(r.View.Snapshot(), namespace, all[0].write.Resource)
	b := batch{quotas: q.newest(quotas), conds: map[string]int64{}, keys: map[string]bool{}, dirty: map[int]bool{}}
	for _, c := range all {
		if !b.has(c) {
			rest = append(rest, c)
			continue
		}
		if err := b.take(c, r.Limited); err != nil {
			c.end(store.TxnResult{}, refusal(c.a, err))
		}
	}
	if len(b.in) == 0 {
		return rest
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	again, err := b.commit(ctx, q)
	if err == nil && b.behind > 0 {
		q.written = map[string]seen{}
		_, err = r.View.WaitFor(ctx, b.behind)
	}
	if err != nil {
		for _, c := range again {
			c.end(store.TxnResult{}, err)
		}
		return rest
	}
	return append(again, rest...)
}

// newest puts what was written in place of what the view is behind with. A quota that others have changed meanwhile is found out by
// the transaction.
func (q *crowd) newest(quotas []seen) []seen {
	for i, x := range quotas {
		if w, ok := q.written[x.quota.Name]; ok && w.rev > x.rev && w.quota.UID == x.quota.UID {
			quotas[i] = w
		}
	}
	return quotas
}

// batch is one transaction in the making.
type batch struct {
	quotas []seen       // as they will be, at the revisions that they are at
	dirty  map[int]bool // which of them change
	in     []*creation
	conds  map[string]int64
	keys   map[string]bool // that are written
	bytes  int
	behind int64 // the revision that the view must reach before another try
}

// has says whether there is room for the creation beside the others.
func (b *batch) has(c *creation) bool {
	if len(b.in) == 0 {
		return true
	}
	size, more := b.bytes, len(b.conds)
	for _, op := range c.ops {
		if size += len(op.Value); b.keys[op.Key] {
			return false
		}
	}
	for _, cond := range c.conds {
		if is, ok := b.conds[cond.Key]; !ok {
			more++
		} else if is != cond.Revision {
			return false
		}
	}
	return size <= mostBytes && more+len(b.quotas) <= mostConds && len(b.keys)+len(c.ops)+len(b.quotas) <= mostConds
}

// take charges the creation and adds it; an error refuses it.
func (b *batch) take(c *creation, limited []quota.Limited) error {
	changed, err := quota.Charge(objectsOf(b.quotas), c.write, limited)
	if err != nil {
		return err
	}
	for _, q := range changed {
		for i := range b.quotas {
			if b.quotas[i].quota.Name == q.Name {
				b.quotas[i].quota, b.dirty[i] = q, true
			}
		}
	}
	for _, cond := range c.conds {
		b.conds[cond.Key] = cond.Revision
	}
	for i := range b.quotas { // also those that it is not charged to: they may be about to change so that it is
		if x := b.quotas[i]; quota.Bounds(x.quota, c.write.Resource) {
			b.conds[quotaKind.Key(x.quota.Namespace, x.quota.Name)] = x.rev
		}
	}
	for _, op := range c.ops {
		b.keys[op.Key] = true
		b.bytes += len(op.Value)
	}
	b.in = append(b.in, c)
	return nil
}

// commit ends those whose fate is known, and returns those that have to try again, or that err is about.
func (b *batch) commit(ctx context.Context, q *crowd) (again []*creation, err error) {
	var conds []store.Cond
	for _, key := range sortedNames(b.conds) {
		conds = append(conds, store.Cond{Key: key, Revision: b.conds[key]})
	}
	var ops []store.Op
	for _, c := range b.in {
		ops = append(ops, c.ops...)
	}
	for _, i := range sortedNames(b.dirty) {
		op, err := put(quotaKind, b.quotas[i].quota)
		if err != nil {
			return b.in, err
		}
		ops = append(ops, op)
	}
	res, err := b.in[0].txn(ctx, conds, ops)
	switch {
	case err != nil:
		return b.in, err
	case res.OK:
		for i := range b.dirty {
			q.written[b.quotas[i].quota.Name] = seen{b.quotas[i].quota, res.Revision}
		}
		for _, c := range b.in {
			c.end(res, nil)
		}
		return nil, nil
	}
	b.behind = res.Revision
	found := map[string]store.KV{}
	for i, cond := range conds {
		found[cond.Key] = res.Found[i]
	}
	for _, c := range b.in {
		own, failed := store.TxnResult{Revision: res.Revision}, false
		for _, cond := range c.conds {
			own.Found = append(own.Found, found[cond.Key])
			failed = failed || found[cond.Key].ModRevision != cond.Revision
		}
		if c.tries++; failed {
			c.end(own, nil)
		} else if c.tries == mostTries {
			c.end(store.TxnResult{}, apierrors.NewConflict(c.a.Ref.Resource, c.a.Ref.Name, errors.New("the quotas of its namespace kept changing")))
		} else {
			again = append(again, c)
		}
	}
	return again, nil
}
