// Package owners keeps metadata.managedFields, which writer set which field of an object, so that server-side apply can name a
// writer whose fields it would take, and remove what a writer no longer applies.
//
// The rules are those of k8s.io/apimachinery's field managers; this package gives them our kinds. An object of its Go type is
// used unchecked, since it has been decoded into that type. What a client applies is checked against the schema.
package owners

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"podo.dev/podo/internal/registry"
)

// Owners are safe for concurrent use.
type Owners struct {
	now     func() time.Time
	keepers map[keeper]*managedfields.FieldManager
	hidden  map[keeper]hidden
	shapes  map[*registry.Kind]*shapes
}

// keeper is an endpoint: a kind, or the part of it that a subresource is.
type keeper struct {
	kind        *registry.Kind
	subresource string
}

// New makes Owners of the kinds' endpoints. now is the clock of the entries' times.
func New(kinds []*registry.Kind, now func() time.Time) (*Owners, error) {
	o := &Owners{now: now, keepers: map[keeper]*managedfields.FieldManager{}, hidden: map[keeper]hidden{}, shapes: map[*registry.Kind]*shapes{}}
	forms := map[*registry.Kind][]*registry.Kind{}
	for _, k := range kinds {
		forms[k.Stored()] = append(forms[k.Stored()], k)
	}
	for _, k := range kinds {
		if !written(k) {
			continue
		}
		if k.Served == nil || !k.Served.ByValue {
			o.shapes[k] = &shapes{}
		}
		c := converter{k, forms[k.Stored()]}
		for sub, part := range k.Parts {
			if err := o.add(keeper{k, sub}, converter{part.Kind, []*registry.Kind{part.Kind}}); err != nil {
				return nil, err
			}
		}
		for sub := range k.Updates {
			if err := o.add(keeper{k, sub}, c); err != nil {
				return nil, err
			}
		}
		if o.keepers[keeper{k, ""}] == nil { // can be created, at least
			if err := o.add(keeper{k, ""}, c); err != nil {
				return nil, err
			}
		}
	}
	tokens := registry.TokenRequest
	return o, o.add(keeper{tokens, "token"}, converter{tokens, []*registry.Kind{tokens}})
}

func (o *Owners) add(at keeper, c converter) error {
	resets := &fieldpath.Set{}
	for _, path := range at.kind.Updates[at.subresource].Resets {
		resets.Insert(pathOf(path))
	}
	gv := c.kind.GroupVersion()
	var filter map[fieldpath.APIVersion]fieldpath.Filter
	if !resets.Empty() {
		filter = map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(gv.String()): fieldpath.NewExcludeSetFilter(resets)}
	}
	m, err := managedfields.NewDefaultFieldManager(c, c, c, c, c.kind.GVK, gv, at.subresource, filter)
	o.keepers[at], o.hidden[at] = m, hiddenOf(at.kind, at.subresource)
	return err
}

// Created makes manager the owner of what is set in a new object, defaults included.
func (o *Owners) Created(k *registry.Kind, obj runtime.Object, manager string) {
	m := metaOf(obj)
	alike := o.shapes[k]
	if len(m.GetManagedFields()) > 0 || alike == nil {
		o.Updated(k, "", k.New(), obj, manager) // the client says who owns what
		return
	}
	m.SetManagedFields(nil)
	if manager == "" {
		manager = "unknown"
	}
	room := rooms.Get().(*[]byte)
	defer rooms.Put(room)
	shape := appendShape((*room)[:0], reflect.ValueOf(obj).Elem(), false)
	if cap(shape) <= maxShape {
		*room = shape
	}
	fields, ok := alike.get(shape)
	if !ok {
		o.Updated(k, "", k.New(), obj, manager)
		if entries := m.GetManagedFields(); len(entries) == 1 {
			fields = entries[0].FieldsV1.DeepCopy()
		}
		alike.put(shape, fields)
		return
	}
	obj.GetObjectKind().SetGroupVersionKind(k.Stored().GVK)
	if fields == nil {
		return
	}
	now := metav1.NewTime(o.now().UTC()).Rfc3339Copy()
	m.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: k.GroupVersion().String(), Time: &now,
		FieldsType: "FieldsV1", FieldsV1: fields,
	}})
}

