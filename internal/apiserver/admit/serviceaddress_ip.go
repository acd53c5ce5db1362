package admit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/service"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
)

// clusterIPs allocates and releases the addresses for a change of a Service (from nothing, when old is nil).
func (p *ServiceAddresses) clusterIPs(ctx context.Context, a *Attributes, s, old *v1.Service) error {
	if old == nil || !service.NeedsClusterIP(old) {
		if !service.NeedsClusterIP(s) || len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIPs[0] == v1.ClusterIPNone {
			return nil
		}
		return p.takeIPs(ctx, a, s)
	}
	keep := s.Spec.ClusterIPs
	if !service.NeedsClusterIP(s) {
		keep = nil // remains of them are cleared, or refused
	} else if len(keep) == 0 || len(keep) >= len(old.Spec.ClusterIPs) {
		return nil // a change of the first address is refused
	}
	for _, ip := range heldIPs(old) {
		if !slices.Contains(keep, ip) {
			if err := p.releaseIP(ctx, a, old, ip); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *ServiceAddresses) takeIPs(ctx context.Context, a *Attributes, s *v1.Service) error {
	ips := slices.Clone(s.Spec.ClusterIPs)
	for i := range s.Spec.IPFamilies {
		if i == len(ips) {
			ips = append(ips, "")
		}
		asked := ips[i]
		ip, err := p.takeIP(ctx, a, s, asked)
		if !a.DryRun {
			p.countIP(asked != "", err)
		}
		var known apierrors.APIStatus
		switch {
		case err == nil:
			ips[i] = ip
			continue
		case errors.As(err, &known):
			return err
		case errors.Is(err, errFull):
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", s.Name, err))
		}
		msg := fmt.Sprintf("failed to allocate IP: %v", err)
		if asked != "" {
			msg = fmt.Sprintf("failed to allocate IP %v: %v", asked, err)
		}
		return apierrors.NewInvalid(serviceKind, s.Name, field.ErrorList{field.Invalid(serviceIPsPath, ips, msg)})
	}
	s.Spec.ClusterIPs = ips
	if len(ips) > 0 {
		s.Spec.ClusterIP = ips[0]
	}
	return nil
}

// takeIP allocates the requested address, or any if none is requested.
func (p *ServiceAddresses) takeIP(ctx context.Context, a *Attributes, s *v1.Service, asked string) (string, error) {
	if a.DryRun {
		return p.dryIP(ctx, asked)
	}
	if asked != "" {
		return asked, p.takeAsked(ctx, a, s, asked)
	}
	var found netip.Addr
	ready := false
	ok, err := p.snapshots(ctx, func(now view.Snapshot) (bool, error) {
		for _, r := range p.ranges(now) {
			ready = true
			for addr := range r.addresses(p.random) {
				if now.Get(addressesResource, "", addr.String()) == nil {
					found = addr
					return true, nil
				}
			}
		}
		return false, nil
	})
	switch {
	case err != nil:
		return "", err
	case !ok && !ready:
		return "", errNoRangeIsReady
	case !ok:
		return "", errFull
	}
	return found.String(), p.write(a, s, found)
}

// dryIP is takeIP for a dry run, which as upstream only looks whether the address can be one of a Service, and shows the range's
// own address, which no Service can have, where any would do.
func (p *ServiceAddresses) dryIP(ctx context.Context, asked string) (string, error) {
	var first netip.Prefix
	addr, _ := netip.AddrFromSlice(netutils.ParseIPSloppy(asked))
	ok, err := p.snapshots(ctx, func(now view.Snapshot) (bool, error) {
		ranges := p.ranges(now)
		if len(ranges) > 0 {
			first = ranges[0].prefix.Masked()
		}
		return asked == "" && len(ranges) > 0 || slices.ContainsFunc(ranges, func(r addressRange) bool { return r.contains(addr.Unmap()) }), nil
	})
	switch {
	case err != nil:
		return "", err
	case !first.IsValid():
		return "", errNoRangeIsReady
	case !ok:
		return "", fmt.Errorf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", asked, first)
	case asked == "":
		return first.Addr().String(), nil
	}
	return asked, nil
}

func (p *ServiceAddresses) takeAsked(ctx context.Context, a *Attributes, s *v1.Service, asked string) error {
	addr, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(asked))
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("failed to parse service IP %q", asked))
	}
	addr = addr.Unmap()
	within, err := p.snapshots(ctx, func(now view.Snapshot) (bool, error) {
		return slices.ContainsFunc(p.ranges(now), func(r addressRange) bool { return r.contains(addr) }), nil
	})
	if err != nil {
		return err
	}
	if !within {
		return errNotInAnyRange
	}
	switch _, err := p.Store.Get(ctx, addressKind.Key("", addr.String())); {
	case err == nil:
		return errAddressTaken
	case !errors.Is(err, store.ErrNotFound):
		return apierrors.NewInternalError(err)
	}
	return p.write(a, s, addr)
}

