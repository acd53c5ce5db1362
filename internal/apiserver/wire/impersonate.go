package wire

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
)

const (
	impersonateUser  = "Impersonate-User"
	impersonateGroup = "Impersonate-Group"
	impersonateUID   = "Impersonate-Uid"
	impersonateExtra = "Impersonate-Extra-"
)

// impersonated is who the request acts as: another user, when its headers say so and the caller may.
func (c *call) impersonated(u user.Info) (user.Info, error) {
	h := c.r.Header
	name, groups, uid := h.Get(impersonateUser), h.Values(impersonateGroup), h.Get(impersonateUID)
	extra := extraOf(h)
	if name == "" {
		if len(groups) > 0 || uid != "" || len(extra) > 0 {
			return nil, apierrors.NewBadRequest("requested impersonation of groups, a UID or extra fields without impersonating a user")
		}
		return u, nil
	}
	ask := func(group, resource, name string) error {
		return authz.Check(c.r.Context(), c.s.c.Verbs.Authorizer(), &authz.Attributes{User: u, Verb: "impersonate", Group: group, Resource: resource, Name: name})
	}
	if err := ask("", "users", name); err != nil {
		return nil, err
	}
	for _, g := range groups {
		if err := ask("", "groups", g); err != nil {
			return nil, err
		}
	}
	if uid != "" {
		if err := ask("authentication.k8s.io", "uids", uid); err != nil {
			return nil, err
		}
	}
	for key := range extra {
		if err := ask("authentication.k8s.io", "userextras", key); err != nil {
			return nil, err
		}
	}
	all := append([]string(nil), groups...)
	if name == user.Anonymous {
		all = append(all, user.AllUnauthenticated)
	} else {
		all = append(all, user.AllAuthenticated)
	}
	// What is proxied further must not impersonate again.
	c.r = c.r.Clone(c.r.Context())
	for key := range h {
		if strings.HasPrefix(key, "Impersonate-") {
			c.r.Header.Del(key)
		}
	}
	return &user.DefaultInfo{Name: name, UID: uid, Groups: all, Extra: extra}, nil
}

func extraOf(h http.Header) map[string][]string {
	var out map[string][]string
	for key, values := range h {
		rest, ok := strings.CutPrefix(textproto.CanonicalMIMEHeaderKey(key), impersonateExtra)
		if !ok {
			continue
		}
		name, err := url.PathUnescape(strings.ToLower(rest))
		if err != nil {
			name = strings.ToLower(rest)
		}
		if out == nil {
			out = map[string][]string{}
		}
		out[name] = values
	}
	return out
}
