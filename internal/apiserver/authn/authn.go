// Package authn authenticates requests. Credentials are checked in order, and the first valid ones count: a client certificate of
// the cluster's authority, then a bearer token (from a static file, of a ServiceAccount, a bootstrap token). Invalid credentials
// are refused; without credentials a request is anonymous where that is allowed.
package authn

import (
	"errors"
	"log/slog"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
)

// ErrUnauthorized says that the credentials are invalid, or missing where they are needed. The reason is not sent to the client.
var ErrUnauthorized = errors.New("Unauthorized") //nolint:staticcheck // upstream's text

// anonymous is who has shown nothing.
var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// Anonymous says for which paths requests need no credentials.
type Anonymous func(path string) bool

// Everywhere leaves anonymous requests to authorization; Nowhere refuses them.
func Everywhere(string) bool { return true }

// Nowhere is described at Everywhere.
func Nowhere(string) bool { return false }

// Health lets anonymous requests ask whether the server is well, and nothing else.
func Health(path string) bool { return path == "/livez" || path == "/readyz" || path == "/healthz" }

// Config is what an Authenticator is made of. Certificates is required.
type Config struct {
	Certificates *X509
	// Tokens are asked in order; the first that knows a token decides.
	Tokens []authenticator.Token
	// Audiences are the API server's names, for reviews of tokens that name no audience.
	Audiences []string
	Anonymous Anonymous    // default Nowhere
	Logger    *slog.Logger // may be nil
}

// Authenticator is described at the top of the package.
type Authenticator struct {
	c     Config
	known authenticator.Request
}

// New makes an Authenticator.
func New(c Config) (*Authenticator, error) {
	if c.Certificates == nil {
		return nil, errors.New("authn: Config needs Certificates")
	}
	if c.Anonymous == nil {
		c.Anonymous = Nowhere
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	tokens := tokenunion.New(c.Tokens...)
	// These authenticators remove the token from the request, so that it is not passed on.
	all := union.New(c.Certificates, bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
	return &Authenticator{c, group.NewAuthenticatedGroupAdder(all)}, nil
}

// User is who r is from.
func (a *Authenticator) User(r *http.Request) (user.Info, error) {
	answer, ok, err := a.known.AuthenticateRequest(r)
	switch {
	case err != nil:
		a.c.Logger.Debug("a request's credentials are no good", "path", r.URL.Path, "remote", r.RemoteAddr, "err", err)
		return nil, ErrUnauthorized
	case ok:
		return answer.User, nil
	case a.c.Anonymous(r.URL.Path):
		return anonymous, nil
	}
	return nil, ErrUnauthorized
}

// Known is the user that r's credentials prove: false without any, and never the anonymous user.
func (a *Authenticator) Known(r *http.Request) (user.Info, bool, error) {
	answer, ok, err := a.known.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, false, err
	}
	return answer.User, true, nil
}
