package tokens

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

// AuthenticatorConfig is what an Authenticator is made of. All but Used and Now are required.
type AuthenticatorConfig struct {
	Keys *Keys
	View *view.View
	// Issuers are those whose tokens are accepted; Audiences are the API server's names.
	Issuers, Audiences []string
	// Used is called with a Secret whose token was used for the first time on that day. It must not block.
	Used func(s *v1.Secret, day string)
	Now  func() time.Time
}

// Authenticator authenticates ServiceAccount tokens.
type Authenticator struct{ c AuthenticatorConfig }

var _ authenticator.Token = (*Authenticator)(nil)

// NewAuthenticator makes an Authenticator.
func NewAuthenticator(c AuthenticatorConfig) (*Authenticator, error) {
	if c.Keys == nil || c.View == nil || len(c.Issuers) == 0 || len(c.Audiences) == 0 {
		return nil, errors.New("tokens: an Authenticator needs Keys, View, Issuers and Audiences")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Used == nil {
		c.Used = func(*v1.Secret, string) {}
	}
	return &Authenticator{c}, nil
}

// AuthenticateToken implements authenticator.Token. A token of another issuer is not ours, without an error. No error contains a
// token.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	issuer, ok := issuerOf(token)
	legacy := issuer == LegacyIssuer
	if !ok || !legacy && !slices.Contains(a.c.Issuers, issuer) {
		return nil, false, nil
	}
	c, err := a.c.Keys.read(token)
	if err != nil {
		return nil, false, err
	}
	if len(c.Audience) == 0 {
		annotate(ctx, "legacy-token", c.Subject)
	}
	audiences, err := a.audiences(ctx, c.Audience)
	if err != nil {
		return nil, false, err
	}
	var u user.Info
	if legacy {
		u, err = a.legacy(ctx, c, token)
	} else {
		u, err = a.bound(ctx, c)
	}
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: u, Audiences: audiences}, true, nil
}

// audiences are the requested ones that the token has; a token without any is for the API server.
func (a *Authenticator) audiences(ctx context.Context, of []string) (authenticator.Audiences, error) {
	have := authenticator.Audiences(of)
	if len(have) == 0 {
		have = a.c.Audiences
	}
	asked, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		asked = a.c.Audiences
	}
	both := have.Intersect(asked)
	if len(both) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", have, asked)
	}
	return both, nil
}

var errInvalidated = errors.New("service account token has been invalidated")

// bound checks the time and every object that the token names.
func (a *Authenticator) bound(ctx context.Context, c *claims) (user.Info, error) {
	now := a.c.Now()
	switch {
	case c.NotBefore != nil && now.Add(leeway).Before(c.NotBefore.Time):
		return nil, errors.New("service account token is not valid yet")
	case c.ExpiresAt != nil && now.Add(-leeway).After(c.ExpiresAt.Time):
		return nil, errors.New("service account token has expired")
	case c.IssuedAt != nil && now.Add(leeway).Before(c.IssuedAt.Time):
		return nil, errors.New("service account token is issued in the future")
	}
	k := c.Kubernetes
	if k == nil {
		k = &bound{}
	}
	gone := func(m metav1.Object) bool {
		at := m.GetDeletionTimestamp()
		return at != nil && at.Time.Before(now.Add(-leeway))
	}
	account, err := a.find(ctx, client.ServiceAccounts, k.Namespace, k.Account)
	switch {
	case err != nil:
		return nil, err
	case string(account.GetUID()) != k.Account.UID:
		return nil, fmt.Errorf("service account UID (%s) does not match claim (%s)", account.GetUID(), k.Account.UID)
	case gone(account):
		return nil, fmt.Errorf("service account %s/%s has been deleted", k.Namespace, k.Account.Name)
	}
	info := serviceaccount.ServiceAccountInfo{Namespace: k.Namespace, Name: k.Account.Name, UID: k.Account.UID}
	check := func(what string, r client.Resource, namespace string, to ref) error {
		obj, err := a.find(ctx, r, namespace, to)
		switch {
		case err != nil:
			return errInvalidated
		case string(obj.GetUID()) != to.UID:
			return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", what, obj.GetUID(), what, to.UID)
		case gone(obj):
			return errInvalidated
		}
		return nil
	}
	if k.Secret != nil {
		if err := check("secret", client.Secrets, k.Namespace, *k.Secret); err != nil {
			return nil, err
		}
	}
	if k.Pod != nil {
		if err := check("pod", client.Pods, k.Namespace, *k.Pod); err != nil {
			return nil, err
		}
		info.PodName, info.PodUID = k.Pod.Name, k.Pod.UID
	}
	if k.Node != nil {
		// A pod's token only mentions the node: what counts is whether the pod exists.
		if k.Pod == nil {
			if err := check("node", client.Nodes, "", *k.Node); err != nil {
				return nil, err
			}
		}
		info.NodeName, info.NodeUID = k.Node.Name, k.Node.UID
	}
	if c.ID != "" {
		info.CredentialID = idPrefix + c.ID
	}
	if w := k.WarnAfter; w != nil && now.After(w.Time) {
		annotate(ctx, "stale-token", fmt.Sprintf("subject: %s, seconds after warning threshold: %d", c.Subject, now.Unix()-w.Unix()))
	}
	return info.UserInfo(), nil
}

