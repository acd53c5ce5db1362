package check

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// shown is a value as it appears in a message. Upstream's rules run on types of its own that have no JSON names: a structure is
// shown with its fields' names in Go, all of them, empty ones too. Types with an encoding of their own, and those of
// apimachinery, are shown as everywhere.
type shown struct{ v reflect.Value }

// Shown wraps API structures so that messages show them as upstream does; other values stay as they are.
func Shown(value any) any {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.IsValid() && holdsAPI(v.Type()) {
		return shown{v}
	}
	return value
}

// holdsAPI says whether values of the type are shown otherwise than their JSON.
func holdsAPI(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
	case reflect.Slice, reflect.Pointer:
		return holdsAPI(t.Elem())
	}
	return false
}

// MarshalJSON implements json.Marshaler.
func (s shown) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	if err := show(&b, s.v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func show(b *bytes.Buffer, v reflect.Value) error {
	if !holdsAPI(v.Type()) {
		raw, err := json.Marshal(v.Interface())
		b.Write(raw)
		return err
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("null")
			return nil
		}
		return show(b, v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			b.WriteString("null")
			return nil
		}
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := show(b, v.Index(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	b.WriteByte('{')
	first := true
	if err := showFields(b, v, &first); err != nil {
		return err
	}
	b.WriteByte('}')
	return nil
}

// showFields writes the fields of a structure; those of an embedded one stand among them.
func showFields(b *bytes.Buffer, v reflect.Value, first *bool) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct && !holdsAPI(f.Type) { // ObjectMeta: its own names, among the others
			raw, err := json.Marshal(v.Field(i).Interface())
			if err != nil {
				return err
			}
			if inner := raw[1 : len(raw)-1]; len(inner) > 0 {
				if !*first {
					b.WriteByte(',')
				}
				*first = false
				b.Write(inner)
			}
			continue
		}
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if err := showFields(b, v.Field(i), first); err != nil {
				return err
			}
			continue
		}
		if !*first {
			b.WriteByte(',')
		}
		*first = false
		b.WriteString(`"` + f.Name + `":`)
		if err := show(b, v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}
