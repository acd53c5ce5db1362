// Package rbac decides by roles and bindings. What a rule allows is pure (match.go, cover.go); which rules a user has comes from a
// Source: the view, with an index of bindings by subject, or a policy in memory.
package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"podo.dev/podo/internal/apiserver/authz"
)

// Allows says that a rule allows what is asked.
func Allows(r *rbacv1.PolicyRule, a *authz.Attributes) bool {
	if !has(r.Verbs, a.Verb) {
		return false
	}
	if !a.OnResource() {
		return slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return matchesURL(url, a.Path) })
	}
	return has(r.APIGroups, a.Group) &&
		slices.ContainsFunc(r.Resources, func(s string) bool { return matchesResource(s, a) }) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
}

// AnyAllows says that one of the rules allows what is asked.
func AnyAllows(rules []rbacv1.PolicyRule, a *authz.Attributes) bool {
	for i := range rules {
		if Allows(&rules[i], a) {
			return true
		}
	}
	return false
}

// has: "*" is everything.
func has(set []string, s string) bool {
	for _, x := range set {
		if x == s || x == "*" {
			return true
		}
	}
	return false
}

// matchesResource compares with "pods", "pods/log", "*/log" or "*", which is every subresource too.
func matchesResource(s string, a *authz.Attributes) bool {
	if s == "*" {
		return true
	}
	if a.Subresource == "" {
		return s == a.Resource
	}
	resource, sub, ok := strings.Cut(s, "/")
	return ok && sub == a.Subresource && (resource == a.Resource || resource == "*")
}

// matchesURL: a "*" at the end is any rest.
func matchesURL(s, path string) bool {
	if s == "*" || s == path {
		return true
	}
	return strings.HasSuffix(s, "*") && strings.HasPrefix(path, strings.TrimRight(s, "*"))
}
