// Package admit is the chain of admission rules that every write passes between authorization and the store. A rule either edits
// the object (Mutate, first) or judges the final one (Validate, last); their order in the chain is the order of execution.
package admit

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
)

// Operation is what the write does.
type Operation string

// The operations.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Attributes are one write on its way. Object may be edited by Mutate; Old is shared and read-only.
type Attributes struct {
	Op     Operation
	User   user.Info
	Kind   *registry.Kind
	Ref    client.Ref
	InURL  string         // the name in the request's URL, which a creation has only when it is an update or an apply
	Object runtime.Object // nil on Delete
	Old    runtime.Object // nil on Create
	DryRun bool
	// Warn sends the client a warning although the write succeeds; never nil behind the verbs.
	Warn func(text string)

	conds []store.Cond
	ops   []store.Op
	undo  []func()

	through func(ctx context.Context, txn Txn, conds []store.Cond, ops []store.Op) (store.TxnResult, error)

	judged bool // the rules that edit are through
}

// Require makes the write conditional on what a rule has read: key must still be at revision when the write commits.
func (a *Attributes) Require(key string, revision int64) {
	a.conds = append(a.conds, store.Cond{Key: key, Revision: revision})
}

// Conds are the conditions that rules required.
func (a *Attributes) Conds() []store.Cond { return a.conds }

// Write adds op to the write's own transaction, so that what a rule stores besides the object (an allocated address, a quota's
// usage) changes with it or not at all. A rule that writes a key must Require the revision at which it read it. When a
// transaction's conditions fail, the verbs start again with fresh Attributes; a dry run drops what was added.
func (a *Attributes) Write(op store.Op) { a.ops = append(a.ops, op) }

// Ops are the writes that rules added.
func (a *Attributes) Ops() []store.Op { return a.ops }

// Undo registers how to take a rule's choice back out of Object. It is called before the rules see the same object again because
// what the choice was based on has changed. Rules that always make the same edits need no Undo.
func (a *Attributes) Undo(f func()) { a.undo = append(a.undo, f) }

// TakeBack calls the functions given to Undo, in reverse order.
func (a *Attributes) TakeBack() {
	for i := range a.undo {
		a.undo[len(a.undo)-1-i]()
	}
	a.undo = nil
}

// Txn is the store's: conditions and writes in one transaction.
type Txn func(ctx context.Context, conds []store.Cond, ops []store.Op) (store.TxnResult, error)

// Through lets commit commit a creation, possibly in one transaction with others. commit answers as the store would for this
// creation alone, or refuses it with an API error. Only one rule may use this.
func (a *Attributes) Through(commit func(ctx context.Context, txn Txn, conds []store.Cond, ops []store.Op) (store.TxnResult, error)) {
	a.through = commit
}

// Commit is the creation's transaction.
func (a *Attributes) Commit(ctx context.Context, txn Txn, conds []store.Cond, ops []store.Op) (store.TxnResult, error) {
	if a.through != nil {
		return a.through(ctx, txn, conds, ops)
	}
	return txn(ctx, conds, ops)
}

// Mutator edits objects; Validator judges them; Remover is called after both when the write removes Old from the store for good
// (a deletion that waits for nothing, or an update that removes the last finalizer). A rule may be several of these.
type (
	Mutator interface {
		Mutate(ctx context.Context, a *Attributes) error
	}
	Validator interface {
		Validate(ctx context.Context, a *Attributes) error
	}
	Remover interface {
		Remove(ctx context.Context, a *Attributes) error
	}
)

// Chain is an ordered list of Mutators, Validators and Removers.
type Chain []any

// Mutate runs the mutating rules.
func (c Chain) Mutate(ctx context.Context, a *Attributes) error {
	a.judged = false
	for _, p := range c {
		if m, ok := p.(Mutator); ok {
			if err := m.Mutate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate runs the judging rules.
func (c Chain) Validate(ctx context.Context, a *Attributes) error {
	a.judged = true
	for _, p := range c {
		if v, ok := p.(Validator); ok {
			if err := v.Validate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove calls the rules that want to know that the object goes.
func (c Chain) Remove(ctx context.Context, a *Attributes) error {
	for _, p := range c {
		if r, ok := p.(Remover); ok {
			if err := r.Remove(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// forbidden is a refusal in the form that all rules use.
func forbidden(a *Attributes, msg string) error {
	name := a.KnownName()
	if m, ok := a.Object.(metav1.Object); ok && name == "" {
		name = m.GetGenerateName()
	}
	if name == "" {
		name = "Unknown"
	}
	return apierrors.NewForbidden(a.Ref.Resource, name, errors.New(msg))
}

// KnownName is the object's name as messages show it: upstream generates a name between the rules that edit and those that judge, so that
// the former know only the name that the client sent.
func (a *Attributes) KnownName() string {
	if a.judged {
		return a.Ref.Name
	}
	m, ok := a.Object.(metav1.Object)
	if !ok || a.Op != Create || m.GetGenerateName() == "" {
		return a.Ref.Name
	}
	const longest, letters = 58, 5
	base := m.GetGenerateName()
	base = base[:min(len(base), longest)]
	if len(a.Ref.Name) == len(base)+letters && strings.HasPrefix(a.Ref.Name, base) {
		return ""
	}
	return a.Ref.Name
}
