//lint:file-ignore SA1019 ComponentStatus is deprecated, and old clients ask for it.

package control

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/component"
)

// componentStatuses are the components of an upstream cluster, judged by ours: every controller counts towards the controller
// manager.
type componentStatuses struct{ *Plane }

// Get implements verbs.Computer.
func (s componentStatuses) Get(ctx context.Context, _, name string) (runtime.Object, error) {
	all, err := s.List(ctx, "", labels.Everything())
	for _, obj := range all {
		if obj.(*v1.ComponentStatus).Name == name {
			return obj, nil
		}
	}
	if err == nil {
		err = apierrors.NewNotFound(v1.Resource("componentstatus"), name) // upstream's error has the singular
	}
	return nil, err
}

// List implements verbs.Computer.
func (s componentStatuses) List(context.Context, string, labels.Selector) ([]runtime.Object, error) {
	others := []string{"etcd", "scheduler", "apiserver", "view", "timeline", "certificates", "leader-election"}
	etcd, scheduler, controllers := healthy("etcd-0"), healthy("scheduler"), healthy("controller-manager")
	for _, h := range s.Health() {
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
