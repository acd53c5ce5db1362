package verbs

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// withRev is obj at another resourceVersion: a copy of the outermost struct only, which holds the metadata by value, so that
// the shared rest is neither copied nor changed.
func withRev(obj runtime.Object, rv string) runtime.Object {
	out := reflect.New(reflect.TypeOf(obj).Elem())
	out.Elem().Set(reflect.ValueOf(obj).Elem())
	c := out.Interface().(runtime.Object)
	accessor(c).SetResourceVersion(rv)
	return c
}
