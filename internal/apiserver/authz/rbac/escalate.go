package rbac

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Holds returns nil when a user has all the rules in a namespace; otherwise an error, in upstream's words, names those that he
// lacks.
func (z *Authorizer) Holds(u user.Info, namespace string, rules []rbacv1.PolicyRule) error {
	owned, resolution := z.RulesFor(u, namespace)
	covered, missing := validation.Covers(owned, rules)
	if covered {
		return nil
	}
	texts := map[string]bool{}
	for _, r := range compact(missing) {
		texts[describe(r)] = true
	}
	msg := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(slices.Sorted(maps.Keys(texts)), "\n"))
	if resolution != nil {
		msg += fmt.Sprintf("; resolution errors: %v", []error{resolution})
	}
	return errors.New(msg)
}

// compact joins rules that differ only in their verbs, which Covers has taken apart.
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type on struct {
		group, resource, name string
		named                 bool
	}
	at := map[on]int{}
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		if len(r.APIGroups) != 1 || len(r.Resources) != 1 || len(r.ResourceNames) > 1 || len(r.NonResourceURLs) > 0 {
			out = append(out, r)
			continue
		}
		k := on{group: r.APIGroups[0], resource: r.Resources[0], named: len(r.ResourceNames) == 1}
		if k.named {
			k.name = r.ResourceNames[0]
		}
		if i, ok := at[k]; ok {
			out[i].Verbs = append(slices.Clip(out[i].Verbs), r.Verbs...)
			continue
		}
		at[k] = len(out)
		out = append(out, r)
	}
	return out
}

// describe is a rule on one line.
func describe(r rbacv1.PolicyRule) string {
	var parts []string
	for _, p := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", r.APIGroups},
		{"Resources", r.Resources},
		{"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames},
		{"Verbs", r.Verbs},
	} {
		if len(p.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", p.name, p.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
