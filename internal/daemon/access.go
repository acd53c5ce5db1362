package daemon

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/authz/policy"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/clusterroles"
	"podo.dev/podo/internal/controllers/loop"
)

// ensurePolicy writes the default roles and bindings, and adds what is missing of them. Meanwhile the server's own parts work by the same
// policy in memory; the API server waits, so that a client sees the cluster's roles and no others.
func (s *server) ensurePolicy(ctx context.Context, ready func()) error {
	ready()
	now, err := s.control.view.Fresh(ctx)
	if err != nil {
		return err
	}
	if err := policy.Default().Ensure(ctx, local.Admin(s.control.verbs), now, s.log.With("component", "default-policy")); err != nil {
		return err
	}
	// What was written has to be seen before it alone counts.
	if _, err := s.control.view.Fresh(ctx); err != nil {
		return err
	}
	s.control.authorizer.Ensured()
	s.control.policyOnce.Do(func() { close(s.control.policyDone) })
	<-ctx.Done()
	return nil
}

// awaitPolicy returns whether the policy is in place before ctx ends.
func (s *server) awaitPolicy(ctx context.Context) bool {
	select {
	case <-s.control.policyDone:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *server) newClusterRoles(_ context.Context, c client.Client) (*loop.Loop, error) {
	return clusterroles.New(s.control.view, c, s.log)
}

// authorizeKubelet answers the kubelet's server: who may do what with a part of its node.
func (s *server) authorizeKubelet(ctx context.Context, u user.Info, verb, subresource, _ string) (bool, error) {
	ok, _ := s.control.authorizer.Authorize(ctx, &authz.Attributes{
		User: u, Verb: verb, Resource: "nodes", Subresource: subresource, Name: s.cfg.NodeName,
	})
	return ok, nil
}
