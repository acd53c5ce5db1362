package owners

import (
	"encoding/binary"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// shapes caches what the creator of an object owns, by the object's shape: which fields are set, which keys its maps have, and
// the values by which list items are told apart. Objects of one shape have the same fields, so creating many alike costs a
// look-up instead of a comparison. A shape is finer than necessary: all scalars of list items count, not only their keys.
type shapes struct {
	mu   sync.Mutex
	seen map[string]*metav1.FieldsV1 // by shape; nil owns nothing
}

// Of a kind no more than maxShapes are remembered, and none that is longer than maxShape: a few hundred kilobytes at worst.
const (
	maxShapes = 64
	maxShape  = 4 << 10
)

// get returns fields that many objects share, and nobody may change.
func (s *shapes) get(shape []byte) (fields *metav1.FieldsV1, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields, ok = s.seen[string(shape)]
	return fields, ok
}

func (s *shapes) put(shape []byte, fields *metav1.FieldsV1) {
	if len(shape) > maxShape {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil || len(s.seen) >= maxShapes {
		s.seen = map[string]*metav1.FieldsV1{}
	}
	s.seen[string(shape)] = fields
}

// rooms are where shapes are put together.
var rooms = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// leaves are structs that are one value to whoever reads an object's text.
var leaves = map[reflect.Type]bool{
	reflect.TypeFor[metav1.Time]():          true,
	reflect.TypeFor[metav1.MicroTime]():     true,
	reflect.TypeFor[resource.Quantity]():    true,
	reflect.TypeFor[intstr.IntOrString]():   true,
	reflect.TypeFor[runtime.RawExtension](): true,
}

// appendShape appends v's shape. item says that v is a list's item, or a field of one, whose value may identify the item.
func appendShape(b []byte, v reflect.Value, item bool) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return appendShape(append(b, 1), v.Elem(), item)
	case reflect.Struct:
		if leaves[v.Type()] {
			return appendZero(b, v)
		}
		t := v.Type()
		for i := range v.NumField() {
			f := v.Field(i)
			b = appendShape(b, f, item && (isScalar(f.Type()) || t.Field(i).Anonymous))
		}
		return b
	case reflect.Map:
		return appendMap(b, v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return appendZero(b, v)
		}
		if v.IsNil() {
			return append(b, 0)
		}
		b = binary.AppendUvarint(append(b, 1), uint64(v.Len()))
		for i := range v.Len() {
			b = appendShape(b, v.Index(i), true)
		}
		return b
	}
	if !item {
		return appendZero(b, v)
	}
	return appendScalar(b, v)
}

func appendMap(b []byte, v reflect.Value) []byte {
	if v.IsNil() {
		return append(b, 0)
	}
	b = binary.AppendUvarint(append(b, 1), uint64(v.Len()))
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int {
		if x.String() < y.String() {
			return -1
		}
		return 1
	})
	for _, key := range keys {
		b = appendShape(appendScalar(b, key), v.MapIndex(key), false)
	}
	return b
}

func appendZero(b []byte, v reflect.Value) []byte {
	if v.IsZero() {
		return append(b, 0)
	}
	return append(b, 1)
}

func appendScalar(b []byte, v reflect.Value) []byte {
	switch {
	case v.Kind() == reflect.String:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		return append(b, v.String()...)
	case v.CanInt():
		return binary.AppendVarint(b, v.Int())
	case v.CanUint():
		return binary.AppendUvarint(b, v.Uint())
	}
	return appendZero(b, v)
}

// isScalar: what may be a list's key, also through a pointer.
func isScalar(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Interface, reflect.Array:
		return false
	}
	return true
}
