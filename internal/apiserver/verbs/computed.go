package verbs

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// Computer makes the objects of a kind that is computed on request. The objects are the caller's.
type Computer interface {
	// Get makes one object. nil without an error means that there is none.
	Get(ctx context.Context, namespace, name string) (runtime.Object, error)
	// List makes those of a namespace ("": of all) with the labels. It may return others too: they are filtered out.
	List(ctx context.Context, namespace string, selector labels.Selector) ([]runtime.Object, error)
}

func (v *Verbs) getComputed(ctx context.Context, k *registry.Kind, ref client.Ref) (*view.Entry, error) {
	var obj runtime.Object
	if by := v.c.Computed[k.GroupResource()]; by != nil {
		var err error
		if obj, err = by.Get(ctx, ref.Namespace, ref.Name); err != nil {
			return nil, err
		}
	}
	if obj == nil {
		return nil, apierrors.NewNotFound(k.GroupResource(), ref.Name)
	}
	return computed(k, obj)
}

// listComputed lists by namespace, then by name, as metrics-server does. The store's order differs where one namespace's name is
// a prefix of another's.
func (v *Verbs) listComputed(ctx context.Context, k *registry.Kind, ref client.Ref, o *internalversion.ListOptions) (*List, error) {
	sel, err := newSelector(k, ref.Namespace, o)
	if err != nil {
		return nil, err
	}
	out := &List{Kind: k}
	by := v.c.Computed[k.GroupResource()]
	if by == nil {
		return out, nil
	}
	objs, err := by.List(ctx, sel.namespace, sel.labels)
	if err != nil {
		return nil, err
	}
	for _, obj := range objs {
		e, err := computed(k, obj)
		if err != nil {
			return nil, err
		}
		if sel.matches(e) {
			out.Items = append(out.Items, e)
		}
	}
	slices.SortFunc(out.Items, func(a, b *view.Entry) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	return out, nil
}

// computed wraps an object as an entry of a view.
func computed(k *registry.Kind, obj runtime.Object) (*view.Entry, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GVK)
	return &view.Entry{Key: view.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, Object: obj, Meta: m}, nil
}
