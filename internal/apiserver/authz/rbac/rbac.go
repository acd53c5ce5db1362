package rbac

import (
	"context"
	"errors"
	"fmt"
	"iter"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
)

// Source has roles and bindings, the latter by registry.UserSubject and GroupSubject. Objects are shared and read-only.
type Source interface {
	// Generation changes whenever anything of this changes.
	Generation() Generation
	ClusterBindings(subject string) iter.Seq[*rbacv1.ClusterRoleBinding]
	Bindings(namespace, subject string) iter.Seq[*rbacv1.RoleBinding]
	ClusterRole(name string) *rbacv1.ClusterRole
	Role(namespace, name string) *rbacv1.Role
}

// Authorizer decides by what its source has at the moment of each decision.
type Authorizer struct {
	source func() Source
	memory memory
}

// New makes an Authorizer.
func New(source func() Source) *Authorizer { return &Authorizer{source: source} }

// Authorize implements authz.Authorizer.
func (z *Authorizer) Authorize(_ context.Context, a *authz.Attributes) (allowed bool, reason string) {
	var errs []error
	for _, g := range z.memory.grants(z.source(), a.User, a.Namespace) {
		if g.err != nil {
			errs = append(errs, g.err)
		} else if AnyAllows(g.rules, a) {
			return true, "RBAC: allowed by " + g.String()
		}
	}
	if len(errs) > 0 {
		reason = fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs))
	}
	return false, reason
}

// RulesFor are the rules that a user has in a namespace, cluster-wide ones included. An error names roles that are missing; the
// rules found are good nevertheless.
func (z *Authorizer) RulesFor(u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var errs []error
	for _, g := range z.memory.grants(z.source(), u, namespace) {
		if g.err != nil {
			errs = append(errs, g.err)
			continue
		}
		rules = append(rules, g.rules...)
	}
	return rules, utilerrors.NewAggregate(errs)
}

// RulesOf are the rules of the role that a binding refers to; namespace is the binding's, empty for the cluster's. The error for
// a missing role names, as upstream's does, the resource that is written.
func (z *Authorizer) RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "Role" && namespace == "" {
		return nil, apierrors.NewBadRequest("Namespace parameter required.")
	}
	rules, err := rulesOf(z.source(), ref, namespace)
	if errors.Is(err, errNone) {
		bindings := rbacv1.Resource("rolebindings")
		if namespace == "" {
			bindings = rbacv1.Resource("clusterrolebindings")
		}
		return nil, apierrors.NewNotFound(bindings, ref.Name)
	}
	return rules, err
}

var errNone = errors.New("the role does not exist")

func rulesOf(s Source, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		if r := s.Role(namespace, ref.Name); r != nil {
			return r.Rules, nil
		}
	case "ClusterRole":
		if r := s.ClusterRole(ref.Name); r != nil {
			return r.Rules, nil
		}
	default:
		return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
	}
	return nil, errNone
}

// named adds to the error which role is missing, in the words of a lister.
func named(err error, ref rbacv1.RoleRef) error {
	if !errors.Is(err, errNone) {
		return err
	}
	if ref.Kind == "Role" {
		return apierrors.NewNotFound(rbacv1.Resource("role"), ref.Name)
	}
	return apierrors.NewNotFound(rbacv1.Resource("clusterrole"), ref.Name)
}
