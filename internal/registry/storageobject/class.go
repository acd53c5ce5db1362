package storageobject

import (
	"maps"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
)

// IsDefaultClass is the annotation that makes a class the one of claims that name none; the older one counts too.
const (
	IsDefaultClass      = "storageclass.kubernetes.io/is-default-class"
	wasNamedDefaultThus = "storageclass.beta.kubernetes.io/is-default-class"
)

// DefaultOf is the class that claims without one get: the newest of those that are marked, of several of one second the first by name;
// nil when none is.
func DefaultOf(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var out *storagev1.StorageClass
	for _, c := range classes {
		if !MarkedDefault(c) {
			continue
		}
		if out == nil || c.CreationTimestamp.After(out.CreationTimestamp.Time) ||
			c.CreationTimestamp.Equal(&out.CreationTimestamp) && c.Name < out.Name {
			out = c
		}
	}
	return out
}

// MarkedDefault says whether a class says of itself that it is the default.
func MarkedDefault(c *storagev1.StorageClass) bool {
	return c.Annotations[IsDefaultClass] == "true" || c.Annotations[wasNamedDefaultThus] == "true"
}

// DefaultClass fills what a class's author left out.
func DefaultClass(c *storagev1.StorageClass) {
	if c.ReclaimPolicy == nil {
		c.ReclaimPolicy = new(v1.PersistentVolumeReclaimDelete)
	}
	if c.VolumeBindingMode == nil {
		c.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
	}
}

