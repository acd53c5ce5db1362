// Package view is the process's one decoded copy of the cluster's state. It follows the store with one watch over
// /registry/, decodes each change once, and publishes immutable objects, snapshots and changes. Everyone in the process
// reads the same pointers.
//
// Invariants:
//   - A published object is never changed again. Tests run with a mutation check that hashes objects when they are
//     published and fails when a hash differs later.
//   - A Snapshot is all kinds at one store revision; taking one is O(1).
//   - A Watcher sees every change of its resource after its start revision, in order, once, or ends with ErrGone.
//   - One writer: only the feed applies batches. Readers never block it.
package view

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ErrGone says that the changes after the asked-for revision are no longer retained: list again.
var ErrGone = errors.New("too old resource version")

// Key names an object within its resource; cluster-scoped ones have namespace "".
type Key struct{ Namespace, Name string }

// Entry is one published object. Object has its TypeMeta and resourceVersion set, and is read-only.
type Entry struct {
	Key    Key
	Rev    int64 // the revision that wrote it: its resourceVersion
	Object runtime.Object
	Meta   metav1.Object
	enc    encodings
}

// Change is one write of one object. New nil is a deletion; Old nil is a creation. For a deletion Rev is the deletion's revision.
type Change struct {
	Rev int64
	Old *Entry
	New *Entry
}

// The API (view.go holds types; each part is in a file of its own):
//
//	func New(Config{Store, Kinds []*registry.Kind, Decode, Append timeline.Append, CheckMutation bool, ...}) (*View, error)
//	func (v *View) Run(ctx context.Context, ready func()) error          // follow the store; ready once the first load is published
//	func (v *View) Snapshot() Snapshot                                    // newest published
//	func (v *View) WaitFor(ctx context.Context, rev int64) (Snapshot, error) // at least rev ("read your own writes")
//	func (v *View) Fresh(ctx context.Context) (Snapshot, error)           // reflects every write acknowledged before the call, other servers' too
//	func (v *View) Watch(r schema.GroupResource, after int64) (*Watcher, error) // changes with Rev > after; ErrGone
//	func (v *View) At(ctx, r, rev) (Snapshot, error)                      // exact and continue reads: a retained snapshot or ErrGone
//
//	func (s Snapshot) Rev() int64
//	func (s Snapshot) Get(r schema.GroupResource, namespace, name string) *Entry          // nil when missing
//	func (s Snapshot) All(r, namespace string, after Key) iter.Seq[*Entry]                // in (namespace, name) order
//	func (s Snapshot) Len(r schema.GroupResource) int
//	func (s Snapshot) By(r schema.GroupResource, index, value string) iter.Seq[*Entry]    // secondary index of registry.Kind.Indexes
//
//	func (w *Watcher) Next(ctx context.Context) (changes []Change, rev int64, err error)  // blocks; no changes and a newer rev is a progress mark (bookmarks)
//	func (w *Watcher) Ready() <-chan struct{}                                             // for selects: closed when Next would not block
//
//	func (e *Entry) Encoded(form Form, encode func(runtime.Object) ([]byte, error)) ([]byte, error)  // at most one encode per form; a bounded cache
