package oracle

import (
	"math/rand/v2"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mutator changes objects at random. Its changes aim at what rules look at: enumerated values of the field's own type, strings
// that already occur in the object (references), limits, and lists that grow, shrink or repeat.
type mutator struct {
	*rand.Rand
	enums   map[reflect.Type][]string
	present []string // strings of the object being changed
}

func newMutator(seed uint64) (*mutator, error) {
	m := &mutator{Rand: rand.New(rand.NewPCG(seed, 7))}
	var err error
	m.enums, err = enumerated()
	return m, err
}

// slot is a place in an object that can be changed.
type slot struct {
	v    reflect.Value
	key  reflect.Value // set for an entry of the map v
	name string        // of the nearest field
}

var skipped = map[string]bool{
	"TypeMeta": true, "ManagedFields": true, "UID": true, "CreationTimestamp": true, "ResourceVersion": true, "SelfLink": true,
	"DeletionTimestamp": true, "DeletionGracePeriodSeconds": true, "Namespace": true, "Generation": true, "GenerateName": true,
}

func isLeaf(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[resource.Quantity](),
		reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[runtime.RawExtension]():
		return true
	}
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Pointer && t.Kind() != reflect.Slice && t.Kind() != reflect.Map
}

// slots lists every place under v, depth first.
func (m *mutator) slots(v reflect.Value, name string, top bool, out []slot) []slot {
	if isLeaf(v.Type()) {
		if v.Kind() == reflect.String {
			m.present = append(m.present, v.String())
		}
		return append(out, slot{v: v, name: name})
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(out, slot{v: v, name: name})
		}
		return m.slots(v.Elem(), name, false, append(out, slot{v: v, name: name}))
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if top && skipped[f.Name] || f.Name == "TypeMeta" || !f.IsExported() {
				continue
			}
			isMeta := f.Type == reflect.TypeFor[metav1.ObjectMeta]()
			out = m.slots(v.Field(i), f.Name, isMeta, out)
		}
	case reflect.Slice:
		out = append(out, slot{v: v, name: name})
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return out
		}
		for i := range v.Len() {
			out = m.slots(v.Index(i), name, false, out)
		}
	case reflect.Map:
		out = append(out, slot{v: v, name: name})
		for _, k := range sortedKeys(v) { // in order, so that a seed makes the same cases every time
			m.present = append(m.present, k.String())
			out = append(out, slot{v: v, key: k, name: name})
		}
	}
	return out
}

// Mutate changes n places under root, a pointer into an object.
func (m *mutator) Mutate(root any, n int) {
	for range n {
		m.present = m.present[:0]
		v := reflect.ValueOf(root).Elem()
		_, object := root.(runtime.Object)
		slots := m.slots(v, "", object, nil)
		if len(slots) == 0 {
			return
		}
		m.change(slots[m.IntN(len(slots))])
	}
}

func (m *mutator) change(s slot) {
	v := s.v
	if s.key.IsValid() {
		if m.IntN(3) == 0 {
			v.SetMapIndex(s.key, reflect.Value{})
			return
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		m.fill(elem, s.name, 0)
		v.SetMapIndex(s.key, elem)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && m.IntN(2) == 0 {
			v.SetZero()
			return
		}
		m.fill(v, s.name, 0)
	case reflect.Slice:
		m.changeSlice(v, s.name)
	case reflect.Map:
		if v.Len() > 0 && m.IntN(4) == 0 {
			v.SetZero()
			return
		}
		m.fillMap(v, s.name)
	default:
		m.fill(v, s.name, 0)
	}
}

func (m *mutator) changeSlice(v reflect.Value, name string) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		m.fill(v, name, 0)
		return
	}
	n := v.Len()
	switch op := m.IntN(10); {
	case n > 0 && op == 0: // remove one
		i := m.IntN(n)
		v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, n)))
	case n > 0 && op < 4: // repeat one, perhaps changed a little
		v.Set(reflect.Append(v.Slice3(0, n, n), deepCopy(v.Index(m.IntN(n)))))
		if m.IntN(2) == 0 {
			m.fill(v.Index(n), name, 1)
		}
	case n > 1 && op == 4: // swap two
		i, j := m.IntN(n), m.IntN(n)
		a, b := deepCopy(v.Index(i)), deepCopy(v.Index(j))
		v.Index(i).Set(b)
		v.Index(j).Set(a)
	case n > 0 && op == 5:
		v.SetZero()
	default: // one more
		e := reflect.New(v.Type().Elem()).Elem()
		if m.IntN(8) > 0 {
			m.fill(e, name, 0)
		}
		v.Set(reflect.Append(v.Slice3(0, n, n), e))
	}
}