// ranges are the networks to allocate from: those of ready ServiceCIDRs, and the configured one while no ServiceCIDR has it.
func (p *ServiceAddresses) ranges(now view.Snapshot) []addressRange {
	var out []addressRange
	configured := true
	for e := range now.All(serviceCIDRResource, "", view.Key{}) {
		c := e.Object.(*networkingv1.ServiceCIDR)
		for _, text := range c.Spec.CIDRs {
			prefix, err := netip.ParsePrefix(text)
			if err != nil || prefix.Addr().Is4() != p.CIDR.Addr().Is4() {
				continue
			}
			if prefix == p.CIDR && c.Name == defaultServiceCIDR {
				// Until its status says otherwise, the configured range counts as ready.
				configured = c.DeletionTimestamp == nil && !meta.IsStatusConditionFalse(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
				continue
			}
			if c.DeletionTimestamp == nil && meta.IsStatusConditionTrue(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
				out = append(out, newAddressRange(prefix))
			}
		}
	}
	if configured {
		out = append([]addressRange{newAddressRange(p.CIDR)}, out...)
	}
	return out
}

// defaultServiceCIDR is the object that publishes the configured range.
const defaultServiceCIDR = "kubernetes"

// write adds the IPAddress to the transaction, on the condition that it does not exist.
func (p *ServiceAddresses) write(a *Attributes, s *v1.Service, addr netip.Addr) error {
	family := v1.IPv4Protocol
	if addr.Is6() {
		family = v1.IPv6Protocol
	}
	obj := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: addr.String(), UID: p.uid(), CreationTimestamp: metav1.NewTime(p.now()).Rfc3339Copy(),
			Labels: map[string]string{networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: "ipallocator.k8s.io"},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: serviceRef(s)},
	}
	obj.SetGroupVersionKind(addressKind.GVK)
	value, err := codec.Encode(obj)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	key := addressKind.Key("", obj.Name)
	a.Require(key, 0)
	a.Write(store.Op{Key: key, Value: value})
	return nil
}

func serviceRef(s *v1.Service) *networkingv1.ParentReference {
	return &networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}
}

// releaseIP deletes the Service's IPAddress in the transaction. One that belongs to another object, or does not exist, is left
// alone.
func (p *ServiceAddresses) releaseIP(ctx context.Context, a *Attributes, s *v1.Service, ip string) error {
	addr, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(ip))
	if !ok {
		return nil
	}
	key := addressKind.Key("", addr.Unmap().String())
	kv, err := p.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	obj, err := codec.Decode(addressKind, kv.Value, kv.ModRevision)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if ref := obj.(*networkingv1.IPAddress).Spec.ParentRef; ref == nil || *ref != *serviceRef(s) {
		return nil
	}
	a.Require(key, kv.ModRevision)
	a.Write(store.Op{Key: key, Delete: true})
	return nil
}
