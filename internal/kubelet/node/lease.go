package node

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
)

// keepLease renews the node's lease every quarter of its duration, and sooner again after a failure.
func (m *Manager) keepLease(ctx context.Context) {
	var have *coordinationv1.Lease // as last written; nil when it must be read
	every := time.NewTicker(m.cfg.LeaseDuration / 4)
	defer every.Stop()
	for {
		m.until(ctx, "renew the node's lease", 7*time.Second, func(ctx context.Context) (err error) {
			have, err = m.renew(ctx, have)
			return err
		})
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// renew writes the lease once. It returns what is there now, or nil when that is not known: it is then read or made the next time.
func (m *Manager) renew(ctx context.Context, have *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	ref := client.Leases.At(v1.NamespaceNodeLease, m.cfg.Name)
	if have == nil {
		obj, err := m.cfg.Client.Get(ctx, ref)
		switch {
		case apierrors.IsNotFound(err):
			obj, err = m.cfg.Client.Create(ctx, ref, m.lease(&coordinationv1.Lease{}))
			return asLease(obj, err)
		case err != nil:
			return nil, err
		}
		if have, err = asLease(obj, nil); err != nil {
			return nil, err
		}
	}
	obj, err := m.cfg.Client.Update(ctx, ref, m.lease(have))
	return asLease(obj, err)
}

// lease is have with this node's claim on it, renewed now. have is not changed.
func (m *Manager) lease(have *coordinationv1.Lease) *coordinationv1.Lease {
	l := have.DeepCopy()
	l.Namespace, l.Name = v1.NamespaceNodeLease, m.cfg.Name
	if uid := m.UID(); uid != "" && (len(l.OwnerReferences) == 0 || l.OwnerReferences[0].UID != uid) {
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: m.cfg.Name, UID: uid}}
	}
	seconds := int32(m.cfg.LeaseDuration / time.Second)
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &m.cfg.Name, &seconds
	now := metav1.NowMicro()
	l.Spec.RenewTime = &now
	return l
}

func asLease(obj any, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	l, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return nil, fmt.Errorf("node: the client returned a %T", obj)
	}
	return l, nil
}
