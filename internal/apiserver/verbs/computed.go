//lint:file-ignore SA1019 ComponentStatus is deprecated, and old clients ask for it.

package verbs

import (
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// computed makes the objects of a kind that is made when it is asked for, in order of their names.
func (v *Verbs) computed(k *registry.Kind) []*view.Entry {
	if v.c.Components == nil {
		return nil
	}
	var out []*view.Entry
	for _, c := range v.c.Components() {
		obj := c.DeepCopy()
		obj.SetGroupVersionKind(k.GVK)
		out = append(out, &view.Entry{Key: view.Key{Name: c.Name}, Object: obj, Meta: obj})
	}
	slices.SortFunc(out, func(a, b *view.Entry) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	return out
}

func (v *Verbs) getComputed(k *registry.Kind, ref client.Ref) (*view.Entry, error) {
	for _, e := range v.computed(k) {
		if e.Key.Name == ref.Name {
			return e, nil
		}
	}
	return nil, apierrors.NewNotFound(k.GroupResource(), ref.Name)
}

func (v *Verbs) listComputed(k *registry.Kind, o *internalversion.ListOptions) (*List, error) {
	sel, err := newSelector(k, "", o)
	if err != nil {
		return nil, err
	}
	out := &List{Kind: k}
	for _, e := range v.computed(k) {
		if sel.matches(e) {
			out.Items = append(out.Items, e)
		}
	}
	return out, nil
}
