package admit

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/authz/rbac"
	"podo.dev/podo/internal/view"
)

// Escalation keeps users from granting rights that they do not have: the writer of a role needs its rules or the verb "escalate"
// on it, the writer of a binding needs the role's rules or the verb "bind".
type Escalation struct {
	View       *view.View
	Authorizer authz.Authorizer
	Rules      *rbac.Authorizer
}

// everything is the most that an aggregated role may become.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// Mutate implements Mutator, as the last one: upstream checks before validation.
func (x *Escalation) Mutate(ctx context.Context, a *Attributes) error {
	if a.Ref.Resource.Group != rbacv1.GroupName || a.Op != Create && a.Op != Update || authz.Superuser(a.User) {
		return nil
	}
	if a.Op == Update && bookkeeping(a.Object, a.Old) {
		return nil
	}
	if x.judge(ctx, a) == nil {
		return nil
	}
	// What is to be refused may have been allowed a moment ago: look at the newest state first.
	if _, err := x.View.Fresh(ctx); err != nil {
		return apierrors.NewInternalError(err)
	}
	return x.judge(ctx, a)
}

func (x *Escalation) judge(ctx context.Context, a *Attributes) error {
	var err error
	switch obj := a.Object.(type) {
	case *rbacv1.Role:
		if !x.may(ctx, a, "escalate", a.Ref.Resource.Resource, a.InURL) {
			err = x.Rules.Holds(a.User, a.Ref.Namespace, obj.Rules)
		}
	case *rbacv1.ClusterRole:
		if !x.may(ctx, a, "escalate", a.Ref.Resource.Resource, a.InURL) {
			old, _ := a.Old.(*rbacv1.ClusterRole)
			err = x.clusterRole(a, obj, old)
		}
	case *rbacv1.RoleBinding:
		return x.binding(ctx, a, obj.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		return x.binding(ctx, a, obj.RoleRef)
	}
	if err != nil {
		return apierrors.NewForbidden(a.Ref.Resource, a.KnownName(), err)
	}
	return nil
}

// clusterRole: writing a role that aggregates rules, or did, takes all rights, since nobody knows what it will contain.
func (x *Escalation) clusterRole(a *Attributes, r, old *rbacv1.ClusterRole) error {
	if err := x.Rules.Holds(a.User, "", r.Rules); err != nil {
		return err
	}
	if (gathers(r) || gathers(old)) && x.Rules.Holds(a.User, "", everything) != nil {
		return errors.New("must have cluster-admin privileges to use the aggregationRule")
	}
	return nil
}

func gathers(r *rbacv1.ClusterRole) bool {
	return r != nil && r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

func (x *Escalation) binding(ctx context.Context, a *Attributes, ref rbacv1.RoleRef) error {
	resource := map[string]string{"ClusterRole": "clusterroles", "Role": "roles"}[ref.Kind]
	if resource != "" && x.may(ctx, a, "bind", resource, ref.Name) {
		return nil
	}
	rules, err := x.Rules.RulesOf(ref, a.Ref.Namespace)
	if err != nil {
		return err
	}
	if err := x.Rules.Holds(a.User, a.Ref.Namespace, rules); err != nil {
		return apierrors.NewForbidden(a.Ref.Resource, a.KnownName(), err)
	}
	return nil
}

func (x *Escalation) may(ctx context.Context, a *Attributes, verb, resource, name string) bool {
	ok, _ := x.Authorizer.Authorize(ctx, &authz.Attributes{
		User: a.User, Verb: verb, Group: rbacv1.GroupName, Resource: resource, Namespace: a.Ref.Namespace, Name: name,
	})
	return ok
}

// bookkeeping tells whether only fields change that garbage collection changes.
func bookkeeping(obj, old runtime.Object) bool {
	same := obj.DeepCopyObject()
	m, err := meta.Accessor(same)
	if err != nil {
		return false
	}
	o, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	m.SetOwnerReferences(o.GetOwnerReferences())
	m.SetFinalizers(o.GetFinalizers())
	m.SetManagedFields(o.GetManagedFields())
	m.SetSelfLink(o.GetSelfLink())
	same.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	return equality.Semantic.DeepEqual(same, old)
}
