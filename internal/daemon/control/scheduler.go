package control

import (
	"context"
	"fmt"
	"os"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/budget"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/scheduler"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/view"
)

// schedulerProfiles are those of the configured file, or upstream's default one.
func (p *Plane) schedulerProfiles() (profile.Config, error) {
	given := scheduler.Given(p.view)
	if p.cfg.Server.SchedulerConfig == "" {
		return profile.Default(given), nil
	}
	text, err := os.ReadFile(p.cfg.Server.SchedulerConfig)
	if err != nil {
		return profile.Config{}, fmt.Errorf("--scheduler-config: %w", err)
	}
	c, err := profile.Read(text, given)
	if err != nil {
		return profile.Config{}, fmt.Errorf("--scheduler-config %s: %w", p.cfg.Server.SchedulerConfig, err)
	}
	return c, nil
}

func (p *Plane) runScheduler(ctx context.Context, ready func()) error {
	user := local.Scheduler(p.verbs)
	writer := events.StartSeries(ctx, user, p.cfg.Logger)
	sched, err := scheduler.New(scheduler.Config{
		View:   p.view,
		Client: user,
		Events: func(profile string) scheduler.Recorder { return writer.Recorder(profile) },
		Append: p.cfg.Timeline.Append, Budgets: p.budgets,
		Logger: p.log("scheduler"),
		Seed:   uint64(time.Now().UnixNano()), Metrics: p.metrics, Page: p.page, Profiles: p.profiles,
	})
	if err != nil {
		return err
	}
	return sched.Run(ctx, ready)
}

// budgets are the disruption budgets that the scheduler respects when it evicts pods.
func (p *Plane) budgets() (out []framework.Budget) {
	r := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}
	for e := range p.view.Snapshot().All(r, "", view.Key{}) {
		b := e.Object.(*policyv1.PodDisruptionBudget)
		out = append(out, framework.Budget{
			Namespace: b.Namespace, Selector: budget.Selector(b), Allowed: b.Status.DisruptionsAllowed, Disrupted: b.Status.DisruptedPods,
		})
	}
	return out
}
