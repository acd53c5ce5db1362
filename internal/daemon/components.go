//lint:file-ignore SA1019 ComponentStatus is deprecated, and old clients ask for it.

package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/servicecidr"
	"podo.dev/podo/internal/controllers/servicecidrs"
)

// newServiceCIDR acts as the server itself, as upstream's does.
func (s *server) newServiceCIDR(context.Context, client.Client) (*loop.Loop, error) {
	services, err := netip.ParsePrefix(s.cfg.ServiceCIDR)
	if err != nil {
		return nil, err
	}
	return servicecidr.New(s.control.view, local.Admin(s.control.verbs), services.Masked().String(), s.log)
}

func (s *server) newServiceCIDRs(_ context.Context, c client.Client) (*loop.Loop, error) {
	return servicecidrs.New(s.control.view, c, s.control.events.Recorder("service-cidr-controller", ""), s.log)
}

// components are the parts that upstream's cluster has, as ours are: every controller counts for the controller manager.
type components struct{ *server }

// Get implements verbs.Computer.
func (s components) Get(ctx context.Context, _, name string) (runtime.Object, error) {
	all, err := s.List(ctx, "", labels.Everything())
	for _, obj := range all {
		if obj.(*v1.ComponentStatus).Name == name {
			return obj, nil
		}
	}
	if err == nil {
		err = apierrors.NewNotFound(v1.Resource("componentstatus"), name) // the singular is upstream's
	}
	return nil, err
}

// List implements verbs.Computer.
func (s components) List(context.Context, string, labels.Selector) ([]runtime.Object, error) {
	others := []string{"etcd", "scheduler", "apiserver", "view", "timeline", "certificates", "leader-election"}
	etcd, scheduler, controllers := healthy("etcd-0"), healthy("scheduler"), healthy("controller-manager")
	if s.control.supervisor == nil {
		return nil, nil
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
	return []runtime.Object{controllers, etcd, scheduler}, nil
}

func healthy(name string) *v1.ComponentStatus {
	c := &v1.ComponentStatus{Conditions: []v1.ComponentCondition{{Type: v1.ComponentHealthy, Status: v1.ConditionTrue, Message: "ok"}}}
	c.Name = name
	return c
}
