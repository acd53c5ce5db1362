package rbac

import (
	"encoding/binary"
	"slices"
	"strconv"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/registry"
)

// grant is a binding that applies to a user, of either kind, with the rules that it gives, or why it gives none.
type grant struct {
	cluster *rbacv1.ClusterRoleBinding
	binding *rbacv1.RoleBinding
	subject string // the index value by which it was found
	rules   []rbacv1.PolicyRule
	err     error
}

// find are the bindings that apply to a user, cluster-wide ones first, each once.
func find(s Source, u user.Info, namespace string) []grant {
	var out []grant
	subjects := make([]string, 0, 1+len(u.GetGroups()))
	subjects = append(subjects, registry.UserSubject(u.GetName()))
	for _, g := range u.GetGroups() {
		subjects = append(subjects, registry.GroupSubject(g))
	}
	for _, subject := range subjects {
		for b := range s.ClusterBindings(subject) {
			if !slices.ContainsFunc(out, func(g grant) bool { return g.cluster == b }) {
				rules, err := rulesOf(s, b.RoleRef, "")
				out = append(out, grant{cluster: b, subject: subject, rules: rules, err: named(err, b.RoleRef)})
			}
		}
	}
	if namespace == "" {
		return out
	}
	for _, subject := range subjects {
		for b := range s.Bindings(namespace, subject) {
			if !slices.ContainsFunc(out, func(g grant) bool { return g.binding == b }) {
				rules, err := rulesOf(s, b.RoleRef, namespace)
				out = append(out, grant{binding: b, subject: subject, rules: rules, err: named(err, b.RoleRef)})
			}
		}
	}
	return out
}

// Generation is a state of roles and bindings.
type Generation [4]int64

// remembered bounds the cached combinations of users and namespaces.
const remembered = 4096

// memory caches what applies to users, since few users ask many questions. It is emptied when any role or binding changes.
type memory struct {
	mu         sync.RWMutex
	generation Generation
	known      map[string][]grant
}

func (m *memory) grants(s Source, u user.Info, namespace string) []grant {
	generation := s.Generation()
	var buf [256]byte
	key := part(part(buf[:0], namespace), u.GetName())
	for _, g := range u.GetGroups() {
		key = part(key, g)
	}
	m.mu.RLock()
	found, ok := m.known[string(key)]
	ok = ok && m.generation == generation
	m.mu.RUnlock()
	if ok {
		return found
	}
	found = find(s, u, namespace)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation != generation || len(m.known) >= remembered || m.known == nil {
		m.generation, m.known = generation, map[string][]grant{}
	}
	m.known[string(key)] = found
	return found
}

// part appends s so that no other sequence of parts gives the same key.
func part(key []byte, s string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(s))), s...)
}

// String says by which binding something is allowed.
func (g *grant) String() string {
	if g.cluster != nil {
		return "ClusterRoleBinding " + strconv.Quote(g.cluster.Name) + of(g.cluster.RoleRef) + g.to(g.cluster.Subjects, "")
	}
	return "RoleBinding " + strconv.Quote(g.binding.Name+"/"+g.binding.Namespace) + of(g.binding.RoleRef) + g.to(g.binding.Subjects, g.binding.Namespace)
}

func of(ref rbacv1.RoleRef) string { return " of " + ref.Kind + " " + strconv.Quote(ref.Name) }

// to describes the first of the subjects by which the binding was found.
func (g *grant) to(list []rbacv1.Subject, namespace string) string {
	for i := range list {
		s := &list[i]
		if registry.Subject(s, namespace) != g.subject {
			continue
		}
		name := s.Name
		if s.Kind == rbacv1.ServiceAccountKind {
			if s.Namespace != "" {
				namespace = s.Namespace
			}
			name += "/" + namespace
		}
		return " to " + s.Kind + " " + strconv.Quote(name)
	}
	return ""
}
