package clusterroles

import (
	"context"
	"errors"
	"log/slog"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	var failed []error
	for _, role := range all {
		wrote, err := k.gather(ctx, role, all)
		failed = append(failed, err) // one that cannot be written keeps no other
		res.Wrote = max(res.Wrote, wrote)
	}
	return res, errors.Join(failed...)
}

func (k *controller) gather(ctx context.Context, role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) (wrote int64, err error) {
	if role.AggregationRule == nil {
		return 0, nil
	}
	rules, same, err := Gathered(role, all)
	if same || err != nil {
		return 0, err
	}
	obj, err := k.client.Mutate(ctx, clusterRoles.At("", role.Name), func(o runtime.Object) (bool, error) {
		now := o.(*rbacv1.ClusterRole)
		if now.UID != role.UID || !equality.Semantic.DeepEqual(now.AggregationRule, role.AggregationRule) {
			return false, nil // it gathers something else by now, or nothing: that comes as a change
		}
		now.Rules = rules
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return loop.Revision(obj), err
}
