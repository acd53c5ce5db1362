package local

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
)

// RequestToken implements client.Client.
func (c *Client) RequestToken(ctx context.Context, ref client.Ref, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	ctx, end := c.begin(ctx, "create", ref.Sub("token"), nil)
	out, err := c.verbs.CreateToken(ctx, c.user, ref, r.DeepCopy(), verbs.Options{})
	end(nil, err)
	return out, err
}
