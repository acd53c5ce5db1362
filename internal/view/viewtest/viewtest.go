// Package viewtest makes views for the tests of what reads them: over store/mem, with the mutation check on, usable in a
// testing/synctest bubble.
package viewtest

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
)

// New starts a view that holds objs, over a store in memory. Both end with the test.
func New(t testing.TB, objs ...runtime.Object) (*view.View, store.Store) { panic("not there yet") }

// Put writes obj as the API server would, without its rules, and returns the revision. TypeMeta may be unset.
func Put(t testing.TB, s store.Store, obj runtime.Object) int64 { panic("not there yet") }

// Delete removes obj, of which only kind, namespace and name are looked at, and returns the revision.
func Delete(t testing.TB, s store.Store, obj runtime.Object) int64 { panic("not there yet") }
