package view

import (
	"bytes"
	"reflect"
	"sync"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sharer lets a value that is not published yet use another one's memory where the two say the same: strings, lists, maps and what is
// pointed to. It tells whether they say the same as a whole. The value is written in place and must be the caller's alone, all that it
// leads to included: so it may be shared with one other value, once.
type sharer func(into, from reflect.Value) bool

var (
	sharers   sync.Map // of a type
	buildings sync.Mutex
)

// sharerOf makes the sharer of a type, of the types in it too. Types may contain themselves.
func sharerOf(t reflect.Type) sharer {
	if s, ok := sharers.Load(t); ok {
		return s.(sharer)
	}
	buildings.Lock()
	defer buildings.Unlock()
	made := map[reflect.Type]sharer{}
	s := build(t, made)
	for t, s := range made {
		sharers.Store(t, s)
	}
	return s
}

func build(t reflect.Type, made map[reflect.Type]sharer) sharer {
	if s, ok := sharers.Load(t); ok {
		return s.(sharer)
	}
	if s := made[t]; s != nil {
		return s
	}
	var s sharer
	made[t] = func(into, from reflect.Value) bool { return s(into, from) } // for types that contain this one
	s = buildNew(t, made)
	made[t] = s
	return s
}

func buildNew(t reflect.Type, made map[reflect.Type]sharer) sharer {
	switch t.Kind() {
	case reflect.String:
		return shareString(t)
	case reflect.Pointer:
		return sharePointer(build(t.Elem(), made))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return shareBytes
		}
		return shareList(build(t.Elem(), made))
	case reflect.Map:
		return shareMap(t)
	case reflect.Struct:
		return shareStruct(t, made)
	case reflect.Interface:
		return func(into, from reflect.Value) bool { return into.IsNil() && from.IsNil() }
	default:
		if t.Comparable() {
			return reflect.Value.Equal
		}
		return different
	}
}

func different(_, _ reflect.Value) bool { return false }

// shareString also keeps the words of an enumeration once: they have types of their own.
func shareString(t reflect.Type) sharer {
	word := t != reflect.TypeFor[string]() && t != reflect.TypeFor[types.UID]() && t != reflect.TypeFor[types.NodeName]()
	return func(into, from reflect.Value) bool {
		if into.String() == from.String() {
			into.Set(from)
			return true
		}
		if word && into.Len() > 0 {
			into.SetString(unique.Make(into.String()).Value())
		}
		return false
	}
}

func sharePointer(elem sharer) sharer {
	return func(into, from reflect.Value) bool {
		if into.IsNil() || from.IsNil() {
			return into.IsNil() && from.IsNil()
		}
		if !elem(into.Elem(), from.Elem()) {
			return false
		}
		into.Set(from)
		return true
	}
}

func shareBytes(into, from reflect.Value) bool {
	if into.IsNil() || from.IsNil() {
		return into.IsNil() && from.IsNil()
	}
	if !bytes.Equal(into.Bytes(), from.Bytes()) {
		return false
	}
	into.Set(from)
	return true
}

func shareList(elem sharer) sharer {
	return func(into, from reflect.Value) bool {
		if into.IsNil() || from.IsNil() {
			return into.IsNil() && from.IsNil()
		}
		n, m := into.Len(), from.Len()
		all := n == m
		for i := range min(n, m) {
			all = elem(into.Index(i), from.Index(i)) && all
		}
		if all {
			if from.Cap() > m { // what is appended to one must not show in the other
				from = from.Slice3(0, m, m)
			}
			into.Set(from)
		}
		return all
	}
}

// shareStruct takes a struct with fields that nobody else sees (a time, a quantity) as one whole.
func shareStruct(t reflect.Type, made map[reflect.Type]sharer) sharer {
	type field struct {
		at    int
		share sharer
	}
	var fields []field
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			if t.Comparable() {
				return reflect.Value.Equal
			}
			return different
		}
		fields = append(fields, field{i, build(t.Field(i).Type, made)})
	}
	return func(into, from reflect.Value) bool {
		all := true
		for _, f := range fields {
			all = f.share(into.Field(f.at), from.Field(f.at)) && all
		}
		return all
	}
}

// shareMap shares whole maps, and of labels and annotations that differ those that do not.
func shareMap(t reflect.Type) sharer {
	texts, amounts := reflect.TypeFor[map[string]string](), reflect.TypeFor[v1.ResourceList]()
	return func(into, from reflect.Value) bool {
		if into.IsNil() || from.IsNil() {
			return into.IsNil() && from.IsNil()
		}
		same := into.Len() == from.Len()
		switch t {
		case texts:
			have := into.Interface().(map[string]string)
			for key, value := range from.Interface().(map[string]string) {
				if v, ok := have[key]; ok && v == value {
					have[key] = value // the key, too, is the other's then
				} else {
					same = false
				}
			}
		case amounts:
			have := into.Interface().(v1.ResourceList)
			for key, value := range from.Interface().(v1.ResourceList) {
				v, ok := have[key]
				same = same && ok && v == value
			}
		default:
			same = same && reflect.DeepEqual(into.Interface(), from.Interface())
		}
		if same {
			into.Set(from)
		}
		return same
	}
}
