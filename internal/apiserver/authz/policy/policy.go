// Package policy is what a new cluster's users may do: upstream's roles and bindings, and those that Podo's own parts need. They
// are written to the API when the server starts, and what is missing of them is added at each start; from then on they are objects
// like any other.
package policy

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoUpdate is the annotation that keeps an object as the policy wants it; "false" leaves it to its owner.
const AutoUpdate = rbacv1.AutoUpdateAnnotationKey

// Policy are roles and bindings, in the order of their creation. They are read-only once made.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

//go:embed upstream.txt
var upstream string

//go:embed podo.txt
var own string

// Default is the policy of every cluster. Callers share it.
var Default = sync.OnceValue(func() *Policy {
	p, err := Parse(upstream + own)
	if err != nil {
		panic(err) // the tables are part of the program
	}
	return p
})

// ClusterRole finds a role by its name, or nil.
func (p *Policy) ClusterRole(name string) *rbacv1.ClusterRole {
	for _, r := range p.ClusterRoles {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Parse reads the form in which policies are written here: a line names an object, and indented ones say what it is.
//
//	ClusterRole NAME           Role NAMESPACE/NAME
//		label KEY=VALUE
//		aggregates KEY=VALUE                      selects the roles whose rules it gathers
//		may VERBS GROUPS RESOURCES [NAMES]        lists have commas; the core group is "core"
//		may VERBS path PATHS
//	ClusterRoleBinding NAME    RoleBinding NAMESPACE/NAME
//		of KIND NAME                              the role
//		to KIND NAME                              a subject; an account is NAMESPACE/NAME
//
// Every object gets the label and the annotation of upstream's bootstrap policy. # begins a comment.
func Parse(text string) (*Policy, error) {
	p := &parser{policy: &Policy{}}
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		read := p.object
		if line[0] == '\t' {
			read = p.detail
		}
		if err := read(words[0], words[1:]); err != nil {
			return nil, fmt.Errorf("policy: line %d, %q: %w", i+1, line, err)
		}
	}
	return p.policy, nil
}

// parser holds where details go.
type parser struct {
	policy   *Policy
	meta     *metav1.ObjectMeta
	rules    *[]rbacv1.PolicyRule
	gathers  **rbacv1.AggregationRule
	ref      *rbacv1.RoleRef
	subjects *[]rbacv1.Subject
}

var errForm = fmt.Errorf("not a line of this form")

func (p *parser) object(kind string, words []string) error {
	if len(words) != 1 {
		return errForm
	}
	m := metav1.ObjectMeta{
		Name:        words[0],
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{AutoUpdate: "true"},
	}
	if ns, name, ok := strings.Cut(words[0], "/"); ok {
		m.Namespace, m.Name = ns, name
	}
	*p = parser{policy: p.policy}
	switch kind {
	case "ClusterRole":
		r := &rbacv1.ClusterRole{ObjectMeta: m}
		p.meta, p.rules, p.gathers = &r.ObjectMeta, &r.Rules, &r.AggregationRule
		p.policy.ClusterRoles = append(p.policy.ClusterRoles, r)
	case "Role":
		r := &rbacv1.Role{ObjectMeta: m}
		p.meta, p.rules = &r.ObjectMeta, &r.Rules
		p.policy.Roles = append(p.policy.Roles, r)
	case "ClusterRoleBinding":
		b := &rbacv1.ClusterRoleBinding{ObjectMeta: m}
		p.meta, p.ref, p.subjects = &b.ObjectMeta, &b.RoleRef, &b.Subjects
		p.policy.ClusterRoleBindings = append(p.policy.ClusterRoleBindings, b)
	case "RoleBinding":
		b := &rbacv1.RoleBinding{ObjectMeta: m}
		p.meta, p.ref, p.subjects = &b.ObjectMeta, &b.RoleRef, &b.Subjects
		p.policy.RoleBindings = append(p.policy.RoleBindings, b)
	default:
		return errForm
	}
	return nil
}

func (p *parser) detail(what string, words []string) error {
	switch {
	case what == "label" && p.meta != nil && len(words) == 1:
		k, v, _ := strings.Cut(words[0], "=")
		p.meta.Labels[k] = v
	case what == "aggregates" && p.gathers != nil && len(words) == 1:
		k, v, _ := strings.Cut(words[0], "=")
		if *p.gathers == nil {
			*p.gathers = &rbacv1.AggregationRule{}
		}
		(*p.gathers).ClusterRoleSelectors = append((*p.gathers).ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{k: v}})
	case what == "may" && p.rules != nil && len(words) >= 3:
		r := rbacv1.PolicyRule{Verbs: list(words[0])}
		switch {
		case words[1] == "path":
			r.NonResourceURLs = list(words[2])
		case len(words) == 4:
			r.ResourceNames = list(words[3])
			fallthrough
		default:
			r.APIGroups, r.Resources = list(words[1]), list(words[2])
		}
		*p.rules = append(*p.rules, r)
	case what == "of" && p.ref != nil && len(words) == 2:
		*p.ref = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: words[0], Name: words[1]}
	case what == "to" && p.subjects != nil && len(words) == 2:
		s := rbacv1.Subject{Kind: words[0], Name: words[1], APIGroup: rbacv1.GroupName}
		if s.Kind == rbacv1.ServiceAccountKind {
			s.APIGroup = ""
			s.Namespace, s.Name, _ = strings.Cut(words[1], "/")
		}
		*p.subjects = append(*p.subjects, s)
	default:
		return errForm
	}
	return nil
}

func list(words string) []string {
	out := strings.Split(words, ",")
	for i := range out {
		if out[i] == "core" {
			out[i] = ""
		}
	}
	return out
}