// ValidateClass judges a storage class whole.
func ValidateClass(c *storagev1.StorageClass) field.ErrorList {
	var e check.Errors
	provisioner(&e, field.NewPath("provisioner"), c.Provisioner)
	parameters(&e, field.NewPath("parameters"), c.Parameters)
	if p := c.ReclaimPolicy; p != nil && *p != "" {
		check.OneOf(&e, field.NewPath("reclaimPolicy"), *p, v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRetain)
	}
	if p := field.NewPath("volumeBindingMode"); c.VolumeBindingMode == nil {
		e.Required(p, "")
	} else {
		check.OneOf(&e, p, *c.VolumeBindingMode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	topologies(&e, field.NewPath("allowedTopologies"), c.AllowedTopologies)
	if c.Provisioner == "" {
		e.Required(field.NewPath("provisioner"), "")
	}
	return e.List()
}

// ValidateClassUpdate judges a change: only what has no effect on volumes that there are may change.
func ValidateClassUpdate(c, old *storagev1.StorageClass) field.ErrorList {
	var e check.Errors
	e.Add(ValidateClass(c))
	immutable(&e, field.NewPath("provisioner"), c.Provisioner, old.Provisioner)
	immutable(&e, field.NewPath("parameters"), c.Parameters, old.Parameters)
	immutable(&e, field.NewPath("reclaimPolicy"), c.ReclaimPolicy, old.ReclaimPolicy)
	immutable(&e, field.NewPath("volumeBindingMode"), c.VolumeBindingMode, old.VolumeBindingMode)
	return e.List()
}

// immutable is apivalidation.ValidateImmutableField of a field whose rules upstream generates: the value is not told.
func immutable(e *check.Errors, p *field.Path, value, old any) {
	if !equality.Semantic.DeepEqual(value, old) {
		e.Invalid(p, nil, apivalidation.FieldImmutableErrorMsg)
	}
}

// provisioner is empty where it is required; the callers say so, since upstream's generated rules come last.
func provisioner(e *check.Errors, p *field.Path, name string) {
	if name == "" {
		return
	}
	e.Each(p, strings.ToLower(name), qualified(strings.ToLower(name)))
}

// Parameters are a provisioner's own: only how much they are is bounded.
const (
	mostParameters = 512
	parametersSize = 256 << 10
)

func parameters(e *check.Errors, p *field.Path, params map[string]string) {
	if len(params) > mostParameters {
		e.TooLong(p, mostParameters)
		return
	}
	size := 0
	for k, v := range params {
		if k == "" {
			e.Invalid(p, k, "field can not be empty.")
		}
		size += len(k) + len(v)
	}
	if size > parametersSize {
		e.TooLong(p, parametersSize)
	}
}

func topologies(e *check.Errors, p *field.Path, terms []v1.TopologySelectorTerm) {
	// Upstream compares each term with as many empty ones as there are terms, too: one that says nothing is a duplicate.
	seen := make([]map[string]map[string]bool, len(terms), 2*len(terms))
	for i := range seen {
		seen[i] = map[string]map[string]bool{}
	}
	for i, t := range terms {
		values := topology(e, p.Index(i).Child("matchLabelExpressions"), t)
		for _, s := range seen {
			if reflect.DeepEqual(s, values) {
				e.Duplicate(p.Index(i).Child("matchLabelExpressions"), "")
			}
		}
		seen = append(seen, values)
	}
}

// topology checks one term and returns what it says: the values of each key.
func topology(e *check.Errors, p *field.Path, t v1.TopologySelectorTerm) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for i, r := range t.MatchLabelExpressions {
		at, values := p.Index(i), map[string]bool{}
		if len(r.Values) == 0 {
			e.Required(at.Child("values"), "")
		}
		for j, v := range r.Values {
			if values[v] {
				e.Duplicate(at.Child("values").Index(j), v)
			}
			values[v] = true
		}
		e.Add(metav1validation.ValidateLabelName(r.Key, at.Child("key")))
		if _, twice := out[r.Key]; twice {
			e.Duplicate(at.Child("key"), r.Key)
		}
		out[r.Key] = values
	}
	return out
}

// ClassWarnings tells of labels of nodes that were renamed or dropped.
func ClassWarnings(c *storagev1.StorageClass) (out []string) {
	for i, t := range c.AllowedTopologies {
		for j, r := range t.MatchLabelExpressions {
			if msg, old := podobject.OldNodeLabel(r.Key); old {
				out = append(out, field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key").String()+": "+msg)
			}
		}
	}
	return out
}

// ValidateAttributes judges a class of volumes' attributes whole.
func ValidateAttributes(c *storagev1.VolumeAttributesClass) field.ErrorList {
	var e check.Errors
	driver := field.NewPath("driverName")
	if c.DriverName == "" {
		e.Required(driver, "")
	}
	provisioner(&e, driver, c.DriverName)
	p := field.NewPath("parameters")
	parameters(&e, p, c.Parameters)
	if len(c.Parameters) == 0 {
		e.Required(p, "must contain at least one key/value pair")
	}
	return e.List()
}

// ValidateAttributesUpdate judges a change: what a class says never changes.
func ValidateAttributesUpdate(c, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var e check.Errors
	if c.DriverName != old.DriverName {
		e.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden.")
	}
	if (c.Parameters == nil) != (old.Parameters == nil) || !maps.Equal(c.Parameters, old.Parameters) {
		e.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden.")
	}
	e.Add(ValidateAttributes(c))
	return e.List()
}

// CapacityWarnings tells of labels of nodes that were renamed or dropped.
func CapacityWarnings(c *storagev1.CSIStorageCapacity) (out []string) {
	if c.NodeTopology == nil {
		return nil
	}
	p := field.NewPath("nodeTopology")
	for i, r := range c.NodeTopology.MatchExpressions {
		if msg, old := podobject.OldNodeLabel(r.Key); old {
			out = append(out, p.Child("matchExpressions").Index(i).Child("key").String()+": "+r.Key+" is "+msg)
		}
	}
	for _, key := range check.Sorted(c.NodeTopology.MatchLabels) {
		if msg, old := podobject.OldNodeLabel(key); old {
			out = append(out, p.Child("matchLabels").Child(key).String()+": "+msg)
		}
	}
	return out
}

// ValidateCapacity judges what a driver says of the room that it has; old is nil on create.
func ValidateCapacity(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	var e check.Errors
	p := field.NewPath("nodeTopology")
	e.Add(metav1validation.ValidateLabelSelector(c.NodeTopology, metav1validation.LabelSelectorValidationOptions{
		AllowInvalidLabelValueInSelector: old != nil && badSelector(old.NodeTopology),
	}, p))
	e.Each(field.NewPath("storageClassName"), c.StorageClassName, apivalidation.NameIsDNSSubdomain(c.StorageClassName, false))
	if c.Capacity != nil && c.Capacity.Sign() < 0 {
		e.Invalid(field.NewPath("capacity"), c.Capacity.String(), check.NotNegative)
	}
	if old == nil {
		return e.List()
	}
	if !sameSelector(c.NodeTopology, old.NodeTopology) {
		e.Invalid(p, c.NodeTopology, apivalidation.FieldImmutableErrorMsg)
	}
	if c.StorageClassName != old.StorageClassName {
		e.Invalid(field.NewPath("storageClassName"), c.StorageClassName, apivalidation.FieldImmutableErrorMsg)
	}
	return e.List()
}

func badSelector(s *metav1.LabelSelector) bool {
	return len(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
}
