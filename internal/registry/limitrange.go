package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func limitRangeKind() *Kind {
	of := func(obj runtime.Object) *v1.LimitRange { return obj.(*v1.LimitRange) }
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("LimitRange"),
		Resource:   "limitranges",
		Singular:   "limitrange",
		ShortNames: []string{"limits"},
		Namespaced: true,
		Dir:        "limitranges",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &v1.LimitRange{} },
		NewList:    func() runtime.Object { return &v1.LimitRangeList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Default:    func(obj runtime.Object) { defaultLimitRange(of(obj)) },
		// One without a name gets a random one; its UID is one.
		PrepareForCreate: func(obj runtime.Object) {
			if l := of(obj); l.Name == "" {
				l.Name = string(l.UID)
			}
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateLimitRange(of(obj)) },
		Updates: map[string]Update{"": {
			Prepare:            func(runtime.Object, runtime.Object) {},
			Validate:           func(obj, _ runtime.Object) field.ErrorList { return validateLimitRange(of(obj)) },
			AllowCreate:        true,
			AllowUnconditional: true,
		}},
		Selectable: metaFields,
		Columns:    []metav1.TableColumnDefinition{nameColumn, createdAtColumn},
		Row: func(obj runtime.Object, _ time.Time) []any {
			return []any{of(obj).Name, of(obj).CreationTimestamp.UTC().Format(time.RFC3339)}
		},
	}
}

// createdAtColumn is what kinds have that upstream has no columns for.
var createdAtColumn = metav1.TableColumnDefinition{Name: "Created At", Type: "date", Description: metaDoc["creationTimestamp"]}

func defaultLimitRange(l *v1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type == v1.LimitTypeContainer {
			item.Default = completed(item.Default, item.Max)
			item.DefaultRequest = completed(item.DefaultRequest, item.Default)
			item.DefaultRequest = completed(item.DefaultRequest, item.Min)
		}
		for _, list := range []v1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			check.RoundUp(list)
		}
	}
}

// completed adds to list what only from has.
func completed(list, from v1.ResourceList) v1.ResourceList {
	if list == nil {
		list = v1.ResourceList{}
	}
	for name, q := range from {
		if _, ok := list[name]; !ok {
			list[name] = q.DeepCopy()
		}
	}
	return list
}

var limitTypes = []v1.LimitType{v1.LimitTypePod, v1.LimitTypeContainer, v1.LimitTypePersistentVolumeClaim}

func validateLimitRange(l *v1.LimitRange) field.ErrorList {
	var e check.Errors
	seen := map[v1.LimitType]bool{}
	for i := range l.Spec.Limits {
		item, p := &l.Spec.Limits[i], specPath.Child("limits").Index(i)
		if msgs := validation.IsQualifiedName(string(item.Type)); len(msgs) > 0 {
			e.Each(p.Child("type"), item.Type, msgs)
		} else if !strings.Contains(string(item.Type), "/") && !slices.Contains(limitTypes, item.Type) {
			e.Invalid(p.Child("type"), item.Type, "must be a standard limit type or fully qualified")
		}
		if seen[item.Type] {
			e.Duplicate(p.Child("type"), item.Type)
		}
		seen[item.Type] = true
		limitItem(&e, p, item)
	}
	return e.List()
}

func limitItem(e *check.Errors, p *field.Path, item *v1.LimitRangeItem) {
	names := map[v1.ResourceName]bool{}
	each := func(field string, list v1.ResourceList) {
		for _, name := range check.Sorted(list) {
			names[name] = true
			if at := p.Child(field).Key(string(name)); item.Type == v1.LimitTypePod || item.Type == v1.LimitTypeContainer {
				e.ContainerResourceName(at, name)
			} else {
				e.ResourceName(at, name)
			}
		}
	}
	each("max", item.Max)
	each("min", item.Min)
	if item.Type != v1.LimitTypePod {
		each("default", item.Default)
		each("defaultRequest", item.DefaultRequest)
	} else {
		const no = "may not be specified when `type` is 'Pod'"
		if len(item.Default) > 0 {
			e.Forbidden(p.Child("default"), no)
		}
		if len(item.DefaultRequest) > 0 {
			e.Forbidden(p.Child("defaultRequest"), no)
		}
	}
	if item.Type == v1.LimitTypePersistentVolumeClaim {
		_, min := item.Min[v1.ResourceStorage]
		_, max := item.Max[v1.ResourceStorage]
		if !min && !max {
			e.Required(p.Child("limits"), "either minimum or maximum storage value is required, but neither was provided")
		}
	}
	each("maxLimitRequestRatio", item.MaxLimitRequestRatio)
	for _, name := range check.Sorted(names) {
		limitOf(e, p, item, name)
	}
}

// limitOf checks that what the item says of one resource agrees with itself.
func limitOf(e *check.Errors, p *field.Path, item *v1.LimitRangeItem, name v1.ResourceName) {
	defaults, requests := item.Default, item.DefaultRequest
	if item.Type == v1.LimitTypePod { // refused as a whole
		defaults, requests = nil, nil
	}
	min, hasMin := item.Min[name]
	max, hasMax := item.Max[name]
	limit, hasLimit := defaults[name]
	request, hasRequest := requests[name]
	ratio, hasRatio := item.MaxLimitRequestRatio[name]
	wrong := func(list string, q resource.Quantity, format string, args ...any) {
		e.Invalid(p.Child(list).Key(string(name)), q, fmt.Sprintf(format, args...))
	}
	if hasMin && hasMax && min.Cmp(max) > 0 {
		wrong("min", min, "min value %s is greater than max value %s", min.String(), max.String())
	}
	if hasRequest && hasMin && min.Cmp(request) > 0 {
		wrong("defaultRequest", request, "min value %s is greater than default request value %s", min.String(), request.String())
	}
	if hasRequest && hasMax && request.Cmp(max) > 0 {
		wrong("defaultRequest", request, "default request value %s is greater than max value %s", request.String(), max.String())
	}
	if hasRequest && hasLimit && request.Cmp(limit) > 0 {
		wrong("defaultRequest", request, "default request value %s is greater than default limit value %s", request.String(), limit.String())
	}
	if hasLimit && hasMin && min.Cmp(limit) > 0 {
		wrong("default", min, "min value %s is greater than default value %s", min.String(), limit.String())
	}
	if hasLimit && hasMax && limit.Cmp(max) > 0 {
		wrong("default", max, "default value %s is greater than max value %s", limit.String(), max.String())
	}
	if hasRatio && ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		wrong("maxLimitRequestRatio", ratio, "ratio %s is less than 1", ratio.String())
	}
	if hasRatio && hasMin && hasMax {
		if possible, over := ratioOver(ratio, min, max); over {
			wrong("maxLimitRequestRatio", ratio, "ratio %s is greater than max/min = %f", ratio.String(), possible)
		}
	}
	if !check.CanOvercommit(name) && hasLimit && hasRequest && limit.Cmp(request) != 0 {
		wrong("defaultRequest", request, "default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), name)
	}
}

// ratioOver says whether the ratio allows more than max and min do, which is possible. It compares thousandths unless they overflow.
func ratioOver(ratio, min, max resource.Quantity) (possible float64, over bool) {
	r, lo, hi := float64(ratio.Value()), min.Value(), max.Value()
	if ratio.Value() < resource.MaxMilliValue && lo < resource.MaxMilliValue && hi < resource.MaxMilliValue {
		r, lo, hi = float64(ratio.MilliValue())/1000, min.MilliValue(), max.MilliValue()
	}
	possible = float64(hi) / float64(lo)
	return possible, r > possible
}
