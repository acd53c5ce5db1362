package owners

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/registry"
)

// hidden are the fields of a kind's struct that a write through an endpoint does not change, whatever is sent: nobody comes to own or
// loses anything of them, so that they need not be compared. Of a status that is most of the object.
type hidden []int

// hiddenOf finds those that are whole fields of the object. metadata is read by the field manager itself.
func hiddenOf(k *registry.Kind, sub string) (out hidden) {
	if k.Served != nil || k.Parts[sub].Kind != nil {
		return nil // written in another form than it is kept in
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

// of is obj without them: a copy of the outermost struct, which shares all the rest.
func (h hidden) of(obj runtime.Object) runtime.Object {
	out := reflect.New(reflect.TypeOf(obj).Elem())
	out.Elem().Set(reflect.ValueOf(obj).Elem())
	for _, i := range h {
		out.Elem().Field(i).SetZero()
	}
	return out.Interface().(runtime.Object)
}
