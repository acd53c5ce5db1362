package owners

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/registry"
)

// hidden are the struct fields of a kind that a write through an endpoint cannot change, so that their ownership does not change
// either and they need not be compared. For a status that is most of the object.
type hidden []int

// hiddenOf finds those that are whole fields of the object. metadata is handled by the field manager itself.
func hiddenOf(k *registry.Kind, sub string) (out hidden) {
	if k.Served != nil || k.Parts[sub].Kind != nil {
		return nil // written in another form than it is stored in
	}
	t := reflect.TypeOf(k.New()).Elem()
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "metadata" && slices.Contains(k.Updates[sub].Resets, name) {
			out = append(out, i)
		}
	}
	return out
}

// of is obj without them: a copy of the outermost struct that shares everything else.
func (h hidden) of(obj runtime.Object) runtime.Object {
	out := reflect.New(reflect.TypeOf(obj).Elem())
	out.Elem().Set(reflect.ValueOf(obj).Elem())
	for _, i := range h {
		out.Elem().Field(i).SetZero()
	}
	return out.Interface().(runtime.Object)
}
