package owners

import (
	"fmt"
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

// types are made of the published schemas at the first write, once for everybody in the process.
var types = sync.OnceValues(makeTypes)

func makeTypes() (map[schema.GroupVersionKind]typed.ParseableType, error) {
	var kinds []*registry.Kind
	for _, k := range registry.All() {
		if !k.Unstored {
			kinds = append(kinds, k)
		}
	}
	return openapi.MergeTypes(kinds)
}

// converter gives the field managers one kind in its one version.
type converter struct{ kind *registry.Kind }

// ObjectToTyped implements managedfields.TypeConverter.
func (c converter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	all, missing := types()
	t, ok := all[c.kind.GVK]
	if !ok {
		return nil, fmt.Errorf("no corresponding type for %v: %w", c.kind.GVK, missing)
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

// ConvertToVersion implements runtime.ObjectConvertor: to the Go type of the kind. Other versions of it are not served.
func (c converter) ConvertToVersion(obj runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	if _, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{c.kind.GVK}); !ok {
		return nil, runtime.NewNotRegisteredErrForKind("the API", c.kind.GVK)
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	out := c.kind.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(c.kind.GVK)
	return out, nil
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
	if c.kind.Default != nil {
		c.kind.Default(obj)
	}
}

// New implements runtime.ObjectCreater.
func (c converter) New(schema.GroupVersionKind) (runtime.Object, error) {
	obj := c.kind.New()
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
