// Package impersonate decides whom a request may act as. There are several ways, asked in order, and the first that allows counts:
//
//	associated-node   an account of a pod acts as the node that the pod is on
//	arbitrary-node    anybody acts as a node
//	serviceaccount    anybody acts as a ServiceAccount
//	user-info         anybody acts as somebody else
//	legacy            all of these, by the verb "impersonate"
//
// All but the last are constrained: the requester needs "impersonate:<way>" on who is acted as, and "impersonate-on:<way>:<verb>" on what
// the request does, so that a right to act as somebody can be narrowed to a few things.
package impersonate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/lru"

	"podo.dev/podo/internal/apiserver/authz"
)

// Impersonator remembers the way by which each user was last allowed, and tries it first: a refusal is reported for the first way
// that was tried.
type Impersonator struct {
	authorizer authz.Authorizer
	last       *lru.Cache
}

// rememberedUsers bounds what an Impersonator keeps.
const rememberedUsers = 1024

// New makes an Impersonator.
func New(z authz.Authorizer) *Impersonator {
	return &Impersonator{authorizer: z, last: lru.New(rememberedUsers)}
}

// way is one way to act as somebody; an empty name is legacy.
type way struct {
	name string
	// fits tells whether the way is meant for acting as wanted.
	fits func(wanted *user.DefaultInfo, requester user.Info) bool
}

var ways = []way{
	{"associated-node", func(wanted *user.DefaultInfo, requester user.Info) bool {
		node, ok := nodeOf(wanted.Name)
		return ok && nameOnly(wanted) && isAccount(requester.GetName()) && one(requester.GetExtra()[serviceaccount.NodeNameKey]) == node
	}},
	{"arbitrary-node", func(wanted *user.DefaultInfo, _ user.Info) bool {
		_, ok := nodeOf(wanted.Name)
		return ok && nameOnly(wanted)
	}},
	{"serviceaccount", func(wanted *user.DefaultInfo, _ user.Info) bool {
		return nameOnly(wanted) && isAccount(wanted.Name)
	}},
	{"user-info", func(wanted *user.DefaultInfo, _ user.Info) bool {
		_, node := nodeOf(wanted.Name)
		return !node && !isAccount(wanted.Name)
	}},
	{"", func(*user.DefaultInfo, user.Info) bool { return true }},
}

// As is the user that a request acts as when it wants to be wanted; a is the request under its own user. constraint is the way's
// name for the audit log. The error is the refusal by the first way that was tried.
func (i *Impersonator) As(ctx context.Context, wanted *user.DefaultInfo, a *authz.Attributes) (as user.Info, constraint string, err error) {
	name := a.User.GetName()
	order := slices.Clone(ways)
	if last, ok := i.last.Get(name); ok {
		n := last.(int)
		order = slices.Insert(slices.Delete(order, n, n+1), 0, ways[n])
	}
	for _, w := range order {
		if !w.fits(wanted, a.User) {
			continue
		}
		as, refusal := i.by(ctx, w, wanted, a)
		if refusal == nil {
			i.last.Add(name, slices.IndexFunc(ways, func(x way) bool { return x.name == w.name }))
			if w.name != "" {
				constraint = "impersonate:" + w.name
			}
			return as, constraint, nil
		}
		if err == nil {
			err = refusal
		}
	}
	if err == nil {
		err = errors.New("all impersonation modes failed")
	}
	return nil, "", err
}

func (i *Impersonator) by(ctx context.Context, w way, wanted *user.DefaultInfo, a *authz.Attributes) (user.Info, error) {
	q := &question{ctx: ctx, authorizer: i.authorizer, requester: a.User, verb: "impersonate", constrained: w.name != ""}
	if q.constrained {
		q.verb, q.group = "impersonate:"+w.name, "authentication.k8s.io"
		if w.name == "associated-node" {
			q.anyNode = true
			q.requester = withoutValues(a.User)
		}
		on := *a
		on.User, on.Verb = q.requester, "impersonate-on:"+w.name+":"+a.Verb
		if err := q.ask(&on); err != nil {
			return nil, err
		}
	}
	for _, check := range []func(*user.DefaultInfo) error{q.name, q.uid, q.groups, q.extra} {
		if err := check(wanted); err != nil {
			return nil, err
		}
	}
	as := *wanted
	as.Groups = fixedGroups(wanted, q.constrained)
	switch {
	case as.Name == user.Anonymous:
		as.Groups = with(as.Groups, user.AllUnauthenticated)
	case !slices.Contains(as.Groups, user.AllUnauthenticated):
		as.Groups = with(as.Groups, user.AllAuthenticated)
	}
	return &as, nil
}

// fixedGroups are the groups of a node or an account, which nobody has to request; for other users they are the requested ones.
func fixedGroups(u *user.DefaultInfo, constrained bool) []string {
	if len(u.Groups) > 0 {
		return u.Groups
	}
	if _, ok := nodeOf(u.Name); ok && constrained {
		return []string{user.NodesGroup}
	}
	if namespace, _, err := serviceaccount.SplitUsername(u.Name); err == nil {
		return serviceaccount.MakeGroupNames(namespace)
	}
	return nil
}

func with(groups []string, group string) []string {
	if slices.Contains(groups, group) {
		return groups
	}
	return append(slices.Clone(groups), group)
}

// withoutValues is an account with the names of its extra fields only: its node has been checked, and the permission is for all
// nodes.
func withoutValues(u user.Info) user.Info {
	var keys []string
	for k := range u.GetExtra() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return &user.DefaultInfo{
		Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(),
		Extra: map[string][]string{"authentication.kubernetes.io/associated-node-keys": keys},
	}
}

func nameOnly(u *user.DefaultInfo) bool {
	return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0
}

func isAccount(name string) bool {
	_, _, err := serviceaccount.SplitUsername(name)
	return err == nil
}

func nodeOf(name string) (string, bool) {
	const prefix = "system:node:"
	if len(name) <= len(prefix) || name[:len(prefix)] != prefix || len(apivalidation.NameIsDNSSubdomain(name[len(prefix):], false)) > 0 {
		return "", false
	}
	return name[len(prefix):], true
}

func one(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// refuse is a refusal that no authorizer made.
func refuse(a *authz.Attributes, format string, args ...any) error {
	return authz.Forbidden(a, fmt.Sprintf(format, args...))
}
