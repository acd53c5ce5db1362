package registry

import (
	"fmt"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// SubjectIndex is the view's index of bindings by whom they bind: by UserSubject and GroupSubject, for RoleBindings behind the
// namespace and a slash. A service account is its user.
const SubjectIndex = "subject"

// UserSubject and GroupSubject are values of SubjectIndex.
func UserSubject(name string) string { return "user:" + name }

// GroupSubject is UserSubject for a group.
func GroupSubject(name string) string { return "group:" + name }

// Subject is the value by which a binding's subject is found, "" for one that is nobody: of an unknown kind, or an account that names
// no namespace in a binding that has none.
func Subject(s *rbacv1.Subject, namespace string) string {
	switch s.Kind {
	case rbacv1.UserKind:
		return UserSubject(s.Name)
	case rbacv1.GroupKind:
		return GroupSubject(s.Name)
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		if namespace != "" {
			return UserSubject(serviceaccount.MakeUsername(namespace, s.Name))
		}
	}
	return ""
}

// subjects are the index values of a binding.
func subjects(list []rbacv1.Subject, namespace string) []string {
	prefix := ""
	if namespace != "" {
		prefix = namespace + "/"
	}
	var out []string
	for i := range list {
		if s := Subject(&list[i], namespace); s != "" {
			out = append(out, prefix+s)
		}
	}
	return out
}

// createdColumn is what kinds without columns of their own show beside the name.
var createdColumn = metav1.TableColumnDefinition{Name: "Created At", Type: "date", Description: metaDoc["creationTimestamp"]}

func created(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

func roleKind() *Kind {
	of := func(obj runtime.Object) *rbacv1.Role { return obj.(*rbacv1.Role) }
	validate := func(obj runtime.Object) field.ErrorList {
		return append(validateRules(of(obj).Rules, true), requireVerbs(of(obj).Rules)...)
	}
	return &Kind{
		GVK:              rbacv1.SchemeGroupVersion.WithKind("Role"),
		Resource:         "roles",
		Singular:         "role",
		Namespaced:       true,
		Dir:              "roles",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &rbacv1.Role{} },
		NewList:          func() runtime.Object { return &rbacv1.RoleList{} },
		ValidName:        validRBACName,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(runtime.Object) {},
		Validate:         validate,
		Updates: map[string]Update{"": {
			Prepare:     func(runtime.Object, runtime.Object) {},
			Validate:    func(obj, _ runtime.Object) field.ErrorList { return validate(obj) },
			AllowCreate: true, AllowUnconditional: true,
		}},
		Selectable: metaFields,
		Columns:    []metav1.TableColumnDefinition{nameColumn, createdColumn},
		Row: func(obj runtime.Object, _ time.Time) []any {
			return []any{of(obj).Name, created(of(obj).CreationTimestamp)}
		},
	}
}

func clusterRoleKind() *Kind {
	of := func(obj runtime.Object) *rbacv1.ClusterRole { return obj.(*rbacv1.ClusterRole) }
	return &Kind{
		GVK:              rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		Resource:         "clusterroles",
		Singular:         "clusterrole",
		Dir:              "clusterroles",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &rbacv1.ClusterRole{} },
		NewList:          func() runtime.Object { return &rbacv1.ClusterRoleList{} },
		ValidName:        validRBACName,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return validateClusterRole(of(obj), nil) },
		Updates: map[string]Update{"": {
			Prepare:     func(runtime.Object, runtime.Object) {},
			Validate:    func(obj, old runtime.Object) field.ErrorList { return validateClusterRole(of(obj), of(old)) },
			AllowCreate: true, AllowUnconditional: true,
		}},
		Selectable: clusterFields,
		Columns:    []metav1.TableColumnDefinition{nameColumn, createdColumn},
		Row: func(obj runtime.Object, _ time.Time) []any {
			return []any{of(obj).Name, created(of(obj).CreationTimestamp)}
		},
	}
}

