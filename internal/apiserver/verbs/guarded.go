package verbs

import (
	"context"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// guard is how a guarded write is bounded.
type guard struct {
	rules    registry.Update
	revision int64     // > 0: the object must be at this revision
	uid      types.UID // not "": it must be this one
	owns     ownership
	// beside, if set, returns what is written together with the object, which it gets as it was, and under which conditions. Its
	// error counts as change's does.
	beside func(ctx context.Context, cur runtime.Object) ([]store.Cond, []store.Op, error)
}

// ownership is what a write does to managedFields.
type ownership int

const (
	changed ownership = iota // the writer comes to own what it changes
	kept                     // the server itself writes: they stay as they are
	settled                  // change has set them already (apply)
	dropped                  // they are left out, since the object is too large with them
)

// guarded is how every change of an existing object is made:
//
//	read ─► change ─► admit ─► default, prepare, validate ─► Txn at the revision read ─► done
//	 ▲         │ error, or nothing to write                    │ someone else wrote
//	 └─────────┴── on a possibly stale read: once more, fresh ◄┘
//
// change gets the current object, read-only, and returns the wanted one, which is the write's own. A verdict (an error, or
// that nothing changes) counts only on a fresh read.
func (v *Verbs) guarded(ctx context.Context, r request, g guard, change func(cur runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	w := write{request: r, guard: g, change: change}
	err := v.carryOut(ctx, &w)
	return w.obj, err
}

func (v *Verbs) carryOut(ctx context.Context, w *write) error {
	for {
		txn, err := v.next(ctx, w)
		if err != nil || txn == nil {
			return err
		}
		res, err := v.store.Txn(ctx, txn.Conds, txn.Ops)
		if done, err := v.settle(ctx, w, res, err); done {
			return err
		}
	}
}

// write is a guarded write under way. Writes that are committed together go round the loop in parallel.
type write struct {
	request
	guard
	change func(cur runtime.Object) (runtime.Object, error)

	cur    *view.Entry // nil: not read yet
	fresh  bool        // cur cannot be stale
	tries  int
	wanted wanted
	obj    runtime.Object // what came of it
}

// next decides what is to be written. nil means nothing, and w.obj is the answer.
func (v *Verbs) next(ctx context.Context, w *write) (txn *store.Request, err error) {
	if w.cur == nil {
		if w.cur, w.fresh, err = v.current(ctx, w.kind, w.ref, w.revision); err != nil {
			return nil, err
		}
	}
	for ; w.tries < writeTries; w.tries++ {
		if w.revision > 0 && w.cur.Rev != w.revision {
			if err := sameUID(w.kind, w.ref, w.uid, w.cur.Meta.GetUID()); err != nil {
				return nil, err
			}
			break
		}
		w.wanted, err = v.prepare(ctx, w.request, w.cur, w.guard, w.change)
		if (err != nil || w.wanted.same) && !w.fresh {
			now, readErr := v.freshly(ctx, w.kind, w.ref)
			if readErr != nil {
				return nil, readErr
			}
			w.fresh = true
			if now.Rev != w.cur.Rev {
				w.cur = now
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if w.wanted.same || w.DryRun {
			w.obj = w.wanted.obj
			return nil, nil
		}
		w.tries++
		return w.wanted.txn(w.kind, w.cur), nil
	}
	return nil, conflict(w.kind.GroupResource(), w.ref.Name)
}

// settle handles the end of next's transaction. It returns done false when the write has to be decided again.
func (v *Verbs) settle(ctx context.Context, w *write, res store.TxnResult, err error) (done bool, _ error) {
	out, found, err := v.committed(ctx, w.cur, w.wanted, w.who(), res, err)
	switch {
	case isTooLarge(err) && w.owns == changed:
		w.owns = dropped
		return false, nil
	case err != nil || out != nil:
		w.obj = out
		return true, err
	case found.ModRevision == 0:
		return true, apierrors.NewNotFound(w.kind.GroupResource(), w.ref.Name)
	}
	w.cur, err = entryOf(w.kind, found)
	w.fresh = true
	return err != nil, err
}

// commit writes on behalf of the named user. A nil object without an error means that another writer was first; found is then the
// present object.
func (v *Verbs) commit(ctx context.Context, k *registry.Kind, cur *view.Entry, w wanted, by string) (obj runtime.Object, found store.KV, err error) {
	txn := w.txn(k, cur)
	res, err := v.store.Txn(ctx, txn.Conds, txn.Ops)
	return v.committed(ctx, cur, w, by, res, err)
}

// txn is the transaction that writes it, on the condition that the object is still as it was read.
func (w *wanted) txn(k *registry.Kind, cur *view.Entry) *store.Request {
	key := k.Key(cur.Key.Namespace, cur.Key.Name)
	op := store.Op{Key: key, Value: w.value}
	if w.remove {
		op = store.Op{Key: key, Delete: true}
	} else if k.TTL != nil {
		op.TTL = k.TTL(w.obj)
	}
	return &store.Request{Conds: append([]store.Cond{{Key: key, Revision: cur.Rev}}, w.conds...), Ops: append([]store.Op{op}, w.ops...)}
}

// committed is the second half of commit, after the transaction.
func (v *Verbs) committed(ctx context.Context, cur *view.Entry, w wanted, by string, res store.TxnResult, err error) (runtime.Object, store.KV, error) {
	if err != nil {
		return nil, store.KV{}, storeError(err)
	}
	if !res.OK {
		if res.Found[0].ModRevision == cur.Rev { // something that admission read has changed: it has to look again
			if _, err := v.c.View.WaitFor(ctx, res.Revision); err != nil {
				return nil, store.KV{}, viewError(err)
			}
		}
		return nil, res.Found[0], nil
	}
	m := accessor(w.obj)
	m.SetResourceVersion(formatRev(res.Revision))
	switch {
	case w.remove:
		v.record(timeline.Deleted, w.obj, timeline.Field{Key: "by", Value: by})
	case w.stage == timeline.Deleting:
		v.record(timeline.Deleting, w.obj, timeline.Field{Key: "by", Value: by}, timeline.Field{Key: "grace", Value: strconv.FormatInt(grace(m), 10)})
	}
	return w.obj, store.KV{}, nil
}
