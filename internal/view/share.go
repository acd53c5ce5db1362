package view

import (
	"bytes"
	"reflect"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/words"
)

// sharer lets an unpublished value use another value's memory wherever the two are equal: strings, lists, maps and pointers. It
// tells whether they are equal as a whole. into is written in place and must be the caller's alone with everything that it refers
// to. List elements and pointers that from does not have are shared with other, if that is valid.
type sharer func(o *own, into, from, other reflect.Value) bool

// own are the short texts of a value that it shares with no other. Each was allocated by itself, among a request's or a decoder's
// garbage, and for as long as it lives keeps its whole memory block in use. They are therefore joined into one text, of which
// each becomes a part.
type own struct {
	texts []reflect.Value
	size  int
}

// longestOwn is the maximum length of texts that are joined, in bytes. Parts of a text keep the whole alive, and a long one may
// be dropped soon. A container id fits.
const longestOwn = 96

func (o *own) add(text reflect.Value) {
	if n := text.Len(); n > 0 && n <= longestOwn {
		o.texts, o.size = append(o.texts, text), o.size+n
	}
}

// together joins first with the texts that were added, and returns first as a part of that.
func (o *own) together(first string) string {
	var b strings.Builder
	b.Grow(len(first) + o.size)
	b.WriteString(first)
	for _, t := range o.texts {
		b.WriteString(t.String())
	}
	whole, at := b.String(), len(first)
	for _, t := range o.texts {
		n := t.Len()
		t.SetString(whole[at : at+n])
		at += n
	}
	return whole[:len(first)]
}

var (
	sharers   sync.Map // of a type
	buildings sync.Mutex
)

// sharerOf makes the sharer of a type, including the types that it contains. Types may contain themselves.
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
	made[t] = func(o *own, into, from, other reflect.Value) bool { return s(o, into, from, other) } // for types that contain themselves
	s = buildNew(t, made)
	made[t] = s
	return s
}

func buildNew(t reflect.Type, made map[reflect.Type]sharer) sharer {
	switch t.Kind() {
	case reflect.String:
		return shareString(t)
	case reflect.Pointer:
		return sharePointer(t, build(t.Elem(), made))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return shareBytes
		}
		return shareList(t, build(t.Elem(), made))
	case reflect.Map:
		return shareMap(t)
	case reflect.Struct:
		return shareStruct(t, made)
	case reflect.Interface:
		return func(_ *own, into, from, _ reflect.Value) bool { return into.IsNil() && from.IsNil() }
	default:
		return whole(t)
	}
}

// whole compares values of which no part is shared.
func whole(t reflect.Type) sharer {
	comparable := t.Comparable()
	return func(_ *own, into, from, _ reflect.Value) bool { return comparable && into.Equal(from) }
}

// has tells whether there is something to be shared in a value that may be nil.
func has(v reflect.Value) bool { return v.IsValid() && !v.IsNil() }

// shareString also serves enumerations, whose types are their own: each of their words is kept once.
func shareString(t reflect.Type) sharer {
	word := t != reflect.TypeFor[string]() && t != reflect.TypeFor[types.UID]() && t != reflect.TypeFor[types.NodeName]()
	return func(o *own, into, from, other reflect.Value) bool {
		switch {
		case into.String() == from.String():
			into.Set(from)
			return true
		case other.IsValid() && into.String() == other.String():
			into.Set(other)
		case word && into.Len() > 0:
			into.SetString(words.Once(into.String()))
		default:
			o.add(into)
		}
		return false
	}
}

func sharePointer(t reflect.Type, elem sharer) sharer {
	nothing := reflect.Zero(t.Elem())
	return func(o *own, into, from, other reflect.Value) bool {
		switch {
		case into.IsNil():
			return from.IsNil()
		case !from.IsNil():
			below := reflect.Value{}
			if has(other) {
				below = other.Elem()
			}
			if elem(o, into.Elem(), from.Elem(), below) {
				into.Set(from)
				return true
			}
		case !has(other):
			elem(o, into.Elem(), nothing, reflect.Value{})
		case elem(o, into.Elem(), other.Elem(), reflect.Value{}):
			into.Set(other)
		}
		return false
	}
}

func shareBytes(_ *own, into, from, other reflect.Value) bool {
	if into.IsNil() || from.IsNil() && !has(other) {
		return into.IsNil() && from.IsNil()
	}
	if !from.IsNil() && bytes.Equal(into.Bytes(), from.Bytes()) {
		into.Set(from)
		return true
	}
	if has(other) && bytes.Equal(into.Bytes(), other.Bytes()) {
		into.Set(other)
	}
	return false
}

func shareList(t reflect.Type, elem sharer) sharer {
	nothing := reflect.Zero(t.Elem())
	var share sharer
	share = func(o *own, into, from, other reflect.Value) bool {
		switch {
		case into.IsNil():
			return from.IsNil()
		case from.IsNil() && has(other):
			share(o, into, other, reflect.Value{})
			return false
		}
		n, m, k := into.Len(), from.Len(), 0
		if has(other) {
			k = other.Len()
		}
		all := n == m && !from.IsNil()
		for i := range n {
			one, next := nothing, reflect.Value{}
			if i < k {
				next = other.Index(i)
			}
			switch {
			case i < m:
				one = from.Index(i)
			case i < k:
				one, next = next, reflect.Value{}
			}
			all = elem(o, into.Index(i), one, next) && all
		}
		if all {
			if from.Cap() > m { // full capacity, so that appending to one does not change the other
				from = from.Slice3(0, m, m)
			}
			into.Set(from)
		}
		return all
	}
	return share
}

// shareStruct treats a struct with unexported fields (a time, a quantity) as one whole.
func shareStruct(t reflect.Type, made map[reflect.Type]sharer) sharer {
	type field struct {
		at    int
		share sharer
	}
	var fields []field
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return whole(t)
		}
		fields = append(fields, field{i, build(t.Field(i).Type, made)})
	}
	return func(o *own, into, from, other reflect.Value) bool {
		all, next := true, reflect.Value{}
		for _, f := range fields {
			if other.IsValid() {
				next = other.Field(f.at)
			}
			all = f.share(o, into.Field(f.at), from.Field(f.at), next) && all
		}
		return all
	}
}

// shareMap shares a whole map, or for labels and annotations that differ the entries that are equal.
func shareMap(t reflect.Type) sharer {
	texts, amounts := reflect.TypeFor[map[string]string](), reflect.TypeFor[v1.ResourceList]()
	var share sharer
	share = func(o *own, into, from, other reflect.Value) bool {
		if !into.IsNil() && from.IsNil() && has(other) {
			share(o, into, other, reflect.Value{})
			return false
		}
		if into.IsNil() || from.IsNil() {
			return into.IsNil() && from.IsNil()
		}
		same := into.Len() == from.Len()
		switch t {
		case texts:
			have := into.Interface().(map[string]string)
			for key, value := range from.Interface().(map[string]string) {
				if v, ok := have[key]; ok && v == value {
					have[key] = value // now the key is the other's, too
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
	return share
}
