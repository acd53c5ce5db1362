package verbs

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// selector picks objects by namespace, labels and fields.
type selector struct {
	kind      *registry.Kind
	namespace string // "" is all
	name      string // set when the field selector names one object
	labels    labels.Selector
	fields    fields.Selector // nil when name and namespace are the whole selector
}

// newSelector checks that the fields are ones that the kind can be selected by.
func newSelector(k *registry.Kind, namespace string, o *internalversion.ListOptions) (selector, error) {
	s := selector{kind: k, labels: labels.Everything()}
	if k.Namespaced {
		s.namespace = namespace
	}
	if o.LabelSelector != nil {
		s.labels = o.LabelSelector
	}
	if o.FieldSelector == nil || o.FieldSelector.Empty() {
		return s, nil
	}
	known := k.Selectable(k.New())
	for _, r := range o.FieldSelector.Requirements() {
		if err := selectable(k, known, r.Field); err != nil {
			return s, err
		}
		if !equals(r) || r.Value == "" { // no object has an empty name
			s.fields = o.FieldSelector
			continue
		}
		switch r.Field {
		case "metadata.name":
			if s.name != "" && s.name != r.Value {
				s.fields = o.FieldSelector
			}
			s.name = r.Value
		case "metadata.namespace":
			if s.namespace != "" && s.namespace != r.Value {
				s.fields = o.FieldSelector
			} else if k.Namespaced {
				s.namespace = r.Value
			} else {
				s.fields = o.FieldSelector
			}
		default:
			s.fields = o.FieldSelector
		}
	}
	return s, nil
}

// selectable refuses a field by which objects cannot be selected. Kinds with fields of their own name all of them; others accept
// a name and a namespace, even if they are cluster-scoped.
func selectable(k *registry.Kind, known fields.Set, name string) error {
	own := false
	for field := range known {
		own = own || field != "metadata.name" && field != "metadata.namespace"
	}
	_, ok := known[name]
	switch {
	case own && (!ok || name == "name"): // a namespace's "name" is not for clients
		if k.Unselectable != nil {
			return apierrors.NewBadRequest(k.Unselectable(name))
		}
		return apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", name))
	case !own && name != "metadata.name" && name != "metadata.namespace":
		return apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", name))
	}
	return nil
}

func equals(r fields.Requirement) bool {
	return r.Operator == selection.Equals || r.Operator == selection.DoubleEquals
}

// everything tells whether the selector picks all objects of its namespace.
func (s *selector) everything() bool { return s.name == "" && s.fields == nil && s.labels.Empty() }

func (s *selector) matches(e *view.Entry) bool {
	if e == nil || s.namespace != "" && e.Key.Namespace != s.namespace || s.name != "" && e.Key.Name != s.name {
		return false
	}
	if !s.labels.Empty() && !s.labels.Matches(labels.Set(e.Meta.GetLabels())) {
		return false
	}
	return s.fields == nil || s.fields.Matches(s.kind.Selectable(e.Object))
}

// index finds a secondary index that answers one of the field requirements.
func (s *selector) index() (name, value string, ok bool) {
	if s.fields == nil {
		return "", "", false
	}
	for _, r := range s.fields.Requirements() {
		if s.kind.Indexes[r.Field] != nil && equals(r) {
			return r.Field, r.Value, true
		}
	}
	return "", "", false
}
