package control

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/kubernetesservice"
	"podo.dev/podo/internal/controllers/servicecidr"
	"podo.dev/podo/internal/daemon/moved"
)

// checkMoves refuses to start when something was moved that the store's content does not allow to move. It is ready when all is
// well.
func (p *Plane) checkMoves(ctx context.Context, ready func()) error {
	now, err := p.view.Fresh(ctx)
	if err != nil {
		return err
	}
	server := p.cfg.Server
	err = errors.Join(p.cfg.Before.Services(now, server.Services(), len(server.EtcdEndpoints) > 0), p.cfg.Before.Volumes(now, server.NodeName))
	if err != nil {
		return component.Fatal(err)
	}
	ready()
	<-ctx.Done()
	return nil
}

// moveServices deletes the objects of the server itself that belong to another range, so that they are made again in this one.
// All other Services have addresses of some existing range (checkMoves), so the published range need not wait for them. Several
// servers on one etcd may have different ranges for a while, which is left alone.
func (p *Plane) moveServices(ctx context.Context) error {
	if len(p.cfg.Server.EtcdEndpoints) > 0 {
		return nil
	}
	now, err := p.view.Fresh(ctx)
	if err != nil {
		return err
	}
	services, admin := p.cfg.Server.Services(), local.Admin(p.verbs)
	drop := func(ref client.Ref) error {
		p.cfg.Logger.Info("what the server has in another range of Services is made anew", "resource", ref.Resource, "name", ref.Name)
		if err := admin.Delete(ctx, ref, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	}
	if e := now.Get(client.Services.At("", "").Resource, metav1.NamespaceDefault, kubernetesservice.Name); e != nil && moved.Other(e.Object.(*v1.Service), services) {
		if err := drop(client.Services.At(metav1.NamespaceDefault, kubernetesservice.Name)); err != nil {
			return err
		}
	}
	ref := client.ServiceCIDRs.At("", servicecidr.Name)
	e := now.Get(ref.Resource, "", ref.Name)
	if e == nil || slices.Contains(e.Object.(*networkingv1.ServiceCIDR).Spec.CIDRs, services.String()) {
		return nil
	}
	if err := drop(ref); err != nil {
		return err
	}
	// Who keeps ranges for what is in them lets one go that lacks the finalizer only once it is being deleted.
	_, err = admin.Mutate(ctx, ref, func(o runtime.Object) (bool, error) {
		c := o.(*networkingv1.ServiceCIDR)
		had := len(c.Finalizers) > 0
		c.Finalizers = nil
		return had, nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