func roleBindingKind() *Kind {
	of := func(obj runtime.Object) *rbacv1.RoleBinding { return obj.(*rbacv1.RoleBinding) }
	return &Kind{
		GVK:        rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		Resource:   "rolebindings",
		Singular:   "rolebinding",
		Namespaced: true,
		Dir:        "rolebindings",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &rbacv1.RoleBinding{} },
		NewList:    func() runtime.Object { return &rbacv1.RoleBindingList{} },
		ValidName:  validRBACName,
		Default: func(obj runtime.Object) {
			defaultBinding(&of(obj).RoleRef, of(obj).Subjects)
		},
		PrepareForCreate: func(runtime.Object) {},
		Validate: func(obj runtime.Object) field.ErrorList {
			return validateBinding(of(obj).RoleRef, of(obj).Subjects, "Role", "ClusterRole")
		},
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return validateBindingUpdate(of(obj).RoleRef, of(old).RoleRef, of(obj).Subjects, "Role", "ClusterRole")
			},
			AllowCreate: true, AllowUnconditional: true,
		}},
		Selectable: metaFields,
		Columns:    bindingColumns("roleBinding", rbacv1beta1.RoleBinding{}.SwaggerDoc()),
		Row: func(obj runtime.Object, now time.Time) []any {
			return bindingRow(&of(obj).ObjectMeta, of(obj).RoleRef, of(obj).Subjects, now)
		},
		Indexes: map[string]func(runtime.Object) []string{
			SubjectIndex: func(obj runtime.Object) []string { return subjects(of(obj).Subjects, of(obj).Namespace) },
		},
	}
}

func clusterRoleBindingKind() *Kind {
	of := func(obj runtime.Object) *rbacv1.ClusterRoleBinding { return obj.(*rbacv1.ClusterRoleBinding) }
	return &Kind{
		GVK:       rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		Resource:  "clusterrolebindings",
		Singular:  "clusterrolebinding",
		Dir:       "clusterrolebindings",
		Verbs:     allVerbs,
		New:       func() runtime.Object { return &rbacv1.ClusterRoleBinding{} },
		NewList:   func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} },
		ValidName: validRBACName,
		Default: func(obj runtime.Object) {
			defaultBinding(&of(obj).RoleRef, of(obj).Subjects)
		},
		PrepareForCreate: func(runtime.Object) {},
		Validate: func(obj runtime.Object) field.ErrorList {
			return validateBinding(of(obj).RoleRef, of(obj).Subjects, "ClusterRole")
		},
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return validateBindingUpdate(of(obj).RoleRef, of(old).RoleRef, of(obj).Subjects, "ClusterRole")
			},
			AllowCreate: true, AllowUnconditional: true,
		}},
		Selectable: clusterFields,
		Columns:    bindingColumns("clusterRoleBinding", rbacv1beta1.ClusterRoleBinding{}.SwaggerDoc()),
		Row: func(obj runtime.Object, now time.Time) []any {
			return bindingRow(&of(obj).ObjectMeta, of(obj).RoleRef, of(obj).Subjects, now)
		},
		Indexes: map[string]func(runtime.Object) []string{
			SubjectIndex: func(obj runtime.Object) []string { return subjects(of(obj).Subjects, "") },
		},
	}
}

// validRBACName: roles and bindings may be called whatever fits in a path; generateName makes no exception.
func validRBACName(name string, _ bool) []string { return content.IsPathSegmentName(name) }

func defaultBinding(ref *rbacv1.RoleRef, list []rbacv1.Subject) {
	if ref.APIGroup == "" {
		ref.APIGroup = rbacv1.GroupName
	}
	for i := range list {
		if s := &list[i]; s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

func bindingColumns(kind string, doc map[string]string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn,
		{Name: "Role", Type: "string", Description: doc["roleRef"]},
		ageColumn,
		{Name: "Users", Type: "string", Priority: 1, Description: "Users in the " + kind},
		{Name: "Groups", Type: "string", Priority: 1, Description: "Groups in the " + kind},
		{Name: "ServiceAccounts", Type: "string", Priority: 1, Description: "ServiceAccounts in the " + kind},
	}
}

func bindingRow(m *metav1.ObjectMeta, ref rbacv1.RoleRef, list []rbacv1.Subject, now time.Time) []any {
	var users, groups, accounts []string
	for i := range list {
		s := &list[i]
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{
		m.Name, fmt.Sprintf("%s/%s", ref.Kind, ref.Name), age(m.CreationTimestamp, now),
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}
