package control

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

// identity is how the API server authenticates clients, and what it signs tokens with.
type identity struct {
	keys   *tokens.Keys
	issuer *tokens.Issuer
	authn  *authn.Authenticator
}

// buildIdentity makes it of the view, which must be there.
func (p *Plane) buildIdentity() (err error) {
	pair, err := p.cfg.Certs.TokenKeys()
	if err != nil {
		return err
	}
	if p.identity.keys, err = tokens.NewKeys(pair.Signer, pair.Verify...); err != nil {
		return err
	}
	issuers, audiences := p.cfg.Server.ServiceAccountIssuers, p.cfg.Server.Audiences()
	if p.identity.issuer, err = tokens.NewIssuer(tokens.IssuerConfig{Keys: p.identity.keys, Issuer: issuers[0], Audiences: audiences}); err != nil {
		return err
	}
	var all []authenticator.Token
	if p.cfg.Server.TokenAuthFile != "" {
		static, err := tokenfile.NewCSV(p.cfg.Server.TokenAuthFile)
		if err != nil {
			return fmt.Errorf("--token-auth-file: %w", err)
		}
		all = append(all, authenticator.WrapAudienceAgnosticToken(audiences, static))
	}
	accounts, err := tokens.NewAuthenticator(tokens.AuthenticatorConfig{
		Keys: p.identity.keys, View: p.view, Issuers: issuers, Audiences: audiences, Used: p.tokenUsed(),
	})
	if err != nil {
		return err
	}
	log := p.log("authn")
	bootstrap := &authn.Bootstrap{View: p.view, Logger: log}
	all = append(all, accounts, authenticator.WrapAudienceAgnosticToken(audiences, bootstrap))
	p.identity.authn, err = authn.New(authn.Config{
		Certificates: &authn.X509{Roots: p.cfg.Certs.Pool()}, Tokens: all, Audiences: audiences, Anonymous: p.cfg.Server.Anonymous(), Logger: log,
	})
	return err
}

// identityReviews answer who somebody is.
func (p *Plane) identityReviews() map[schema.GroupResource]verbs.Review {
	group := authenticationv1.GroupName
	return map[schema.GroupResource]verbs.Review{
		{Group: group, Resource: "tokenreviews"}:       p.identity.authn.TokenReview,
		{Group: group, Resource: "selfsubjectreviews"}: p.identity.authn.SelfSubjectReview,
	}
}

// discovery are the documents with which others verify our tokens; only an issuer with an https URL has them.
func (p *Plane) discovery() []wire.Handler {
	address := net.JoinHostPort(p.cfg.Server.NodeIP, strconv.Itoa(p.cfg.Server.HTTPSPort))
	configuration, keys, err := p.identity.keys.Discovery(p.cfg.Server.ServiceAccountIssuers[0], address)
	if err != nil {
		p.cfg.Logger.Info("the issuer of ServiceAccount tokens cannot be discovered", "err", err)
		return nil
	}
	return []wire.Handler{
		{Path: tokens.ConfigurationPath, Type: tokens.ConfigurationType, Handler: configuration}, {Path: tokens.KeysPath, Type: tokens.KeysType, Handler: keys},
	}
}

// tokenUsed records in a Secret the day on which its token was last used, in parallel with the request that used it.
func (p *Plane) tokenUsed() func(*v1.Secret, string) {
	var noting sync.Map // UID: a burst of requests makes one write
	return func(secret *v1.Secret, day string) {
		if _, busy := noting.LoadOrStore(secret.UID, true); busy {
			return
		}
		go func() {
			defer noting.Delete(secret.UID)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, err := local.Admin(p.verbs).Mutate(ctx, client.Secrets.At(secret.Namespace, secret.Name), func(obj runtime.Object) (bool, error) {
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
				p.cfg.Logger.Info("the use of a Secret's token could not be noted", "secret", secret.Namespace+"/"+secret.Name, "err", err)
			}
		}()
	}
}
