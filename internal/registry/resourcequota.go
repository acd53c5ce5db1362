package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func resourceQuotaKind() *Kind {
	of := func(obj runtime.Object) *v1.ResourceQuota { return obj.(*v1.ResourceQuota) }
	return &Kind{
		GVK:            v1.SchemeGroupVersion.WithKind("ResourceQuota"),
		Resource:       "resourcequotas",
		Singular:       "resourcequota",
		ShortNames:     []string{"quota"},
		Namespaced:     true,
		Dir:            "resourcequotas",
		Verbs:          allVerbs,
		ReturnsDeleted: true,
		New:            func() runtime.Object { return &v1.ResourceQuota{} },
		NewList:        func() runtime.Object { return &v1.ResourceQuotaList{} },
		ValidName:      apivalidation.NameIsDNSSubdomain,
		Default: func(obj runtime.Object) {
			q := of(obj)
			for _, list := range []v1.ResourceList{q.Spec.Hard, q.Status.Hard, q.Status.Used} {
				check.RoundUp(list)
			}
		},
		PrepareForCreate: func(obj runtime.Object) { of(obj).Status = v1.ResourceQuotaStatus{} },
		Validate:         func(obj runtime.Object) field.ErrorList { return validateQuotaSpec(&of(obj).Spec) },
		Warnings:         func(obj runtime.Object) []string { return quotaWarnings(&of(obj).Spec) },
		Updates: map[string]Update{
			"": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Status = of(old).Status },
				Validate:           func(obj, old runtime.Object) field.ErrorList { return validateQuotaUpdate(of(obj), of(old)) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Spec = of(old).Spec },
				Validate:           func(obj, _ runtime.Object) field.ErrorList { return validateQuotaStatus(&of(obj).Status) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Request", Type: "string", Description: "Request represents a minimum amount of cpu/memory that a container may consume."},
			{Name: "Limit", Type: "string", Description: "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any { return quotaRow(of(obj), now) },
	}
}

func quotaRow(q *v1.ResourceQuota, now time.Time) []any {
	var requests, limits []string
	for _, name := range check.Sorted(q.Status.Hard) {
		used, hard := q.Status.Used[name], q.Status.Hard[name]
		text := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits.") {
			limits = append(limits, text)
		} else {
			requests = append(requests, text)
		}
	}
	return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), age(q.CreationTimestamp, now)}
}

// Which resources, of those known without a domain, a scope can bound.
var (
	podScoped = []v1.ResourceName{
		v1.ResourcePods, v1.ResourceCPU, v1.ResourceMemory,
		v1.ResourceLimitsCPU, v1.ResourceLimitsMemory, v1.ResourceRequestsCPU, v1.ResourceRequestsMemory,
	}
	scoped = map[v1.ResourceQuotaScope][]v1.ResourceName{
		v1.ResourceQuotaScopeTerminating:               podScoped,
		v1.ResourceQuotaScopeNotTerminating:            podScoped,
		v1.ResourceQuotaScopeBestEffort:                {v1.ResourcePods},
		v1.ResourceQuotaScopeNotBestEffort:             podScoped,
		v1.ResourceQuotaScopePriorityClass:             podScoped,
		v1.ResourceQuotaScopeCrossNamespacePodAffinity: podScoped,
		v1.ResourceQuotaScopeVolumeAttributesClass:     {v1.ResourcePersistentVolumeClaims, v1.ResourceRequestsStorage},
	}
	exclusiveScopes = [][2]v1.ResourceQuotaScope{
		{v1.ResourceQuotaScopeBestEffort, v1.ResourceQuotaScopeNotBestEffort},
		{v1.ResourceQuotaScopeTerminating, v1.ResourceQuotaScopeNotTerminating},
	}
)

func validateQuotaSpec(s *v1.ResourceQuotaSpec) field.ErrorList {
	var e check.Errors
	quotaAmounts(&e, specPath.Child("hard"), s.Hard)
	p := specPath.Child("scopes")
	for _, scope := range s.Scopes {
		if scoped[scope] == nil {
			e.Invalid(p, s.Scopes, "unsupported scope")
		}
		outOfScope(&e, p, s.Scopes, scope, s.Hard)
	}
	conflictingScopes(&e, p, s, s.Scopes)
	if s.ScopeSelector != nil {
		scopeSelector(&e, specPath.Child("scopeSelector", "matchExpressions"), s)
	}
	return e.List()
}

