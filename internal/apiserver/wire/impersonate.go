package wire

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
)

// impersonated is the user that the request acts as: another one if its headers say so and the caller may.
func (c *call) impersonated(u user.Info) (user.Info, error) {
	if !impersonates(c.r.Header) {
		return u, nil
	}
	wanted, err := wantedUser(c.r.Header)
	if wanted == nil || err != nil {
		return u, err
	}
	as, constraint, err := c.s.impersonator.As(c.r.Context(), wanted, c.attributes(u))
	if err != nil {
		return nil, err
	}
	// A proxied request must not impersonate again.
	c.r = c.r.Clone(c.r.Context())
	for key := range c.r.Header {
		if strings.HasPrefix(key, impersonation) {
			c.r.Header.Del(key)
		}
	}
	c.audited.Impersonates(as, constraint)
	return as, nil
}

const impersonation = "Impersonate-" // common prefix of the headers

func impersonates(h http.Header) bool {
	for key := range h {
		if strings.HasPrefix(key, impersonation) {
			return true
		}
	}
	return false
}

// wantedUser is the user that the headers describe, unchecked; nil when there are no such headers.
func wantedUser(h http.Header) (*user.DefaultInfo, error) {
	u := &user.DefaultInfo{Name: h.Get(authenticationv1.ImpersonateUserHeader), UID: h.Get(authenticationv1.ImpersonateUIDHeader)}
	u.Groups = append(u.Groups, h[authenticationv1.ImpersonateGroupHeader]...)
	extra := false
	for key, values := range h {
		rest, ok := strings.CutPrefix(key, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		extra = true
		name, err := url.PathUnescape(strings.ToLower(rest))
		if err != nil {
			name = strings.ToLower(rest)
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[name] = append(u.Extra[name], values...)
	}
	switch {
	case u.Name != "":
		return u, nil
	case u.UID != "" || len(u.Groups) > 0 || extra:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %#v without impersonating a user name", u))
	}
	return nil, nil
}

// attributes describe the request for decisions about it as a whole.
func (c *call) attributes(u user.Info) *authz.Attributes {
	i := &c.info
	if i.Resource == "" {
		return &authz.Attributes{User: u, Verb: i.Verb, Path: i.Path}
	}
	a := &authz.Attributes{
		User: u, Verb: i.Verb, Group: i.GV.Group, Resource: i.Resource, Subresource: i.Subresource, Namespace: i.Namespace, Name: i.Name,
	}
	if i.Resource == "namespaces" && i.GV.Group == "" {
		a.Namespace = i.Name
	}
	if i.prefixed {
		return a
	}
	switch i.Verb {
	case "list", "watch", "deletecollection":
		if s, err := fields.ParseSelector(c.r.URL.Query().Get("fieldSelector")); err == nil && !s.Empty() {
			a.Fields = s
			if name, ok := s.RequiresExactMatch("metadata.name"); ok && i.Name == "" && i.Verb != "deletecollection" && len(content.IsPathSegmentName(name)) == 0 {
				a.Name = name
			}
		}
	}
	return a
}
