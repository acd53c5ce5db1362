package view

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Snapshot is all kinds at one revision. It is a small value, never changes, and is safe for concurrent use.
type Snapshot struct{}

// Rev is the store revision that the snapshot reflects.
func (s Snapshot) Rev() int64 { panic("not there yet") }

// Get returns an object or nil.
func (s Snapshot) Get(r schema.GroupResource, namespace, name string) *Entry { panic("not there yet") }

// All iterates the resource's objects in the store's order (bytes of "namespace/name"), of one namespace or of all (""),
// behind after (exclusive) unless that is zero.
func (s Snapshot) All(r schema.GroupResource, namespace string, after Key) iter.Seq[*Entry] {
	panic("not there yet")
}

// Len is the number of objects of the resource, in all namespaces.
func (s Snapshot) Len(r schema.GroupResource) int { panic("not there yet") }

// By iterates the objects for which registry.Kind.Indexes[index] gave value.
func (s Snapshot) By(r schema.GroupResource, index, value string) iter.Seq[*Entry] {
	panic("not there yet")
}

// At returns a snapshot whose objects of r are exactly those of revision rev: a retained one, or read from the store; ErrGone
// when rev has been compacted, store.ErrFuture when it has not happened. Only r may be read from it.
func (v *View) At(ctx context.Context, r schema.GroupResource, rev int64) (Snapshot, error) {
	panic("not there yet")
}

// Watcher is a cursor in the changes of one resource. It has no buffer and needs no closing when it is no longer used,
// but Close frees it earlier.
type Watcher struct{}

// Next blocks until there are changes after the cursor and returns them; rev is where the cursor then is. All changes of one
// revision come together. No changes with a nil error is a progress mark: everything up to rev has been delivered.
// The slice is shared and read-only. Errors: ErrGone, or ctx's.
func (w *Watcher) Next(ctx context.Context) (changes []Change, rev int64, err error) {
	panic("not there yet")
}

// Ready is closed when Next has something to say. Take it anew after each Next.
func (w *Watcher) Ready() <-chan struct{} { panic("not there yet") }

// Progress is the newest revision up to which Next has delivered everything: what a bookmark may carry. It never blocks.
func (w *Watcher) Progress() int64 { panic("not there yet") }

// Close ends the watcher.
func (w *Watcher) Close() { panic("not there yet") }

type encodings struct{}

// Encoded returns the object in the given form: made at most once by encode (concurrent callers wait for it), and kept in a
// bounded cache. The bytes are shared and read-only. Errors are not kept.
func (e *Entry) Encoded(form Form, encode func(runtime.Object) ([]byte, error)) ([]byte, error) {
	panic("not there yet")
}
