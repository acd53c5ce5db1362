package daemon

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/budget"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/disruption"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/view"
)

func (s *server) newDisruption(_ context.Context, c client.Client) (*loop.Loop, error) {
	return disruption.New(s.disruptionConfig(c))
}

func (s *server) newStaleDisruption(_ context.Context, c client.Client) (*loop.Loop, error) {
	return disruption.NewStale(s.disruptionConfig(c))
}

func (s *server) disruptionConfig(c client.Client) disruption.Config {
	return disruption.Config{View: s.control.view, Client: c, Events: s.control.events.Recorder("controllermanager", ""), Logger: s.log}
}

// budgets are those that the scheduler spares pods by when it makes room for others.
func (s *server) budgets() (out []framework.Budget) {
	r := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}
	for e := range s.control.view.Snapshot().All(r, "", view.Key{}) {
		b := e.Object.(*policyv1.PodDisruptionBudget)
		out = append(out, framework.Budget{
			Namespace: b.Namespace, Selector: budget.Selector(b), Allowed: b.Status.DisruptionsAllowed, Disrupted: b.Status.DisruptedPods,
		})
	}
	return out
}
