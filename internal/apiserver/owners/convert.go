package owners

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"podo.dev/podo/internal/openapi"
	"podo.dev/podo/internal/registry"
)

// types are made from the published schemas at the first write, once for the process.
var types = sync.OnceValues(makeTypes)

func makeTypes() (map[schema.GroupVersionKind]typed.ParseableType, error) {
	kinds := []*registry.Kind{registry.TokenRequest}
	for _, k := range registry.All() {
		if written(k) {
			kinds = append(kinds, k)
		}
		for _, part := range k.Parts {
			kinds = append(kinds, part.Kind)
		}
	}
	return openapi.MergeTypes(kinds)
}

// written tells whether clients write objects of the kind, though they may be kept by nobody, as reviews are.
func written(k *registry.Kind) bool { return !k.Unstored || slices.Contains(k.Verbs, "create") }

// converter gives the field managers one kind: in the version that clients of the endpoint write, and in the further versions
// that its objects are served in, since fields that were written through those are owned under their names there.
type converter struct {
	kind  *registry.Kind
	forms []*registry.Kind // all rows of the same stored objects, kind included
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c converter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	all, missing := types()
	gvk := obj.GetObjectKind().GroupVersionKind()
	t, ok := all[gvk]
	if !ok {
		return nil, fmt.Errorf("no corresponding type for %v: %w", gvk, missing)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return t.FromUnstructured(u.Object, opts...)
	}
	v, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 what a Go type holds needs no validation by its own schema, and each write would pay for it
	return typed.AsTypedUnvalidated(v, t.Schema, t.TypeRef), nil
}

// TypedToObject implements managedfields.TypeConverter.
func (c converter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	m, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("failed to convert value to unstructured for type %T", v.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// ConvertToVersion implements runtime.ObjectConvertor: to the Go type of the form that is asked for.
func (c converter) ConvertToVersion(obj runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	into := c.form(func(gvk schema.GroupVersionKind) bool {
		// A group version accepts each kind of its group, and returns the one that it would convert to.
		as, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk})
		return ok && as == gvk
	})
	from := c.form(func(gvk schema.GroupVersionKind) bool { return gvk == obj.GetObjectKind().GroupVersionKind() })
	if into == nil || from == nil {
		return nil, runtime.NewNotRegisteredErrForKind("the API", c.kind.GVK)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		obj = from.NewServed()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", from.GVK, err)
		}
		obj.GetObjectKind().SetGroupVersionKind(from.GVK)
	}
	if into == from {
		return obj, nil
	}
	obj = into.Out(from.In(obj))
	obj.GetObjectKind().SetGroupVersionKind(into.GVK)
	return obj, nil
}

func (c converter) form(is func(schema.GroupVersionKind) bool) *registry.Kind {
	for _, k := range c.forms {
		if is(k.GVK) {
			return k
		}
	}
	return nil
}

// Convert implements runtime.ObjectConvertor.
func (c converter) Convert(_, _, _ any) error {
	return fmt.Errorf("%v is not converted in place", c.kind.GVK)
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (c converter) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
}

// Default implements runtime.ObjectDefaulter.
func (c converter) Default(obj runtime.Object) {
	if c.kind.Default != nil && c.kind.Served == nil { // rules know the stored form only, for which the verbs set defaults
		c.kind.Default(obj)
	}
}

// New implements runtime.ObjectCreater.
func (c converter) New(schema.GroupVersionKind) (runtime.Object, error) {
	obj := c.kind.NewServed()
	obj.GetObjectKind().SetGroupVersionKind(c.kind.GVK)
	return obj, nil
}

func metaOf(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(fmt.Sprintf("%T has no metadata", obj)) // all kinds that are stored have it
	}
	return m
}

// pathOf reads a path such as "metadata.ownerReferences".
func pathOf(text string) fieldpath.Path {
	var p fieldpath.Path
	for name := range strings.SplitSeq(text, ".") {
		p = append(p, fieldpath.PathElement{FieldName: &name})
	}
	return p
}
