// Package servicecidr publishes the range that Services get their addresses from: the ServiceCIDR "kubernetes", of --service-cidr, with
// its condition Ready. One that says something else (the flag changed) is left as it is, as upstream does.
package servicecidr

import (
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name is the object's.
const Name = "kubernetes"

// Wanted is the object for a range.
func Wanted(cidr string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: Name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
}

// MakeReady sets the condition where nobody has said anything of it, and says whether it did.
func MakeReady(c *networkingv1.ServiceCIDR, cidr string, now time.Time) bool {
	if c.DeletionTimestamp != nil || !slices.Equal(c.Spec.CIDRs, []string{cidr}) {
		return false
	}
	if has := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady); has != nil && has.Status != metav1.ConditionUnknown {
		return false
	}
	return meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		Message: "Kubernetes default Service CIDR is ready",
	})
}
