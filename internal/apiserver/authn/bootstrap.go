package authn

import (
	"context"
	"crypto/subtle"
	"log/slog"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/jointoken"
	"podo.dev/podo/internal/view"
)

// Bootstrap authenticates the tokens with which new nodes join: each is a Secret in kube-system.
type Bootstrap struct {
	View   *view.View
	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // may be nil
}

var _ authenticator.Token = (*Bootstrap)(nil)

const (
	bootstrapUser  = "system:bootstrap:"
	bootstrapGroup = "system:bootstrappers"
)

// AuthenticateToken implements authenticator.Token. For an expired token the answer is the same as for an unknown one.
func (b *Bootstrap) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	t, err := jointoken.Parse(token)
	if err != nil || t.CAHash != "" { // the hash is for the machine, which does not send it
		return nil, false, nil //nolint:nilerr // it is another kind of token
	}
	id, secret := t.ID, t.Secret
	e := b.View.Snapshot().Get(schema.GroupResource(client.Secrets), metav1.NamespaceSystem, jointoken.SecretPrefix+id)
	if e == nil {
		return nil, false, nil
	}
	s := e.Object.(*v1.Secret)
	now := time.Now()
	if b.Now != nil {
		now = b.Now()
	}
	groups, why := bootstrapper(s, id, secret, now)
	if why != "" {
		if b.Logger != nil {
			b.Logger.Debug("a bootstrap token is not accepted", "secret", s.Name, "why", why)
		}
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: bootstrapUser + id, Groups: groups}}, true, nil
}

// bootstrapper returns the groups that a Secret gives to whoever has its token, or why it is invalid.
func bootstrapper(s *v1.Secret, id, secret string, now time.Time) (groups []string, why string) {
	switch {
	case s.DeletionTimestamp != nil:
		return nil, "it is being deleted"
	case s.Type != jointoken.SecretType:
		return nil, "its type is another"
	case subtle.ConstantTimeCompare(s.Data["token-secret"], []byte(secret)) != 1:
		return nil, "token-secret is another"
	case string(s.Data["token-id"]) != id:
		return nil, "token-id is another"
	case bootstrapExpired(s, now):
		return nil, "it has expired"
	case string(s.Data["usage-bootstrap-authentication"]) != "true":
		return nil, "it is not for authentication"
	}
	groups = []string{bootstrapGroup}
	if extra := string(s.Data["auth-extra-groups"]); extra != "" {
		for _, g := range strings.Split(extra, ",") {
			if !jointoken.IsGroup(g) {
				return nil, "auth-extra-groups names a group that is none of bootstrappers"
			}
			groups = append(groups, g)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), ""
}

// bootstrapExpired tells whether a Secret has expired; an invalid time counts as expired.
func bootstrapExpired(s *v1.Secret, now time.Time) bool {
	text := string(s.Data["expiration"])
	if text == "" {
		return false
	}
	end, err := time.Parse(time.RFC3339, text)
	return err != nil || !end.After(now)
}
