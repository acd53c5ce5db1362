package server

import (
	"crypto/x509"
	"errors"
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
			fail(w, http.StatusUnauthorized, "Unauthorized")
			return
		}
		verb, subs := attributes(r)
		for _, sub := range subs {
			ok, err := s.cfg.Authorize(r.Context(), u, verb, sub, r.URL.Path)
			if err != nil {
				s.cfg.Log.Warn("a request could not be authorized", "user", u.GetName(), "path", r.URL.Path, "err", err)
				fail(w, http.StatusInternalServerError,
					fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", u.GetName(), verb, sub))
				return
			}
			if ok {
				next.ServeHTTP(w, r)
				return
			}
		}
		fail(w, http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)\n", u.GetName(), verb, subs))
	})
}

// user finds out who asks: by the client's certificate, or else by a token. A certificate that no authority of ours signed is
// ignored: its owner may still have a token.
func (s *Server) user(r *http.Request) (user.Info, bool, error) {
	u, err := s.shown(r)
	if u != nil {
		return u, true, nil
	}
	if s.cfg.Authenticate != nil {
		u, ok, terr := s.cfg.Authenticate(r)
		if ok && terr == nil {
			return u, true, nil
		}
		err = errors.Join(err, terr)
	}
	return nil, false, err
}

// shown reads the user from the client's certificate: the name is its common name, the groups its organizations.
func (s *Server) shown(r *http.Request) (user.Info, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || s.cfg.TLS.ClientCAs == nil {
		return nil, nil
	}
	cert := r.TLS.PeerCertificates[0]
	how := x509.VerifyOptions{Roots: s.cfg.TLS.ClientCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range r.TLS.PeerCertificates[1:] {
		how.Intermediates.AddCert(c)
	}
	if _, err := cert.Verify(how); err != nil {
		return nil, err
	}
	if cert.Subject.CommonName == "" {
		return nil, nil
	}
	return &user.DefaultInfo{Name: cert.Subject.CommonName, Groups: append(slices.Clone(cert.Subject.Organization), user.AllAuthenticated)}, nil
}

// attributes are the verb and the subresources of nodes, either of which is enough, that a request needs.
func attributes(r *http.Request) (verb string, subresources []string) {
	switch r.Method { // other methods have no verb: only a rule for all verbs allows them
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
