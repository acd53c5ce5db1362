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

// ValidateMeta checks the metadata of an object about to be created, its name by the kind's rule.
func (k *Kind) ValidateMeta(obj runtime.Object) field.ErrorList {
	m := accessor(obj)
	var e check.Errors
	e.Add(apivalidation.ValidateObjectMetaAccessor(m, k.Namespaced, k.ValidName, metaPath))
	e.Add(apivalidation.ValidateObjectMetaAccessor(m, k.Namespaced, nameInPath, metaPath))
	k.finalizers(&e, m)
	return unique(e.List())
}

// ValidateMetaUpdate checks changed metadata: whole, what is immutable, and finalizers added while the object is being deleted.
func (k *Kind) ValidateMetaUpdate(obj, old runtime.Object) field.ErrorList {
	m := accessor(obj)
	var e check.Errors
	// The name cannot change, so that one made under an older rule must stay good enough: it only has to fit in a path.
	e.Add(apivalidation.ValidateObjectMetaAccessor(m, k.Namespaced, nameInPath, metaPath))
	e.Add(apivalidation.ValidateObjectMetaAccessorUpdate(m, accessor(old), metaPath))
	k.finalizers(&e, m)
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
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(err *field.Error) bool {
		text := err.Error()
		again := seen[text]
		seen[text] = true
		return again
	})
}

// finalizers: in the core group, those without a domain are upstream's own.
func (k *Kind) finalizers(e *check.Errors, m metav1.Object) {
	if k.GVK.Group == "" {
		e.StandardFinalizers(metaPath.Child("finalizers"), m.GetFinalizers())
	}
}

var (
	metaPath   = field.NewPath("metadata")
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

// accessor is the metadata of an object of the table; all of them have one.
func accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err) // a row of the table whose New makes something that is no API object
	}
	return m
}

// metaFields are the fields that every kind can be selected by.
func metaFields(obj runtime.Object) fields.Set {
	m := accessor(obj)
	return fields.Set{"metadata.name": m.GetName(), "metadata.namespace": m.GetNamespace()}
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
