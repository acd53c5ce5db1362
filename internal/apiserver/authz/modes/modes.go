// Package modes is the authorizer of a server: Node, then RBAC.
package modes

import (
	"context"
	"errors"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/authz/node"
	"podo.dev/podo/internal/apiserver/authz/policy"
	"podo.dev/podo/internal/apiserver/authz/rbac"
	"podo.dev/podo/internal/view"
)

// Authorizer is Node and RBAC over a view. Until Ensured is called, the default policy applies in addition to what the view has:
// the server's own parts work while it is being written for the first time, and a test needs no roles in its store.
type Authorizer struct {
	authz.Union
	RBAC      *rbac.Authorizer
	byDefault defaults
	measures  *measures
}

// The names of the authorizers.
const (
	nodeName    = "node"
	rbacName    = "rbac"
	defaultName = "default policy"
)

// New makes an Authorizer.
func New(v *view.View) *Authorizer {
	p := policy.Default()
	z := &Authorizer{RBAC: rbac.FromView(v), measures: newMeasures()}
	fixed := rbac.NewFixed(p.ClusterRoles, p.ClusterRoleBindings, p.Roles, p.RoleBindings)
	z.byDefault.rbac = rbac.New(func() rbac.Source { return fixed })
	z.Union = authz.Union{
		{Name: nodeName, Authorizer: &node.Authorizer{View: v, Rules: p.ClusterRole("system:node").Rules}},
		// Asked before the view: once the default policy no longer applies here, the view that is read next has it.
		{Name: defaultName, Authorizer: &z.byDefault},
		{Name: rbacName, Authorizer: z.RBAC},
	}
	return z
}

// Ensured says that the default policy is in the view.
func (z *Authorizer) Ensured() { z.byDefault.ensured.Store(true) }

// RulesFor are the rules of a user in a namespace. A kubelet's cannot be listed completely, which incomplete and an error say.
func (z *Authorizer) RulesFor(u user.Info, namespace string) (rules []rbacv1.PolicyRule, incomplete bool, err error) {
	if _, is := authz.NodeName(u); is {
		incomplete, err = true, errors.New("node authorizer does not support user rule resolution")
	}
	rules, missing := z.RBAC.RulesFor(u, namespace)
	switch {
	case missing == nil:
	case err == nil:
		err = missing
	default:
		err = errors.Join(err, missing)
	}
	return rules, incomplete, err
}

type defaults struct {
	rbac    *rbac.Authorizer
	ensured atomic.Bool
}

// Authorize implements authz.Authorizer.
func (d *defaults) Authorize(ctx context.Context, a *authz.Attributes) (bool, string) {
	if d.ensured.Load() {
		return false, ""
	}
	return d.rbac.Authorize(ctx, a)
}