// Updated makes manager the owner of what differs in obj from live, through the endpoint that sub names. live is only read.
func (o *Owners) Updated(k *registry.Kind, sub string, live, obj runtime.Object, manager string) {
	obj.GetObjectKind().SetGroupVersionKind(k.Stored().GVK)
	ofItsType(k, live)
	m := o.keepers[keeper{k, sub}]
	if m == nil {
		metaOf(obj).SetManagedFields(metaOf(live).GetManagedFields())
		return
	}
	if h := o.hidden[keeper{k, sub}]; len(h) > 0 {
		seen := h.of(obj)
		m.UpdateNoErrors(h.of(live), seen, manager)
		metaOf(obj).SetManagedFields(metaOf(seen).GetManagedFields())
	} else {
		m.UpdateNoErrors(live, obj, manager)
	}
	o.stamp(metaOf(live), metaOf(obj))
}

// ofItsType sets a new object's type; published objects have it, and are shared.
func ofItsType(k *registry.Kind, live runtime.Object) {
	if gvk := k.Stored().GVK; live.GetObjectKind().GroupVersionKind() != gvk {
		live.GetObjectKind().SetGroupVersionKind(gvk)
	}
}

// Applied is live with config applied by manager. Fields that others own and config would change are a conflict, unless force takes
// them. live is only read; it has no UID when there is no such object yet.
func (o *Owners) Applied(k *registry.Kind, sub string, live runtime.Object, config map[string]any, manager string, force bool) (runtime.Object, error) {
	ofItsType(k, live)
	out, err := o.keepers[keeper{k, sub}].Apply(live, &unstructured.Unstructured{Object: config}, manager, force)
	if err != nil {
		return nil, err
	}
	entries := metaOf(out).GetManagedFields()
	if out.GetObjectKind().GroupVersionKind() == k.GVK { // otherwise it is live itself, in its stored form: nothing has changed
		out = k.In(out)
	}
	out.GetObjectKind().SetGroupVersionKind(k.Stored().GVK)
	metaOf(out).SetManagedFields(entries)
	o.stamp(metaOf(live), metaOf(out))
	return out, nil
}

// stamp gives new or changed entries the server's time, to the second as all times are.
func (o *Owners) stamp(old, obj metav1.Object) {
	entries, had := obj.GetManagedFields(), old.GetManagedFields()
	for i := range entries {
		if entries[i].Time != nil && !isStamped(&entries[i], had) {
			now := metav1.NewTime(o.now().UTC()).Rfc3339Copy()
			entries[i].Time = &now
		}
	}
}

func isStamped(e *metav1.ManagedFieldsEntry, had []metav1.ManagedFieldsEntry) bool {
	for i := range had {
		if sameWriter(e, &had[i]) {
			return e.Time.Equal(had[i].Time)
		}
	}
	return false
}

func sameWriter(a, b *metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource && a.APIVersion == b.APIVersion
}

// OnlyTimes tells whether the entries of a and b differ only in their times.
func OnlyTimes(a, b []metav1.ManagedFieldsEntry) bool {
	if len(a) != len(b) {
		return false
	}
	differ := false
	for i := range a {
		if !sameWriter(&a[i], &b[i]) || !sameFields(a[i].FieldsV1, b[i].FieldsV1) {
			return false
		}
		differ = differ || !a[i].Time.Equal(b[i].Time)
	}
	return differ
}

func sameFields(a, b *metav1.FieldsV1) bool {
	if a == nil || b == nil {
		return a == b
	}
	return string(a.GetRawBytes()) == string(b.GetRawBytes())
}
