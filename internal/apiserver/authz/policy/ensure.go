package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

// atOnce is how many objects are written in parallel: the store commits them in groups.
const atOnce = 64

var (
	roles               = client.Resource{Group: rbacv1.GroupName, Resource: "roles"}
	roleBindings        = client.Resource{Group: rbacv1.GroupName, Resource: "rolebindings"}
	clusterRoles        = client.Resource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	clusterRoleBindings = client.Resource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
)

// Ensure brings the cluster to what the policy wants: missing objects are created, and missing rules, subjects and labels are
// added. Nothing is removed, except that a binding to another role is replaced. c must be a superuser's.
func (p *Policy) Ensure(ctx context.Context, c client.Client, now view.Snapshot, log *slog.Logger) error {
	e := &ensurer{client: c, now: now, log: log}
	if err := e.namespaces(ctx, p); err != nil {
		return err
	}
	var g errgroup.Group // no context: one failure does not stop the other writes
	g.SetLimit(atOnce)
	errs := make(chan error, len(p.ClusterRoles)+len(p.ClusterRoleBindings)+len(p.Roles)+len(p.RoleBindings))
	add := func(r client.Resource, want runtime.Object) {
		g.Go(func() error {
			if err := e.object(ctx, r, want); err != nil {
				errs <- fmt.Errorf("%s: %w", nameOf(want), err)
			}
			return nil
		})
	}
	for _, x := range p.ClusterRoles {
		add(clusterRoles, x)
	}
	for _, x := range p.ClusterRoleBindings {
		add(clusterRoleBindings, x)
	}
	for _, x := range p.Roles {
		add(roles, x)
	}
	for _, x := range p.RoleBindings {
		add(roleBindings, x)
	}
	_ = g.Wait() // no function returns one
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

type ensurer struct {
	client client.Client
	now    view.Snapshot
	log    *slog.Logger
}

// namespaces creates those of the policy's roles, in case the policy is faster than the controller that makes them.
func (e *ensurer) namespaces(ctx context.Context, p *Policy) error {
	need := map[string]bool{}
	for _, r := range p.Roles {
		need[r.Namespace] = true
	}
	for _, b := range p.RoleBindings {
		need[b.Namespace] = true
	}
	for name := range need {
		if e.now.Get(client.Namespaces.At("", "").Resource, "", name) != nil {
			continue
		}
		_, err := e.client.Create(ctx, client.Namespaces.At("", ""), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}

func (e *ensurer) object(ctx context.Context, r client.Resource, want runtime.Object) error {
	m, err := meta.Accessor(want)
	if err != nil {
		return err
	}
	ref := r.At(m.GetNamespace(), m.GetName())
	if has := e.now.Get(ref.Resource, ref.Namespace, ref.Name); has == nil {
		_, err := e.client.Create(ctx, r.At(m.GetNamespace(), ""), want)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	} else if changed, _ := Complete(has.Object.DeepCopyObject(), want); !changed {
		return nil
	}
	other := false
	_, err = e.client.Mutate(ctx, ref, func(has runtime.Object) (bool, error) {
		var changed bool
		changed, other = Complete(has, want)
		return changed && !other, nil
	})
	if err != nil || !other {
		return err
	}
	e.log.Info("a binding of the cluster's policy is to another role and is made anew", "binding", nameOf(want))
	if err := e.client.Delete(ctx, ref, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err = e.client.Create(ctx, r.At(m.GetNamespace(), ""), want)
	return err
}

func nameOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Sprintf("%T", obj)
	}
	return fmt.Sprintf("%T %s/%s", obj, m.GetNamespace(), m.GetName())
}