// deepCopy copies through a fresh value; API types hold no cycles.
func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	copyInto(out, v)
	return out
}

func copyInto(dst, src reflect.Value) {
	if isLeaf(src.Type()) {
		dst.Set(src)
		return
	}
	switch src.Kind() {
	case reflect.Pointer:
		if !src.IsNil() {
			dst.Set(reflect.New(src.Type().Elem()))
			copyInto(dst.Elem(), src.Elem())
		}
	case reflect.Struct:
		for i := range src.NumField() {
			if src.Type().Field(i).IsExported() {
				copyInto(dst.Field(i), src.Field(i))
			}
		}
	case reflect.Slice:
		if !src.IsNil() {
			dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
			for i := range src.Len() {
				copyInto(dst.Index(i), src.Index(i))
			}
		}
	case reflect.Map:
		if !src.IsNil() {
			dst.Set(reflect.MakeMap(src.Type()))
			for _, k := range src.MapKeys() {
				dst.SetMapIndex(k, deepCopy(src.MapIndex(k)))
			}
		}
	}
}

// fill gives v a value of its type; structs get some of their fields.
func (m *mutator) fill(v reflect.Value, name string, depth int) {
	if isLeaf(v.Type()) {
		m.fillLeaf(v, name)
		return
	}
	if depth > 6 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if m.IntN(8) > 0 {
			m.fill(v.Elem(), name, depth+1)
		}
	case reflect.Struct:
		// Unions want one member: a lone field is as likely as half of them.
		chance := []int{1, 2, 4, 8}[m.IntN(4)]
		n := v.NumField()
		sure := m.IntN(max(n, 1))
		for i := range n {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Name == "TypeMeta" {
				continue
			}
			if i != sure && m.IntN(8) >= chance && f.Name != "Name" && f.Name != "Key" {
				continue
			}
			m.fill(v.Field(i), f.Name, depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(m.text(name)))
			return
		}
		n := m.IntN(3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			m.fill(v.Index(i), name, depth+1)
		}
	case reflect.Map:
		m.fillMap(v, name)
	}
}

func (m *mutator) fillMap(v reflect.Value, name string) {
	out := reflect.MakeMap(v.Type())
	for _, k := range v.MapKeys() {
		out.SetMapIndex(k, v.MapIndex(k))
	}
	for range 1 + m.IntN(2) {
		k := reflect.New(v.Type().Key()).Elem()
		k.SetString(m.mapKey(name))
		e := reflect.New(v.Type().Elem()).Elem()
		m.fill(e, name, 1)
		out.SetMapIndex(k, e)
	}
	v.Set(out)
}

func (m *mutator) fillLeaf(v reflect.Value, name string) {
	switch v.Type() {
	case reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.NewTime(created.Add(time.Duration(m.IntN(5)) * time.Hour))))
		return
	case reflect.TypeFor[metav1.MicroTime]():
		v.Set(reflect.ValueOf(metav1.NewMicroTime(created.Add(time.Duration(m.IntN(5)) * time.Microsecond))))
		return
	case reflect.TypeFor[metav1.Duration]():
		v.Set(reflect.ValueOf(metav1.Duration{Duration: time.Duration(m.IntN(100)-10) * time.Second}))
		return
	case reflect.TypeFor[runtime.RawExtension](): // objects only: the library can write no other JSON
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(pick(m, objects))}))
		return
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse(pick(m, quantities))))
		return
	case reflect.TypeFor[intstr.IntOrString]():
		if m.IntN(2) == 0 {
			v.Set(reflect.ValueOf(intstr.FromString(m.text(name))))
		} else {
			v.Set(reflect.ValueOf(intstr.FromInt32(int32(pick(m, integers)))))
		}
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		n := pick(m, integers)
		if v.Kind() == reflect.Int32 {
			n = int64(int32(n))
		}
		v.SetInt(n)
	case reflect.String:
		if values := m.enums[v.Type()]; len(values) > 0 && m.IntN(10) > 0 {
			v.SetString(pick(m, values))
			return
		}
		v.SetString(m.text(name))
	}
}

func (m *mutator) text(name string) string {
	if m.IntN(3) == 0 && len(m.present) > 0 {
		return pick(m, m.present)
	}
	if values := byField[name]; len(values) > 0 && m.IntN(4) > 0 {
		return pick(m, values)
	}
	return pick(m, texts)
}

func (m *mutator) mapKey(name string) string {
	if values := keysByField[name]; len(values) > 0 && m.IntN(6) > 0 {
		return pick(m, values)
	}
	return m.text(name)
}

func pick[T any](m *mutator, from []T) T { return from[m.IntN(len(from))] }
