// Package settle makes of an object that is answered what will be read back of it.
package settle

import (
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// Object changes obj to what will be read back of it: protobuf does not tell an empty list from none, which shows in JSON where a list
// is not left out when it is empty.
func Object(obj runtime.Object) {
	if _, ok := obj.(runtime.ProtobufMarshaller); !ok {
		return // kept as JSON
	}
	v := reflect.ValueOf(obj).Elem()
	if settle := settlerOf(v.Type()); settle != nil {
		settle(v)
	}
}

// settler empties what is below a value of one type. nil: nothing can be.
type settler func(reflect.Value)

var settlers sync.Map // of settler, by the type of an object

func settlerOf(t reflect.Type) settler {
	known, ok := settlers.Load(t)
	if !ok {
		known, _ = settlers.LoadOrStore(t, making{}.of(t))
	}
	return known.(settler)
}

// making are the settlers that are made together. A type below itself has none there; no list of those is told when it is empty.
type making map[reflect.Type]settler

func (m making) of(t reflect.Type) settler {
	if s, ok := m[t]; ok {
		return s
	}
	m[t] = nil
	m[t] = m.make(t)
	return m[t]
}

func (m making) make(t reflect.Type) settler {
	switch t.Kind() { //nolint:exhaustive // maps hold no values that can be changed, and nothing else has anything below
	case reflect.Pointer:
		if below := m.of(t.Elem()); below != nil {
			return func(v reflect.Value) {
				if !v.IsNil() {
					below(v.Elem())
				}
			}
		}
	case reflect.Slice:
		if below := m.of(t.Elem()); below != nil {
			return func(v reflect.Value) {
				for i := range v.Len() {
					below(v.Index(i))
				}
			}
		}
	case reflect.Struct:
		return m.ofStruct(t)
	}
	return nil
}

func (m making) ofStruct(t reflect.Type) settler {
	type part struct {
		at   int
		told bool // a list that JSON shows when it is empty
		settler
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if !f.IsExported() || tag == "-" {
			continue
		}
		p := part{i, f.Type.Kind() == reflect.Slice && !strings.Contains(tag, ",omit"), m.of(f.Type)}
		if p.told || p.settler != nil {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return func(v reflect.Value) {
		for _, p := range parts {
			f := v.Field(p.at)
			if p.told && f.Len() == 0 {
				if !f.IsNil() { // what others share has been read back, and is not written
					f.SetZero()
				}
			} else if p.settler != nil {
				p.settler(f)
			}
		}
	}
}
