package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func priorityClassKind() *Kind {
	of := func(obj runtime.Object) *schedulingv1.PriorityClass { return obj.(*schedulingv1.PriorityClass) }
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return &Kind{
		GVK:        schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"),
		Resource:   "priorityclasses",
		Singular:   "priorityclass",
		ShortNames: []string{"pc"},
		Dir:        "priorityclasses",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &schedulingv1.PriorityClass{} },
		NewList:    func() runtime.Object { return &schedulingv1.PriorityClassList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Default: func(obj runtime.Object) {
			if c := of(obj); c.PreemptionPolicy == nil {
				policy := v1.PreemptLowerPriority
				c.PreemptionPolicy = &policy
			}
		},
		PrepareForCreate: func(obj runtime.Object) { of(obj).Generation = 1 },
		Validate:         func(obj runtime.Object) field.ErrorList { return validatePriorityClass(of(obj)) },
		Updates: map[string]Update{"": {
			Prepare:            func(runtime.Object, runtime.Object) {},
			Validate:           func(obj, old runtime.Object) field.ErrorList { return validatePriorityClassUpdate(of(obj), of(old)) },
			AllowUnconditional: true,
		}},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Value", Type: "integer", Description: doc["value"]},
			{Name: "Global-Default", Type: "boolean", Description: doc["globalDefault"]},
			ageColumn,
			{Name: "PreemptionPolicy", Type: "string", Description: doc["preemptionPolicy"]},
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			c, policy := of(obj), ""
			if c.PreemptionPolicy != nil {
				policy = string(*c.PreemptionPolicy)
			}
			return []any{c.Name, int64(c.Value), c.GlobalDefault, age(c.CreationTimestamp, now), policy}
		},
	}
}

// Priorities above highestUserPriority belong to the system.
const (
	highestUserPriority   = int32(1000000000)
	systemCritical        = 2 * highestUserPriority
	systemPriorityClasses = "system-" // what their names begin with
)

// SystemPriorityClasses are the classes that every cluster has.
func SystemPriorityClasses() []*schedulingv1.PriorityClass {
	return []*schedulingv1.PriorityClass{{
		ObjectMeta:  metav1.ObjectMeta{Name: "system-node-critical"},
		Value:       systemCritical + 1000,
		Description: "Used for system critical pods that must not be moved from their current node.",
	}, {
		ObjectMeta:  metav1.ObjectMeta{Name: "system-cluster-critical"},
		Value:       systemCritical,
		Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
	}}
}

func validatePriorityClass(c *schedulingv1.PriorityClass) field.ErrorList {
	var e check.Errors
	if strings.HasPrefix(c.Name, systemPriorityClasses) {
		if why := notOfTheSystem(c); why != "" {
			e.Forbidden(metaPath.Child("name"), "priority class names with '"+systemPriorityClasses+"' prefix are reserved for system use only. error: "+why)
		}
	} else if c.Value > highestUserPriority {
		e.Forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %v", highestUserPriority))
	}
	if c.PreemptionPolicy != nil {
		check.RequiredOneOf(&e, field.NewPath("preemptionPolicy"), *c.PreemptionPolicy, v1.PreemptLowerPriority, v1.PreemptNever)
	}
	return e.List()
}

// notOfTheSystem says in which way a class with a name of the system's is none of the system's.
func notOfTheSystem(c *schedulingv1.PriorityClass) string {
	system := SystemPriorityClasses()
	i := slices.IndexFunc(system, func(s *schedulingv1.PriorityClass) bool { return s.Name == c.Name })
	switch {
	case i < 0:
		return c.Name + " is not a known system priority class"
	case c.Value != system[i].Value:
		return fmt.Sprintf("value of %v PriorityClass must be %v", c.Name, system[i].Value)
	case c.GlobalDefault:
		return fmt.Sprintf("globalDefault of %v PriorityClass must be %v", c.Name, false)
	}
	return ""
}

func validatePriorityClassUpdate(c, old *schedulingv1.PriorityClass) field.ErrorList {
	var e check.Errors
	if c.Value != old.Value {
		e.Forbidden(field.NewPath("value"), "may not be changed in an update.")
	}
	e.Add(apivalidation.ValidateImmutableField(c.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy")))
	return e.List()
}
