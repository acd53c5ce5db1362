package wire

import (
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
)

// Tables and partial objects are served in two versions with the same content.
const (
	tableKind    = "Table"
	partialKind  = "PartialObjectMetadata"
	partialsKind = "PartialObjectMetadataList"
)

var metaGV = metav1.SchemeGroupVersion

// partialOf is an object's PartialObjectMetadata in one of its versions.
func partialOf(obj runtime.Object, in schema.GroupVersion) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: partialKind, APIVersion: in.String()}}
	if a, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if m, ok := a.GetObjectMeta().(*metav1.ObjectMeta); ok {
			out.ObjectMeta = *m
			return out
		}
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return out
	}
	out.ObjectMeta = meta.AsPartialObjectMetadata(m).ObjectMeta
	return out
}

// tabler makes the rows of one answer or one watch.
type tabler struct {
	kind    *registry.Kind
	in      schema.GroupVersion // of the table and of the metadata in it
	include metav1.IncludeObjectPolicy
	now     func() time.Time
	headed  bool // the columns have been sent
	row     func(obj runtime.Object, now time.Time) []any
}

func newTabler(k *registry.Kind, in schema.GroupVersion, include string, now func() time.Time) (*tabler, error) {
	switch p := metav1.IncludeObjectPolicy(include); p {
	case "":
		return &tabler{kind: k, in: in, include: metav1.IncludeMetadata, now: now, row: k.Row}, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return &tabler{kind: k, in: in, include: p, now: now, row: k.Row}, nil
	}
	return nil, apierrors.NewBadRequest("Unable to convert to Table as requested: " +
		field.Invalid(field.NewPath("includeObject"), include, "must be 'Metadata', 'Object', 'None', or empty").Error())
}

// table makes a Table of objects. In a watch only the first one has columns.
func (t *tabler) table(m metav1.ListMeta, objs ...runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: tableKind, APIVersion: t.in.String()},
		ListMeta: m,
		Rows:     make([]metav1.TableRow, 0, len(objs)),
	}
	if !t.headed {
		out.ColumnDefinitions = t.kind.Columns
		t.headed = true
	}
	now := t.now()
	for _, obj := range objs {
		row := t.cells(obj, now)
		include := t.include
		if include == metav1.IncludeNone && endsList(obj) {
			include = metav1.IncludeMetadata // which says so
		}
		var err error
		switch include {
		case metav1.IncludeMetadata:
			row.Object.Raw, err = json.Marshal(partialOf(obj, t.in))
		case metav1.IncludeObject:
			row.Object.Raw, err = json.Marshal(t.kind.Out(obj))
		}
		if err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// endsList tells whether an object is the bookmark that ends a watch's initial list.
func endsList(obj runtime.Object) bool {
	a, err := meta.Accessor(obj)
	return err == nil && a.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// listPartial converts a whole list. In protobuf its two versions number their fields differently.
func listPartial(l *verbs.List, in schema.GroupVersion) runtime.Object {
	typ, m, items := metav1.TypeMeta{Kind: partialsKind, APIVersion: in.String()}, listMeta(l), make([]metav1.PartialObjectMetadata, len(l.Items))
	for i, e := range l.Items {
		items[i] = *partialOf(e.Object, in)
	}
	if in == metav1beta1.SchemeGroupVersion {
		return &metav1beta1.PartialObjectMetadataList{TypeMeta: typ, ListMeta: m, Items: items}
	}
	return &metav1.PartialObjectMetadataList{TypeMeta: typ, ListMeta: m, Items: items}
}

// objectTable is the table of one object, which carries the table's version. A bookmark is an object like any other, nearly
// empty.
func (t *tabler) objectTable(obj runtime.Object) (*metav1.Table, error) {
	var m metav1.ListMeta
	if a, err := meta.Accessor(obj); err == nil {
		m.ResourceVersion = a.GetResourceVersion()
	}
	return t.table(m, obj)
}