func quotaAmounts(e *check.Errors, p *field.Path, list v1.ResourceList) {
	for _, name := range check.Sorted(list) {
		at := p.Key(string(name))
		e.ResourceName(at, name)
		if !strings.Contains(string(name), "/") && !check.IsQuotaName(name) {
			e.Invalid(at, name, "must be a standard resource for quota")
		}
		e.Quantity(at, name, list[name])
	}
}

// outOfScope tells, once a resource, that the scope does not bound it; value is where the scope stands.
func outOfScope(e *check.Errors, p *field.Path, value any, scope v1.ResourceQuotaScope, hard v1.ResourceList) {
	for _, name := range check.Sorted(hard) {
		if check.IsQuotaName(name) && scoped[scope] != nil && !slices.Contains(scoped[scope], name) {
			e.Invalid(p, value, "unsupported scope applied to resource")
		}
	}
}

func conflictingScopes(e *check.Errors, p *field.Path, s *v1.ResourceQuotaSpec, given []v1.ResourceQuotaScope) {
	for _, pair := range exclusiveScopes {
		if slices.Contains(given, pair[0]) && slices.Contains(given, pair[1]) {
			e.Invalid(p, s.Scopes, "conflicting scopes")
		}
	}
}

func scopeSelector(e *check.Errors, p *field.Path, s *v1.ResourceQuotaSpec) {
	var given []v1.ResourceQuotaScope
	for _, r := range s.ScopeSelector.MatchExpressions {
		if scoped[r.ScopeName] == nil {
			e.Invalid(p.Child("scopeName"), r.ScopeName, "unsupported scope")
		}
		outOfScope(e, p, s.ScopeSelector, r.ScopeName, s.Hard)
		switch r.ScopeName {
		case v1.ResourceQuotaScopeBestEffort, v1.ResourceQuotaScopeNotBestEffort, v1.ResourceQuotaScopeTerminating,
			v1.ResourceQuotaScopeNotTerminating, v1.ResourceQuotaScopeCrossNamespacePodAffinity:
			if r.Operator != v1.ScopeSelectorOpExists {
				e.Invalid(p.Child("operator"), r.Operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "+
					"ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "+
					"ResourceQuotaScopeCrossNamespacePodAffinity")
			}
		}
		switch r.Operator {
		case v1.ScopeSelectorOpIn, v1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				e.Required(p.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
			}
		case v1.ScopeSelectorOpExists, v1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) != 0 {
				e.Invalid(p.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
			}
		default:
			e.Invalid(p.Child("operator"), r.Operator, "not a valid selector operator")
		}
		given = append(given, r.ScopeName)
	}
	conflictingScopes(e, p, s, given)
}

func validateQuotaUpdate(q, old *v1.ResourceQuota) field.ErrorList {
	var e check.Errors
	e.Add(validateQuotaSpec(&q.Spec))
	if !maps.Equal(sets.New(q.Spec.Scopes...), sets.New(old.Spec.Scopes...)) {
		e.Invalid(specPath.Child("scopes"), q.Spec.Scopes, apivalidation.FieldImmutableErrorMsg)
	}
	return e.List()
}

func validateQuotaStatus(s *v1.ResourceQuotaStatus) field.ErrorList {
	var e check.Errors
	quotaAmounts(&e, statusPath.Child("hard"), s.Hard)
	quotaAmounts(&e, statusPath.Child("used"), s.Used)
	return e.List()
}

// quotaWarnings tells of quotas that let more be requested than limited.
func quotaWarnings(s *v1.ResourceQuotaSpec) (out []string) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceStorage, v1.ResourceEphemeralStorage} {
		requests := "requests." + name
		request, requested := s.Hard[requests]
		if !requested && (name == v1.ResourceCPU || name == v1.ResourceMemory) {
			requests = name
			request, requested = s.Hard[name]
		}
		limit, limited := s.Hard["limits."+name]
		if requested && limited && request.Cmp(limit) > 0 {
			out = append(out, fmt.Sprintf("ResourceQuota %s (%s) should be less than limits.%s (%s)", requests, request.String(), name, limit.String()))
		}
	}
	return out
}
