package oracle

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// shrink removes parts of an object as long as shows still holds of what is left. Parts are removed largest first: whole
// fields before what they hold.
func shrink(obj runtime.Object, shows func(runtime.Object) bool) runtime.Object {
	budget := 800
	for again := true; again && budget > 0; {
		again = false
		for i := 0; budget > 0; i++ {
			next := obj.DeepCopyObject()
			n := i
			if !cut(reflect.ValueOf(next).Elem(), true, &n) {
				break
			}
			if reflect.DeepEqual(next, obj) {
				continue
			}
			budget--
			if shows(next) {
				obj, again = next, true
				i--
			}
		}
	}
	return obj
}

// cut removes the n-th part, counted in the order of the walk; false when there are fewer.
func cut(v reflect.Value, top bool, n *int) bool {
	if isLeaf(v.Type()) {
		return false
	}
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && cut(v.Elem(), false, n)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Name == "TypeMeta" || top && (f.Name == "UID" || f.Name == "CreationTimestamp" || f.Name == "Name" || f.Name == "Namespace") {
				continue
			}
			fv := v.Field(i)
			if f.Type == reflect.TypeFor[metav1.ObjectMeta]() {
				if cut(fv, true, n) {
					return true
				}
				continue
			}
			if !fv.IsZero() {
				if *n == 0 {
					fv.SetZero()
					return true
				}
				*n--
			}
			if cut(fv, false, n) {
				return true
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		for i := range v.Len() {
			if *n == 0 {
				v.Set(reflect.AppendSlice(v.Slice3(0, i, i), v.Slice(i+1, v.Len())))
				return true
			}
			*n--
			if cut(v.Index(i), false, n) {
				return true
			}
		}
	case reflect.Map:
		for _, k := range sortedKeys(v) {
			if *n == 0 {
				v.SetMapIndex(k, reflect.Value{})
				return true
			}
			*n--
		}
	}
	return false
}

func sortedKeys(v reflect.Value) []reflect.Value {
	keys := v.MapKeys()
	for i := 1; i < len(keys); i++ {
		for j := i; j > 0 && keys[j].String() < keys[j-1].String(); j-- {
			keys[j], keys[j-1] = keys[j-1], keys[j]
		}
	}
	return keys
}
