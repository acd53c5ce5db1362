package rbac

import (
	"iter"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var (
	roles               = schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	clusterRoles        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	bindings            = schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}
	clusterRoleBindings = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
)

// FromView decides by the newest snapshot of a view.
func FromView(v *view.View) *Authorizer {
	return New(func() Source { return snapshot{v.Snapshot()} })
}

type snapshot struct{ view.Snapshot }

func (s snapshot) Generation() Generation {
	return Generation{s.ResourceRev(roles), s.ResourceRev(clusterRoles), s.ResourceRev(bindings), s.ResourceRev(clusterRoleBindings)}
}

func (s snapshot) ClusterBindings(subject string) iter.Seq[*rbacv1.ClusterRoleBinding] {
	return func(yield func(*rbacv1.ClusterRoleBinding) bool) {
		for e := range s.By(clusterRoleBindings, registry.SubjectIndex, subject) {
			if !yield(e.Object.(*rbacv1.ClusterRoleBinding)) {
				return
			}
		}
	}
}

func (s snapshot) Bindings(namespace, subject string) iter.Seq[*rbacv1.RoleBinding] {
	return func(yield func(*rbacv1.RoleBinding) bool) {
		for e := range s.By(bindings, registry.SubjectIndex, namespace+"/"+subject) {
			if !yield(e.Object.(*rbacv1.RoleBinding)) {
				return
			}
		}
	}
}

func (s snapshot) ClusterRole(name string) *rbacv1.ClusterRole {
	if e := s.Get(clusterRoles, "", name); e != nil {
		return e.Object.(*rbacv1.ClusterRole)
	}
	return nil
}

func (s snapshot) Role(namespace, name string) *rbacv1.Role {
	if e := s.Get(roles, namespace, name); e != nil {
		return e.Object.(*rbacv1.Role)
	}
	return nil
}

// Fixed is a Source of objects that never change.
type Fixed struct {
	clusterRoles map[string]*rbacv1.ClusterRole
	roles        map[[2]string]*rbacv1.Role
	cluster      map[string][]*rbacv1.ClusterRoleBinding
	bindings     map[[2]string][]*rbacv1.RoleBinding
}

// NewFixed makes a Fixed of roles and bindings.
func NewFixed(cr []*rbacv1.ClusterRole, crb []*rbacv1.ClusterRoleBinding, r []*rbacv1.Role, rb []*rbacv1.RoleBinding) *Fixed {
	f := &Fixed{
		map[string]*rbacv1.ClusterRole{},
		map[[2]string]*rbacv1.Role{},
		map[string][]*rbacv1.ClusterRoleBinding{},
		map[[2]string][]*rbacv1.RoleBinding{},
	}
	for _, x := range cr {
		f.clusterRoles[x.Name] = x
	}
	for _, x := range r {
		f.roles[[2]string{x.Namespace, x.Name}] = x
	}
	for _, b := range crb {
		for i := range b.Subjects {
			s := registry.Subject(&b.Subjects[i], "")
			f.cluster[s] = append(f.cluster[s], b)
		}
	}
	for _, b := range rb {
		for i := range b.Subjects {
			k := [2]string{b.Namespace, registry.Subject(&b.Subjects[i], b.Namespace)}
			f.bindings[k] = append(f.bindings[k], b)
		}
	}
	return f
}

// Generation implements Source.
func (f *Fixed) Generation() Generation { return Generation{} }

// ClusterBindings implements Source.
func (f *Fixed) ClusterBindings(subject string) iter.Seq[*rbacv1.ClusterRoleBinding] {
	return slices.Values(f.cluster[subject])
}

// Bindings implements Source.
func (f *Fixed) Bindings(namespace, subject string) iter.Seq[*rbacv1.RoleBinding] {
	return slices.Values(f.bindings[[2]string{namespace, subject}])
}

// ClusterRole implements Source.
func (f *Fixed) ClusterRole(name string) *rbacv1.ClusterRole { return f.clusterRoles[name] }

// Role implements Source.
func (f *Fixed) Role(namespace, name string) *rbacv1.Role { return f.roles[[2]string{namespace, name}] }
