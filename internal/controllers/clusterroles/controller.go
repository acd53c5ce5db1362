package clusterroles

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	config, err := json.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string   `json:"metadata"`
		Rules           []rbacv1.PolicyRule `json:"rules"`
	}{
		metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		map[string]string{"name": role.Name, "uid": string(role.UID), "resourceVersion": role.ResourceVersion},
		rules,
	})
	if err != nil {
		return 0, err
	}
	obj, err := k.client.Apply(ctx, clusterRoles.At("", role.Name), config, manager)
	if apierrors.IsConflict(err) {
		return 0, nil // another role by now, or one that gathers something else: that comes as a change
	}
	return loop.Revision(obj), err
}

// manager owns the gathered rules, under upstream's name.
const manager = "clusterrole-aggregation-controller"
