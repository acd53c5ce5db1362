//lint:file-ignore SA1019 sharing the bytes themselves takes the field: the functions copy.

package view

import (
	"hash/maphash"
	"maps"
	"reflect"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// alike lets objects share memory for what they have in common, which is safe since published objects never change. An object
// shares with the version before it, whose specification is mostly the same, and a new object with another of the same owner,
// since the pods of one template differ in their names and in little else.
type alike struct {
	mu     sync.Mutex
	fields map[string][]byte            // sets of owned fields, by their own bytes
	labels map[uint64]map[string]string // by their hashes
	models map[shape]models
}

// models are the objects that the next one of a shape probably resembles: the newest one, and the two that changed last, of which
// at least one is not the object that changes next. These have what objects get later, such as statuses.
type models struct {
	newest  weak.Pointer[Entry]
	changed [2]weak.Pointer[Entry]
}

// shape is what objects have in common when they are probably alike.
type shape struct {
	kind  int       // the table's pos
	owner types.UID // of its controller
}

// Bounds of what is remembered: then it begins anew.
const (
	maxFieldSets = 1000
	maxLabels    = 1000
	maxModels    = 1000
)

// share gives a new entry the memory of old, the version before it, or of an object like it, where they are equal. The entry is
// still the caller's alone.
func (a *alike) share(t *table, e, old *Entry) {
	managed := e.Meta.GetManagedFields()
	a.mu.Lock()
	for i := range managed {
		// The fields that a kubelet owns of a status differ from pod to pod, since they contain addresses.
		if f := managed[i].FieldsV1; f != nil && managed[i].Subresource == "" {
			f.Raw = a.owned(f.Raw)
		}
	}
	s := shape{kind: t.pos}
	if c := metav1.GetControllerOfNoCopy(e.Meta); c != nil {
		s.owner = c.UID
	}
	m := a.models[s]
	a.mu.Unlock()
	model := m.newest.Value()
	if old != nil {
		if model = m.changed[0].Value(); model == old || model == nil {
			model = m.changed[1].Value()
		}
	}
	if into := reflect.ValueOf(e.Object); into.Kind() == reflect.Pointer {
		var like []reflect.Value
		for _, l := range []*Entry{old, model} {
			if l != nil && reflect.TypeOf(l.Object) == into.Type() {
				like = append(like, reflect.ValueOf(l.Object).Elem())
			}
		}
		if len(like) == 0 {
			like = append(like, reflect.Zero(into.Type().Elem()))
		}
		like = append(like, reflect.Value{})
		a.shareWith(t, e, old, into.Elem(), like[0], like[1])
	}
	if s.owner != "" {
		e.Meta.SetLabels(a.once(e.Meta.GetLabels()))
	}
	a.become(s, e, old) // e no longer changes: from here on other entries read it
}

var owns = sync.Pool{New: func() any { return new(own) }}

// shareWith leaves the object only one text of its own, its path, of which its name is a part.
func (a *alike) shareWith(t *table, e, old *Entry, into, from, other reflect.Value) {
	o := owns.Get().(*own)
	e.Meta.SetNamespace("")
	e.Meta.SetName("")
	sharerOf(into.Type())(o, into, from, other)
	if old != nil && old.path == e.path {
		o.together("")
		e.path, e.Key = old.path, old.Key
	} else {
		e.path = o.together(e.path)
		e.Key = keyOf(t.kind, e.path)
	}
	e.Meta.SetNamespace(e.Key.Namespace)
	e.Meta.SetName(e.Key.Name)
	clear(o.texts)
	o.texts, o.size = o.texts[:0], 0
	owns.Put(o)
}

// once returns one shared map for all objects with equal labels: for a template's pods, those of one zone.
func (a *alike) once(labels map[string]string) map[string]string {
	var h uint64
	for k, v := range labels {
		h += maphash.String(seed, k) ^ 3*maphash.String(seed, v)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.labels[h]; maps.Equal(known, labels) {
		return known
	}
	if a.labels == nil || len(a.labels) >= maxLabels {
		a.labels = map[uint64]map[string]string{}
	}
	a.labels[h] = labels
	return labels
}

var seed = maphash.MakeSeed()

func (a *alike) become(s shape, e, old *Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.models == nil || len(a.models) >= maxModels {
		a.models = map[shape]models{}
	}
	m, now := a.models[s], weak.Make(e)
	if old == nil || m.newest.Value() == nil || m.newest.Value() == old {
		m.newest = now
	}
	switch {
	case old == nil:
	case m.changed[1].Value() == old:
		m.changed[1] = now
	case m.changed[0].Value() == old:
		m.changed[0] = now
	default:
		m.changed = [2]weak.Pointer[Entry]{now, m.changed[0]}
	}
	a.models[s] = m
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
