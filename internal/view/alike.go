//lint:file-ignore SA1019 sharing the bytes themselves takes the field: the functions copy.

package view

import (
	"reflect"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// alike keeps once what many objects have in common. Objects that are published never change, so that they may share it: an object with
// the version before it, whose specification is the same, and a new one with another of the same owner, since pods of one template differ
// in their names and in little else.
type alike struct {
	mu     sync.Mutex
	fields map[string][]byte // sets of owned fields, by their own bytes
	models map[shape]weak.Pointer[Entry]
}

// shape is what objects have in common that are probably alike.
type shape struct {
	kind  int       // the table's pos
	owner types.UID // of its controller
}

// Bounds of what is remembered: then it begins anew.
const (
	maxFieldSets = 1000
	maxModels    = 1000
)

// share gives a new entry what old, the version before it, or an object like it has already. The entry is the caller's alone.
func (a *alike) share(t *table, e, old *Entry) {
	managed := e.Meta.GetManagedFields()
	a.mu.Lock()
	for i := range managed {
		// What a kubelet owns of a status is not like another pod's: addresses are in it.
		if f := managed[i].FieldsV1; f != nil && managed[i].Subresource == "" {
			f.Raw = a.owned(f.Raw)
		}
	}
	s := shape{kind: t.pos}
	if c := metav1.GetControllerOfNoCopy(e.Meta); c != nil {
		s.owner = c.UID
	}
	p := a.models[s]
	model := p.Value()
	a.mu.Unlock()
	like := old
	if like == nil {
		like = model
	}
	if like != nil {
		into, from := reflect.ValueOf(e.Object), reflect.ValueOf(like.Object)
		if into.Type() == from.Type() && into.Kind() == reflect.Pointer {
			sharerOf(into.Type().Elem())(into.Elem(), from.Elem())
		}
	}
	// The newest object becomes the model of the next ones, now that nothing of it changes any more: from here on others read it.
	if old == nil || model == nil || model == old {
		a.become(s, e)
	}
}

func (a *alike) become(s shape, e *Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.models == nil || len(a.models) >= maxModels {
		a.models = map[shape]weak.Pointer[Entry]{}
	}
	a.models[s] = weak.Make(e)
}

func (a *alike) owned(raw []byte) []byte {
	if known, ok := a.fields[string(raw)]; ok {
		return known
	}
	if a.fields == nil || len(a.fields) >= maxFieldSets {
		a.fields = map[string][]byte{}
	}
	a.fields[string(raw)] = raw
	return raw
}
