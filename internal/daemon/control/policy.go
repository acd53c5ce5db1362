package control

import (
	"context"

	"podo.dev/podo/internal/apiserver/authz/policy"
	"podo.dev/podo/internal/client/local"
)

// ensurePolicy writes the default roles and bindings, or what is missing of them. Until then the server's own parts work by the
// same policy in memory, and the API server waits, so that clients only ever see the cluster's own roles.
func (p *Plane) ensurePolicy(ctx context.Context, ready func()) error {
	ready()
	now, err := p.view.Fresh(ctx)
	if err != nil {
		return err
	}
	if err := policy.Default().Ensure(ctx, local.Admin(p.verbs), now, p.log("default-policy")); err != nil {
		return err
	}
	// The view has to see what was written before the policy in memory can be dropped.
	if _, err := p.view.Fresh(ctx); err != nil {
		return err
	}
	p.authorizer.Ensured()
	p.policyOnce.Do(func() { close(p.policyDone) })
	<-ctx.Done()
	return nil
}

// awaitPolicy returns whether the policy is in place before ctx ends.
func (p *Plane) awaitPolicy(ctx context.Context) bool {
	select {
	case <-p.policyDone:
		return true
	case <-ctx.Done():
		return false
	}
}
