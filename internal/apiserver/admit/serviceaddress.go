package admit

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/registry/service"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
)

// ServiceAddresses gives Services their cluster IPs and node ports, and takes them back.
//
// What is taken is written in the Service's own transaction: an IPAddress for each cluster IP, as upstream keeps them, and a key of
// ours for each node port. Each must not be there before, so that of two Services that choose the same one is told to choose again;
// and each goes in the transaction that gives it up. So nothing can be taken twice, and nothing is ever leaked, whenever the process
// ends. (Upstream keeps node ports in one bitmap that every such write would have to meet at, and repairs it by a loop.)
//
// It is the last of the mutating rules: what it takes is for the Service as it will be.
type ServiceAddresses struct {
	View  *view.View
	Store store.Store
	// CIDR is the range of --service-cidr. It is used even before the ServiceCIDR with it exists.
	CIDR  netip.Prefix
	Ports NodePorts
	Now   func() time.Time    // default time.Now
	UID   func() types.UID    // default random
	Rand  func(uint64) uint64 // a number below its argument; default random

	once sync.Once // guards the making of metrics at first use
	*allocations
}

var (
	servicesResource    = schema.GroupResource{Resource: "services"}
	addressesResource   = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}
	serviceCIDRResource = schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
	serviceKind         = v1.SchemeGroupVersion.WithKind("Service").GroupKind()
	addressKind         = registry.Lookup(addressesResource)
)

// The errors about requested addresses, in upstream's words.
var (
	errFull           = errors.New("range is full")
	errAddressTaken   = errors.New("provided IP is already allocated")
	errNotInAnyRange  = errors.New("the provided network does not match the current range")
	errPortTaken      = errors.New("provided port is already allocated")
	errNoRangeIsReady = errors.New("allocator not ready")
	serviceIPsPath    = field.NewPath("spec", "clusterIPs")
	servicePortsPath  = field.NewPath("spec", "ports")
)

// Mutate implements Mutator.
func (p *ServiceAddresses) Mutate(ctx context.Context, a *Attributes) error {
	s, ok := a.Object.(*v1.Service)
	if !ok || a.Ref.Subresource != "" || a.Op != Create && a.Op != Update {
		return nil
	}
	service.Default(s)
	var old *v1.Service
	if a.Op == Update {
		old = a.Old.(*v1.Service).DeepCopy()
		service.Default(old)
		service.Complete(old, p.family())
	} else {
		before := s.Spec.DeepCopy()
		a.Undo(func() { s.Spec = *before })
	}
	service.Inherit(s, old)
	service.Shown(s)
	if errs := service.InitFamilies(s, old, p.family()); len(errs) > 0 {
		return apierrors.NewInvalid(serviceKind, s.Name, errs)
	}
	if old != nil && old.DeletionTimestamp != nil && len(s.Finalizers) == 0 {
		return nil // this write removes the Service and everything that it holds
	}
	if err := p.clusterIPs(ctx, a, s, old); err != nil {
		return err
	}
	return p.nodePorts(ctx, a, s, old)
}

// Remove implements Remover.
func (p *ServiceAddresses) Remove(ctx context.Context, a *Attributes) error {
	s, ok := a.Old.(*v1.Service)
	if !ok {
		return nil
	}
	for _, ip := range heldIPs(s) {
		if err := p.releaseIP(ctx, a, s, ip); err != nil {
			return err
		}
	}
	return p.releasePorts(ctx, a, s, service.NodePorts(s))
}

func (p *ServiceAddresses) family() v1.IPFamily {
	if p.CIDR.Addr().Is6() {
		return v1.IPv6Protocol
	}
	return v1.IPv4Protocol
}

// heldIPs are the addresses that a stored Service holds.
func heldIPs(s *v1.Service) []string {
	if !service.NeedsClusterIP(s) {
		return nil
	}
	ips := s.Spec.ClusterIPs
	if len(ips) == 0 && s.Spec.ClusterIP != "" {
		ips = []string{s.Spec.ClusterIP}
	}
	return slices.DeleteFunc(slices.Clone(ips), func(ip string) bool { return ip == v1.ClusterIPNone })
}

func (p *ServiceAddresses) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

func (p *ServiceAddresses) uid() types.UID {
	if p.UID == nil {
		return uuid.NewUUID()
	}
	return p.UID()
}

func (p *ServiceAddresses) random(n uint64) uint64 {
	if p.Rand == nil {
		return rand.Uint64N(n)
	}
	return p.Rand(n)
}

// snapshots tries with the view's snapshot and, if that fails, with the newest state.
func (p *ServiceAddresses) snapshots(ctx context.Context, try func(view.Snapshot) (bool, error)) (bool, error) {
	if ok, err := try(p.View.Snapshot()); ok || err != nil {
		return ok, err
	}
	s, err := p.View.Fresh(ctx)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return try(s)
}
