// Package servicecidrs makes the ranges ready that Services get their addresses from, and keeps one that is being deleted while a Service has
// an address that no other range has.
package servicecidrs

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finalizer is what keeps a range.
const Finalizer = "networking.k8s.io/service-cidr-finalizer"

// Grace is how long a range that is being deleted stays, so that every server has heard of it and takes no address from it.
const Grace = 10 * time.Second

// step is what a range lacks.
type step struct {
	finalizer bool              // whether it has one
	ready     *metav1.Condition // nil where nothing is to be said
	again     time.Duration     // after which it may go
}

// plan is what to do with a range. all are the ranges that there are, taken the addresses of Services.
func plan(c *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR, taken iter.Seq[netip.Addr], now time.Time) step {
	ready := &metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready",
		LastTransitionTime: metav1.NewTime(now),
	}
	switch {
	case c.DeletionTimestamp == nil:
		return step{finalizer: true, ready: ready}
	case needed(c, all, taken):
		ready.Status, ready.Reason = metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating
		ready.Message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
		return step{finalizer: slices.Contains(c.Finalizers, Finalizer), ready: ready}
	}
	left := Grace - now.Sub(c.DeletionTimestamp.Time)
	return step{finalizer: left > 0 && slices.Contains(c.Finalizers, Finalizer), again: max(left, 0)}
}

// needed says that a Service has an address which no range has but this one. Of several that are being deleted and share addresses, the first
// by name counts for the others: were each to count on another, they would all go.
func needed(c *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR, taken iter.Seq[netip.Addr]) bool {
	own := prefixes(c)
	var others []netip.Prefix
	for _, o := range all {
		if o.Name != c.Name && (o.DeletionTimestamp == nil || o.Name < c.Name) {
			others = append(others, prefixes(o)...)
		}
	}
	for a := range taken {
		holds := func(p netip.Prefix) bool { return holds(p, a) }
		if slices.ContainsFunc(own, holds) && !slices.ContainsFunc(others, holds) {
			return true
		}
	}
	return false
}

func prefixes(c *networkingv1.ServiceCIDR) (out []netip.Prefix) {
	for _, text := range c.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// holds says that a Service can have the address from the range: neither its first nor, of IPv4, its last.
func holds(p netip.Prefix, a netip.Addr) bool {
	return p.Contains(a) && a != p.Addr() && (a.Is6() || p.Contains(a.Next()))
}

// put gives a range its finalizer or takes it; false says that it is right.
func (s step) put(c *networkingv1.ServiceCIDR) bool {
	if slices.Contains(c.Finalizers, Finalizer) == s.finalizer || s.finalizer && c.DeletionTimestamp != nil {
		return false
	}
	if s.finalizer {
		c.Finalizers = append(c.Finalizers, Finalizer)
	} else {
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == Finalizer })
	}
	return true
}

// say sets the condition; false says that it is right.
func (s step) say(c *networkingv1.ServiceCIDR) bool {
	if s.ready == nil {
		return false
	}
	has := meta.FindStatusCondition(c.Status.Conditions, s.ready.Type)
	if has != nil && has.Status == s.ready.Status && has.Reason == s.ready.Reason && has.Message == s.ready.Message {
		return false
	}
	return meta.SetStatusCondition(&c.Status.Conditions, *s.ready)
}
