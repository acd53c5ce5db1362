// Package priorityclasses creates the priority classes that every cluster has.
package priorityclasses

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var classes = client.Resource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}

// New makes the controller, whose keys are classes. They are there when it is ready. log may be nil.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	create := func(ctx context.Context, name string) error {
		for _, class := range registry.SystemPriorityClasses() {
			if name != "" && class.Name != name {
				continue
			}
			if _, err := c.Create(ctx, classes.At("", ""), class); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	}
	return loop.New(loop.Config{
		Name: "priority-classes", View: v, Logger: log,
		Start: func(ctx context.Context) error { return create(ctx, "") },
		Watches: []loop.Watch{{Resource: schema.GroupResource(classes), Keys: func(c view.Change) []view.Key {
			if c.New != nil {
				return nil
			}
			return []view.Key{c.Old.Key}
		}}},
		Reconcile: func(ctx context.Context, _ view.Snapshot, key view.Key) (loop.Result, error) {
			return loop.Result{}, create(ctx, key.Name)
		},
	})
}
