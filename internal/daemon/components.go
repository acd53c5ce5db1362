package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/servicecidr"
)

// newServiceCIDR acts as the server itself, as upstream's does.
func (s *server) newServiceCIDR(context.Context, client.Client) (*loop.Loop, error) {
	services, err := netip.ParsePrefix(s.cfg.ServiceCIDR)
	if err != nil {
		return nil, err
	}
	return servicecidr.New(s.control.view, local.Admin(s.control.verbs), services.Masked().String(), s.log)
}

// componentStatuses are the parts that upstream's cluster has, as ours are: every controller counts for the controller manager.
func (s *server) componentStatuses() []v1.ComponentStatus { //nolint:staticcheck // old clients ask
	others := []string{"etcd", "scheduler", "apiserver", "view", "timeline", "certificates", "leader-election"}
	etcd, scheduler, controllers := healthy("etcd-0"), healthy("scheduler"), healthy("controller-manager")
	if s.control.supervisor == nil {
		return nil
	}
	for _, h := range s.control.supervisor.Health() {
		c := controllers
		switch h.Name {
		case "etcd":
			c = etcd
		case "scheduler":
			c = scheduler
		default:
			if slices.Contains(others, h.Name) {
				continue
			}
		}
		if h.State != component.Ready && c.Conditions[0].Status == v1.ConditionTrue {
			c.Conditions[0].Status, c.Conditions[0].Message = v1.ConditionFalse, ""
			c.Conditions[0].Error = fmt.Sprintf("%s is %s: %s", h.Name, h.State, h.LastError)
		}
	}
	return []v1.ComponentStatus{*controllers, *etcd, *scheduler}
}

func healthy(name string) *v1.ComponentStatus { //nolint:staticcheck // as above
	c := &v1.ComponentStatus{Conditions: []v1.ComponentCondition{{Type: v1.ComponentHealthy, Status: v1.ConditionTrue, Message: "ok"}}}
	c.Name = name
	return c
}
