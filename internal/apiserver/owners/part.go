package owners

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"podo.dev/podo/internal/registry"
)

// A Part is one field of an object, shown as an object of its own (a Scale): the owner of the field owns it in both, under the
// name that it has there.
type Part struct {
	owners  *Owners
	at      keeper
	handler *managedfields.ScaleHandler
}

// PartOf sets the owners in cur, the part of whole that sub names. cur is the caller's own; whole is only read.
func (o *Owners) PartOf(k *registry.Kind, sub string, whole, cur runtime.Object) (*Part, error) {
	gv := k.GroupVersion()
	var path []any
	for name := range strings.SplitSeq(k.Parts[sub].Path, ".") {
		path = append(path, name)
	}
	at, err := fieldpath.MakePath(path...)
	if err != nil {
		return nil, err
	}
	p := &Part{owners: o, at: keeper{k, sub}}
	p.handler = managedfields.NewScaleHandler(metaOf(whole).GetManagedFields(), gv, managedfields.ResourcePathMappings{gv.String(): at})
	entries, err := p.handler.ToSubresource()
	if err != nil {
		return nil, err
	}
	metaOf(cur).SetManagedFields(entries)
	return p, nil
}

// Updated makes manager the owner of what differs in obj from cur.
func (p *Part) Updated(cur, obj runtime.Object, manager string) {
	obj.GetObjectKind().SetGroupVersionKind(cur.GetObjectKind().GroupVersionKind())
	p.owners.keepers[p.at].UpdateNoErrors(cur, obj, manager)
}

// Applied is cur with config applied by manager.
func (p *Part) Applied(cur runtime.Object, config map[string]any, manager string, force bool) (runtime.Object, error) {
	return p.owners.keepers[p.at].Apply(cur, &unstructured.Unstructured{Object: config}, manager, force)
}

// Whole are the owners of the whole object into which the part is written. An owner that took a field through the part has no
// time there.
func (p *Part) Whole(part runtime.Object) ([]metav1.ManagedFieldsEntry, error) {
	return p.handler.ToParent(metaOf(part).GetManagedFields())
}
