package clusterroles

import (
	"context"
	"log/slog"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var clusterRoles = client.Resource{Group: rbacv1.GroupName, Resource: "clusterroles"}

// New makes the controller. It has one key: roles that gather may gather from each other, and all of them are looked at together.
// log may be nil.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{c}
	return loop.New(loop.Config{
		Name: "cluster-role-aggregation", View: v, Reconcile: k.reconcile, Logger: log,
		Watches: []loop.Watch{{
			Resource: schema.GroupResource(clusterRoles),
			Keys:     func(view.Change) []view.Key { return []view.Key{{Name: "all"}} },
		}},
	})
}

type controller struct{ client client.Client }

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, _ view.Key) (res loop.Result, err error) {
	var all []*rbacv1.ClusterRole
	for e := range s.All(schema.GroupResource(clusterRoles), "", view.Key{}) {
		all = append(all, e.Object.(*rbacv1.ClusterRole))
	}
	for _, role := range all {
		if role.AggregationRule == nil {
			continue
		}
		rules, same, err := Gathered(role, all)
		if err != nil {
			return res, err
		}
		if same {
			continue
		}
		obj, err := k.client.Mutate(ctx, clusterRoles.At("", role.Name), func(o runtime.Object) (bool, error) {
			o.(*rbacv1.ClusterRole).Rules = rules
			return true, nil
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return res, err
		}
		res.Wrote = max(res.Wrote, loop.Revision(obj))
	}
	return res, nil
}
