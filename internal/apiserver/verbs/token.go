package verbs

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/tokens"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
)

// CreateToken makes a token for the ServiceAccount that ref names. r becomes the verbs' own and is the answer. Nothing is stored,
// so a dry run is no different.
func (v *Verbs) CreateToken(ctx context.Context, u user.Info, ref client.Ref, r *authenticationv1.TokenRequest, o Options) (*authenticationv1.TokenRequest, error) {
	ref = client.ServiceAccounts.At(ref.Namespace, ref.Name).Sub("token")
	asked, err := v.request(ctx, u, "create", ref, o)
	if err != nil {
		return nil, err
	}
	if v.c.Tokens == nil {
		return nil, apierrors.NewGenericServerResponse(404, "", ref.Resource, "", "404 page not found", 0, false)
	}
	asNew(r)
	registry.DefaultTokenRequest(r)
	if o.Manager != "" { // nobody asks for it within the process
		v.owners.Updated(registry.TokenRequest, "token", &authenticationv1.TokenRequest{}, r, o.Manager)
	}
	a := asked.attributes(admit.Create, r, nil)
	if err := v.chain.Mutate(ctx, a); err != nil {
		return nil, err
	}
	// The caller may have created just now what the token is bound to.
	now, err := v.c.View.Fresh(ctx)
	if err != nil {
		return nil, viewError(err)
	}
	out, err := v.c.Tokens.Issue(ctx, tokens.Request{
		Namespace: ref.Namespace, Name: ref.Name, Object: r, Now: now,
		Admit: func() error { return v.chain.Validate(ctx, a) },
	})
	if err != nil {
		return nil, err
	}
	out.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"))
	return out, nil
}
