package impersonate

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
)

// rights allow lines of the form "verb resource[/subresource] name"; it remembers what was asked.
type rights struct {
	allow []string
	asked []string
}

func (r *rights) Authorize(_ context.Context, a *authz.Attributes) (bool, string) {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	name := a.Name
	if a.Namespace != "" {
		name = a.Namespace + ":" + name
	}
	line := strings.TrimSpace(a.Verb + " " + resource + " " + name)
	r.asked = append(r.asked, line)
	return slices.Contains(r.allow, line), ""
}

func TestAs(t *testing.T) {
	agent := &user.DefaultInfo{Name: "system:serviceaccount:ns:agent", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}}}
	jane := &user.DefaultInfo{Name: "jane"}
	for _, c := range []struct {
		name      string
		requester user.Info
		wanted    user.DefaultInfo
		allow     string // separated by ";"
		want      string // "name groups constraint", or a part of the refusal
	}{
		{"legacy, a user", jane, user.DefaultInfo{Name: "bob"}, "impersonate users bob", "bob [system:authenticated] "},
		{"legacy, groups", jane, user.DefaultInfo{Name: "bob", Groups: []string{"g"}}, "impersonate users bob;impersonate groups g", "bob [g system:authenticated] "},
		{"legacy, masters", jane, user.DefaultInfo{Name: "bob", Groups: []string{"system:masters"}}, "impersonate users bob;impersonate groups system:masters", "bob [system:masters system:authenticated] "},
		{"legacy, unauthenticated", jane, user.DefaultInfo{Name: "bob", Groups: []string{"system:unauthenticated"}}, "impersonate users bob;impersonate groups system:unauthenticated", "bob [system:unauthenticated] "},
		{"legacy, anonymous", jane, user.DefaultInfo{Name: "system:anonymous"}, "impersonate users system:anonymous", "system:anonymous [system:unauthenticated] "},
		{"legacy, an account", jane, user.DefaultInfo{Name: "system:serviceaccount:ns:sa"}, "impersonate serviceaccounts ns:sa", "system:serviceaccount:ns:sa [system:serviceaccounts system:serviceaccounts:ns system:authenticated] "},
		{"legacy, extra", jane, user.DefaultInfo{Name: "bob", Extra: map[string][]string{"scopes": {"a"}}}, "impersonate users bob;impersonate userextras/scopes a", "bob [system:authenticated] "},
		{"legacy, a node has no groups of its own", jane, user.DefaultInfo{Name: "system:node:n1"}, "impersonate users system:node:n1", "system:node:n1 [system:authenticated] "},
		{"constrained", jane, user.DefaultInfo{Name: "bob", UID: "7"}, "impersonate-on:user-info:list pods;impersonate:user-info users bob;impersonate:user-info uids 7", "bob [system:authenticated] impersonate:user-info"},
		{"constrained to another verb", jane, user.DefaultInfo{Name: "bob"}, "impersonate-on:user-info:get pods;impersonate:user-info users bob", `cannot impersonate-on:user-info:list resource "pods"`},
		{"constrained, masters", jane, user.DefaultInfo{Name: "bob", Groups: []string{"system:masters"}}, "impersonate-on:user-info:list pods;impersonate:user-info users bob;impersonate:user-info groups system:masters", "impersonating the system:masters group is not allowed"},
		{"constrained, no group", jane, user.DefaultInfo{Name: "bob", Groups: []string{""}}, "impersonate-on:user-info:list pods;impersonate:user-info users bob", "impersonating the empty string group is not allowed"},
		{"constrained, many groups at once", jane, user.DefaultInfo{Name: "bob", Groups: []string{"a", "b", "c", "d"}}, "impersonate-on:user-info:list pods;impersonate:user-info users bob;impersonate:user-info groups *", "bob [a b c d system:authenticated] impersonate:user-info"},
		{"constrained, an odd key", jane, user.DefaultInfo{Name: "bob", Extra: map[string][]string{"scopes": {"a"}}}, "impersonate-on:user-info:list pods;impersonate:user-info users bob", "impersonating an invalid key in extra is not allowed"},
		{"constrained, an account", jane, user.DefaultInfo{Name: "system:serviceaccount:ns:sa"}, "impersonate-on:serviceaccount:list pods;impersonate:serviceaccount serviceaccounts ns:sa", "system:serviceaccount:ns:sa [system:serviceaccounts system:serviceaccounts:ns system:authenticated] impersonate:serviceaccount"},
		{"any node", jane, user.DefaultInfo{Name: "system:node:n1"}, "impersonate-on:arbitrary-node:list pods;impersonate:arbitrary-node nodes n1", "system:node:n1 [system:nodes system:authenticated] impersonate:arbitrary-node"},
		{"my own node", agent, user.DefaultInfo{Name: "system:node:n1"}, "impersonate-on:associated-node:list pods;impersonate:associated-node nodes *", "system:node:n1 [system:nodes system:authenticated] impersonate:associated-node"},
		{"not my own node", agent, user.DefaultInfo{Name: "system:node:n2"}, "impersonate-on:associated-node:list pods;impersonate:associated-node nodes *", "cannot impersonate-on:arbitrary-node:list"},
		{"a node in a group", agent, user.DefaultInfo{Name: "system:node:n1", Groups: []string{"g"}}, "impersonate-on:associated-node:list pods;impersonate:associated-node nodes *", `cannot impersonate resource "users"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := New(&rights{allow: strings.Split(c.allow, ";")})
			as, constraint, err := i.As(t.Context(), &c.wanted, &authz.Attributes{User: c.requester, Verb: "list", Resource: "pods"})
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = as.GetName() + " [" + strings.Join(as.GetGroups(), " ") + "] " + constraint
			}
			if err == nil && got != c.want || err != nil && !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// The way that worked last is asked first, so that who impersonates in the old way asks no more than before.
func TestLastWayFirst(t *testing.T) {
	r := &rights{allow: []string{"impersonate users bob"}}
	i := New(r)
	ask := func() []string {
		r.asked = nil
		if _, _, err := i.As(t.Context(), &user.DefaultInfo{Name: "bob"}, &authz.Attributes{User: &user.DefaultInfo{Name: "jane"}, Verb: "get", Path: "/api"}); err != nil {
			t.Fatal(err)
		}
		return r.asked
	}
	if got, want := ask(), []string{"impersonate-on:user-info:get", "impersonate users bob"}; !reflect.DeepEqual(got, want) {
		t.Errorf("first asked %q", got)
	}
	if got, want := ask(), []string{"impersonate users bob"}; !reflect.DeepEqual(got, want) {
		t.Errorf("then asked %q", got)
	}
}