// annotate adds to the audit record, if there is one.
func annotate(ctx context.Context, key, value string) {
	audit.AddAuditAnnotation(ctx, "authentication.k8s.io/"+key, value)
}

// find reads from the view and, before it says that an object is gone or replaced, from the newest state.
func (a *Authenticator) find(ctx context.Context, r client.Resource, namespace string, to ref) (metav1.Object, error) {
	gr := schema.GroupResource(r)
	e := a.c.View.Snapshot().Get(gr, namespace, to.Name)
	if e == nil || string(e.Meta.GetUID()) != to.UID {
		now, err := a.c.View.Fresh(ctx)
		if err != nil {
			return nil, err
		}
		if e = now.Get(gr, namespace, to.Name); e == nil {
			return nil, apierrors.NewNotFound(gr, to.Name)
		}
	}
	return e.Meta, nil
}

const (
	// InvalidSince marks a Secret whose token is no longer accepted; LastUsed has the day of its last use.
	InvalidSince = "kubernetes.io/legacy-token-invalid-since"
	LastUsed     = "kubernetes.io/legacy-token-last-used"
)

// legacy checks a Secret's token. It does not expire, but the Secret must still contain this very token.
func (a *Authenticator) legacy(ctx context.Context, c *claims, token string) (user.Info, error) {
	for _, claim := range []struct{ value, name string }{
		{c.Subject, "sub"},
		{c.LegacyNamespace, "namespace"},
		{c.LegacySecretNamed, "secretName"},
		{c.LegacyAccount, "serviceAccountName"},
		{c.LegacyAccountUID, "serviceAccountUID"},
	} {
		if claim.value == "" {
			return nil, fmt.Errorf("%s claim is missing", claim.name)
		}
	}
	namespace, name := c.LegacyNamespace, c.LegacyAccount
	if c.Subject != serviceaccount.MakeUsername(namespace, name) {
		return nil, errors.New("sub claim is invalid")
	}
	secret, err := a.secret(ctx, namespace, c.LegacySecretNamed, token)
	if err != nil {
		return nil, err
	}
	account, err := a.find(ctx, client.ServiceAccounts, namespace, ref{name, c.LegacyAccountUID})
	switch {
	case err != nil:
		return nil, err
	case account.GetDeletionTimestamp() != nil:
		return nil, fmt.Errorf("ServiceAccount %s/%s has been deleted", namespace, name)
	case string(account.GetUID()) != c.LegacyAccountUID:
		return nil, fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", account.GetUID(), c.LegacyAccountUID)
	}
	a.used(secret)
	if secret.Labels[InvalidSince] != "" {
		annotate(ctx, "legacy-token-invalidated", secret.Name+"/"+secret.Namespace)
		return nil, fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '%s' label from the secret to temporarily allow use of this token",
			namespace, secret.Name, namespace, name, InvalidSince)
	}
	kind := "manual"
	if lists(account, secret.Name) {
		kind = "autogenerated"
	}
	annotate(ctx, "legacy-token-"+kind+"-secret", secret.Name)
	return serviceaccount.UserInfo(namespace, name, c.LegacyAccountUID), nil
}

// lists tells whether an account names the Secret, as accounts did whose Secrets were made together with them.
func lists(account metav1.Object, secret string) bool {
	s, ok := account.(*v1.ServiceAccount)
	return ok && slices.ContainsFunc(s.Secrets, func(r v1.ObjectReference) bool { return r.Name == secret })
}

func (a *Authenticator) secret(ctx context.Context, namespace, name, token string) (*v1.Secret, error) {
	holds := func(s *v1.Secret) bool {
		return subtle.ConstantTimeCompare(s.Data[v1.ServiceAccountTokenKey], []byte(token)) == 1
	}
	gr := schema.GroupResource(client.Secrets)
	e := a.c.View.Snapshot().Get(gr, namespace, name)
	if e == nil || !holds(e.Object.(*v1.Secret)) {
		now, err := a.c.View.Fresh(ctx)
		if err != nil {
			return nil, err
		}
		e = now.Get(gr, namespace, name)
	}
	if e == nil || e.Meta.GetDeletionTimestamp() != nil {
		//lint:ignore ST1005 upstream's text
		return nil, errors.New("Token has been invalidated")
	}
	s := e.Object.(*v1.Secret)
	if !holds(s) {
		//lint:ignore ST1005 as above
		return nil, errors.New("Token does not match server's copy")
	}
	return s, nil
}

// used reports a use once a day. Servers with different clocks may disagree about the day.
func (a *Authenticator) used(s *v1.Secret) {
	now := a.c.Now().UTC()
	today, tomorrow := now.Format(time.DateOnly), now.AddDate(0, 0, 1).Format(time.DateOnly)
	if last := s.Labels[LastUsed]; last != today && last != tomorrow {
		a.c.Used(s, today)
	}
}
