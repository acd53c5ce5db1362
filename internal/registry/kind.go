package registry

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// CheckCreate judges an object about to be created, defaulted and prepared: its metadata and the kind's own rules, and, when
// those find nothing, that its name fits in a path. A finding is told once.
func (k *Kind) CheckCreate(obj runtime.Object) field.ErrorList {
	m := accessor(obj)
	var e check.Errors
	if k.ValidName != nil {
		valid := k.ValidName
		if k.ValidNameOf != nil {
			valid = k.ValidNameOf(obj)
		}
		e.Add(apivalidation.ValidateObjectMetaAccessor(m, k.Namespaced, valid, metaPath))
		k.finalizers(&e, m)
	}
	if k.Validate != nil {
		e.Add(k.Validate(obj))
	}
	switch {
	case len(e.List()) > 0:
	case k.ValidName == nil:
		e.Add(apivalidation.ValidateObjectMetaAccessor(m, k.Namespaced, nameInPath, metaPath))
	default: // the rest of the metadata has been judged
		e.Each(generateNamePath, m.GetGenerateName(), nameInPath(m.GetGenerateName(), true))
		e.Each(namePath, m.GetName(), nameInPath(m.GetName(), false))
	}
	return unique(e.List())
}

// CheckUpdate judges a change by the rules of an endpoint: the metadata whole, what of it is immutable, finalizers added while
// the object is being deleted, and what the rules say. A finding is told once.
func (k *Kind) CheckUpdate(rules Update, obj, old runtime.Object) field.ErrorList {
	m := accessor(obj)
	var e check.Errors
	// The name cannot change, so that one made under an older rule must stay good enough: it only has to fit in a path.
	e.Add(apivalidation.ValidateObjectMetaAccessor(m, k.Namespaced, nameInPath, metaPath))
	e.Add(apivalidation.ValidateObjectMetaAccessorUpdate(m, accessor(old), metaPath))
	if k.ValidNameOf != nil { // what it depends on may change
		e.Add(apivalidation.ValidateObjectMetaAccessor(m, k.Namespaced, k.ValidNameOf(obj), metaPath))
	}
	if k.ValidName != nil {
		k.finalizers(&e, m)
	}
	if rules.Validate != nil {
		e.Add(rules.Validate(obj, old))
	}
	return unique(e.List())
}

// nameInPath is the least that a name must fulfil: to be one segment of a URL's path.
func nameInPath(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// unique leaves out findings that were there before: two rules may find the same.
func unique(list field.ErrorList) field.ErrorList {
	if len(list) < 2 {
		return list
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(err *field.Error) bool {
		text := err.Error()
		again := seen[text]
		seen[text] = true
		return again
	})
}

// finalizers: those without a domain are upstream's own, except in the groups whose rules are older than that.
func (k *Kind) finalizers(e *check.Errors, m metav1.Object) {
	if k.GVK.Group != "coordination.k8s.io" && k.GVK.Group != "node.k8s.io" {
		e.StandardFinalizers(metaPath.Child("finalizers"), m.GetFinalizers())
	}
}

var (
	metaPath   = field.NewPath("metadata")
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")

	namePath, generateNamePath = metaPath.Child("name"), metaPath.Child("generateName")
)

// accessor is the metadata of an object of the table; all of them have one.
func accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err) // a row of the table whose New makes something that is no API object
	}
	return m
}

// metaFields are the fields that every object in a namespace can be selected by.
func metaFields(obj runtime.Object) fields.Set {
	m := accessor(obj)
	return fields.Set{"metadata.name": m.GetName(), "metadata.namespace": m.GetNamespace()}
}

// clusterFields are the fields that every object outside of namespaces can be selected by.
func clusterFields(obj runtime.Object) fields.Set {
	return fields.Set{"metadata.name": accessor(obj).GetName()}
}

// with adds fields, given as name, value, name, value, to the set.
func with(s fields.Set, pairs ...string) fields.Set {
	for i := 0; i+1 < len(pairs); i += 2 {
		s[pairs[i]] = pairs[i+1]
	}
	return s
}

// age is how long ago t was, as kubectl shows it.
func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// metaDoc are the texts of ObjectMeta's fields, which the columns Name and Age carry as descriptions.
var metaDoc = metav1.ObjectMeta{}.SwaggerDoc()

var (
	nameColumn = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metaDoc["name"]}
	ageColumn  = metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: metaDoc["creationTimestamp"]}
)
