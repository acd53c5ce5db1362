package daemon

import (
	"context"
	"fmt"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/admit/settings"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/priorityclasses"
	"podo.dev/podo/internal/controllers/quotas"
	"podo.dev/podo/internal/registry"
)

// configuredRules are the admission rules that --admission-control-config-file configures.
func (s *server) configuredRules() (admit.Chain, error) {
	rules, err := settings.Rules(s.cfg.AdmissionControlConfigFile, s.control.view)
	if err != nil {
		return nil, fmt.Errorf("--admission-control-config-file %s: %w", s.cfg.AdmissionControlConfigFile, err)
	}
	return rules, nil
}

func (s *server) newQuotas(_ context.Context, c client.Client) (*loop.Loop, error) {
	return quotas.New(s.control.view, c, registry.All(), s.log)
}

// newPriorityClasses acts as the API server itself, whose classes they are.
func (s *server) newPriorityClasses(context.Context, client.Client) (*loop.Loop, error) {
	return priorityclasses.New(s.control.view, local.Admin(s.control.verbs), s.log)
}
