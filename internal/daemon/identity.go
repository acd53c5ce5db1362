package daemon

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"

	"podo.dev/podo/internal/apiserver/authn"
	"podo.dev/podo/internal/apiserver/tokens"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/apiserver/wire"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
)

// identity is how the API server knows who asks, and what it makes tokens with.
type identity struct {
	keys   *tokens.Keys
	issuer *tokens.Issuer
	authn  *authn.Authenticator
}

// anonymity is what --anonymous-auth can say.
var anonymity = map[string]authn.Anonymous{"health": authn.Health, "true": authn.Everywhere, "false": authn.Nowhere}

// buildIdentity makes it of the view, which must be there.
func (s *server) buildIdentity() (err error) {
	c := &s.control
	pair, err := s.certs.TokenKeys()
	if err != nil {
		return err
	}
	if c.identity.keys, err = tokens.NewKeys(pair.Signer, pair.Verify...); err != nil {
		return err
	}
	issuers, audiences := s.cfg.ServiceAccountIssuers, s.cfg.audiences()
	if c.identity.issuer, err = tokens.NewIssuer(tokens.IssuerConfig{Keys: c.identity.keys, Issuer: issuers[0], Audiences: audiences}); err != nil {
		return err
	}
	var all []authenticator.Token
	if s.cfg.TokenAuthFile != "" {
		static, err := tokenfile.NewCSV(s.cfg.TokenAuthFile)
		if err != nil {
			return fmt.Errorf("--token-auth-file: %w", err)
		}
		all = append(all, authenticator.WrapAudienceAgnosticToken(audiences, static))
	}
	accounts, err := tokens.NewAuthenticator(tokens.AuthenticatorConfig{
		Keys: c.identity.keys, View: c.view, Issuers: issuers, Audiences: audiences, Used: s.tokenUsed(),
	})
	if err != nil {
		return err
	}
	log := s.log.With("component", "authn")
	bootstrap := &authn.Bootstrap{View: c.view, Logger: log}
	all = append(all, accounts, authenticator.WrapAudienceAgnosticToken(audiences, bootstrap))
	c.identity.authn, err = authn.New(authn.Config{
		Certificates: &authn.X509{Roots: s.certs.Pool()}, Tokens: all, Audiences: audiences, Anonymous: anonymity[s.cfg.AnonymousAuth], Logger: log,
	})
	return err
}

// identityReviews answer who somebody is.
func (s *server) identityReviews() map[schema.GroupResource]verbs.Review {
	group := authenticationv1.GroupName
	return map[schema.GroupResource]verbs.Review{
		{Group: group, Resource: "tokenreviews"}:       s.control.identity.authn.TokenReview,
		{Group: group, Resource: "selfsubjectreviews"}: s.control.identity.authn.SelfSubjectReview,
	}
}

// discovery are the documents with which others verify our tokens; an issuer that is no https URL has none.
func (s *server) discovery() []wire.Handler {
	address := net.JoinHostPort(s.cfg.NodeIP, strconv.Itoa(s.cfg.HTTPSPort))
	configuration, keys, err := s.control.identity.keys.Discovery(s.cfg.ServiceAccountIssuers[0], address)
	if err != nil {
		s.log.Info("the issuer of ServiceAccount tokens cannot be discovered", "err", err)
		return nil
	}
	return []wire.Handler{{Path: tokens.ConfigurationPath, Handler: configuration}, {Path: tokens.KeysPath, Handler: keys}}
}

// tokenUsed notes in a Secret the day on which its token was last used, beside the request that used it.
func (s *server) tokenUsed() func(*v1.Secret, string) {
	var noting sync.Map // UID: a burst of requests makes one write
	return func(secret *v1.Secret, day string) {
		if _, busy := noting.LoadOrStore(secret.UID, true); busy {
			return
		}
		go func() {
			defer noting.Delete(secret.UID)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, err := local.Admin(s.control.verbs).Mutate(ctx, client.Secrets.At(secret.Namespace, secret.Name), func(obj runtime.Object) (bool, error) {
				o := obj.(*v1.Secret)
				if o.UID != secret.UID || o.Labels[tokens.LastUsed] == day {
					return false, nil
				}
				if o.Labels == nil {
					o.Labels = map[string]string{}
				}
				o.Labels[tokens.LastUsed] = day
				return true, nil
			})
			if err != nil {
				s.log.Info("the use of a Secret's token could not be noted", "secret", secret.Namespace+"/"+secret.Name, "err", err)
			}
		}()
	}
}
