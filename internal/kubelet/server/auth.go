package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// guard lets a request through to next when its user is known and may do what it asks.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok, err := s.user(r)
		if err != nil || !ok {
			if err != nil {
				s.cfg.Log.Warn("a request could not be authenticated", "path", r.URL.Path, "err", err)
			}
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		verb, subs := attributes(r)
		for _, sub := range subs {
			ok, err := s.cfg.Authorize(r.Context(), u, verb, sub, r.URL.Path)
			if err != nil {
				s.cfg.Log.Warn("a request could not be authorized", "user", u.GetName(), "path", r.URL.Path, "err", err)
				http.Error(w, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", u.GetName(), verb, sub),
					http.StatusInternalServerError)
				return
			}
			if ok {
				next.ServeHTTP(w, r)
				return
			}
		}
		http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", u.GetName(), verb, subs), http.StatusForbidden)
	})
}

// user reads the user from the verified client certificate: the name is its common name, the groups its organizations.
func (s *Server) user(r *http.Request) (user.Info, bool, error) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.VerifiedChains[0][0].Subject
		if subject.CommonName == "" {
			return nil, false, nil
		}
		return &user.DefaultInfo{Name: subject.CommonName, Groups: append(slices.Clone(subject.Organization), user.AllAuthenticated)}, true, nil
	}
	if s.cfg.Authenticate != nil {
		return s.cfg.Authenticate(r)
	}
	return nil, false, nil
}

// attributes are the verb and the subresources of nodes, either of which is enough, that a request needs.
func attributes(r *http.Request) (verb string, subresources []string) {
	switch r.Method { // any other method is no verb, which only a rule for all verbs allows
	case http.MethodGet:
		verb = "get"
	case http.MethodPost:
		verb = "create"
	case http.MethodPut:
		verb = "update"
	case http.MethodPatch:
		verb = "patch"
	case http.MethodDelete:
		verb = "delete"
	}
	under := func(prefix string) bool { return r.URL.Path == prefix || strings.HasPrefix(r.URL.Path, prefix+"/") }
	switch {
	case under("/stats"):
		return verb, []string{"stats"}
	case under("/metrics"):
		return verb, []string{"metrics"}
	case under("/logs"):
		return verb, []string{"log"}
	case under("/checkpoint"):
		return verb, []string{"checkpoint"}
	case under("/statusz"):
		return verb, []string{"statusz"}
	case under("/flagz"):
		return verb, []string{"configz"}
	case under("/pods"), under("/runningpods"), under("/allocatedPods"):
		return verb, []string{"pods", "proxy"}
	case under("/healthz"):
		return verb, []string{"healthz", "proxy"}
	case under("/configz"):
		return verb, []string{"configz", "proxy"}
	}
	return verb, []string{"proxy"}
}
