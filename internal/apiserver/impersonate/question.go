package impersonate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
)

// many is the number of groups or extra values from which a permission for all of them is asked for first.
const many = 4

// question asks for the permission to be each part of a user.
type question struct {
	ctx         context.Context
	authorizer  authz.Authorizer
	requester   user.Info
	verb        string
	group       string // the API group of users and groups
	constrained bool
	anyNode     bool // the node does not matter
}

func (q *question) ask(a *authz.Attributes) error {
	if ok, reason := q.authorizer.Authorize(q.ctx, a); !ok {
		return authz.Forbidden(a, reason)
	}
	return nil
}

func (q *question) on(group, resource, name string) *authz.Attributes {
	return &authz.Attributes{User: q.requester, Verb: q.verb, Group: group, Resource: resource, Name: name}
}

func (q *question) name(u *user.DefaultInfo) error {
	a := q.on(q.group, "users", u.Name)
	if node, ok := nodeOf(u.Name); ok && q.constrained {
		a.Resource, a.Name = "nodes", node
		if q.anyNode {
			a.Name = "*"
		}
		if len(u.Groups) > 0 {
			return refuse(a, "when impersonating a node, cannot impersonate groups %q", u.Groups)
		}
	}
	if namespace, name, err := serviceaccount.SplitUsername(u.Name); err == nil {
		a.Resource, a.Namespace, a.Name = "serviceaccounts", namespace, name
		if q.constrained && len(u.Groups) > 0 {
			return refuse(a, "when impersonating a service account, cannot impersonate groups %q", u.Groups)
		}
	}
	return q.ask(a)
}

func (q *question) uid(u *user.DefaultInfo) error {
	if u.UID == "" {
		return nil
	}
	return q.ask(q.on("authentication.k8s.io", "uids", u.UID))
}

func (q *question) groups(u *user.DefaultInfo) error {
	a := q.on(q.group, "groups", "")
	if q.constrained {
		if slices.Contains(u.Groups, "") {
			return refuse(a, "impersonating the empty string group is not allowed")
		}
		if slices.Contains(u.Groups, user.SystemPrivilegedGroup) {
			a.Name = user.SystemPrivilegedGroup
			return refuse(a, "impersonating the system:masters group is not allowed")
		}
		if len(u.Groups) >= many {
			a.Name = "*"
			if q.ask(a) == nil {
				return nil
			}
		}
	}
	for _, g := range u.Groups {
		a.Name = g
		if err := q.ask(a); err != nil {
			return err
		}
	}
	return nil
}

func (q *question) extra(u *user.DefaultInfo) error {
	if len(u.Extra) == 0 {
		return nil
	}
	a := q.on("authentication.k8s.io", "userextras", "")
	if q.constrained {
		if err := sound(u.Extra); err != nil {
			return refuse(a, "%s", err)
		}
		count := 0
		for _, values := range u.Extra {
			count += len(values)
		}
		if len(u.Extra) >= many || count >= many {
			a.Subresource, a.Name = "*", "*"
			if q.ask(a) == nil {
				return nil
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(u.Extra)) {
		a.Subresource = key
		for _, value := range u.Extra[key] {
			a.Name = value
			if err := q.ask(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// sound refuses extra fields that authorization could not tell apart.
func sound(extra map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		if key == "" {
			return fmt.Errorf("impersonating the empty string key in extra is not allowed")
		}
		if err := validation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		if key != strings.ToLower(key) {
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		}
		if len(extra[key]) == 0 {
			return fmt.Errorf("impersonating empty values in extra is not allowed")
		}
		if slices.Contains(extra[key], "") {
			return fmt.Errorf("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}
