package controllers_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/servicecidr"
	"podo.dev/podo/internal/controllers/servicecidrs"
)

// A further range is ready for Services at once, and when it is deleted it stays, without giving addresses, until the last Service that has one
// of them is gone, and everybody knows.
func TestAFurtherRangeOfServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.run(servicecidr.New(w.view, w.admin, "10.43.0.0/16", nil))
		w.run(servicecidrs.New(w.view, w.controllers, record.NewFakeRecorder(10), nil))
		ranges := client.Resource{Group: networkingv1.GroupName, Resource: "servicecidrs"}
		further := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "further"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"192.0.2.0/28"}}}
		w.must(w.admin.Create(t.Context(), ranges.At("", ""), further))
		synctest.Wait()
		ready := func(name string) metav1.Condition {
			c, _ := w.get(ranges.At("", name)).(*networkingv1.ServiceCIDR)
			if c == nil {
				return metav1.Condition{}
			}
			return *meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
		}
		for _, name := range []string{"further", servicecidr.Name} {
			if c := ready(name); c.Status != metav1.ConditionTrue || c.Message != "Kubernetes Service CIDR is ready" {
				t.Fatalf("%s is %+v", name, c)
			}
		}
		service := func(name, ip string) *v1.Service {
			return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip, Ports: []v1.ServicePort{{Port: 80}}}}
		}
		w.must(w.admin.Create(t.Context(), client.Services.At("default", ""), service("one", "192.0.2.7")))
		w.delete(ranges.At("", "further"))
		time.Sleep(time.Minute)
		if c := ready("further"); c.Status != metav1.ConditionFalse || c.Reason != networkingv1.ServiceCIDRReasonTerminating {
			t.Fatalf("while a Service has one of its addresses it is %+v", c)
		}
		if _, err := w.admin.Create(t.Context(), client.Services.At("default", ""), service("two", "192.0.2.8")); !apierrors.IsInvalid(err) {
			t.Errorf("it gives addresses: %v", err)
		}
		w.delete(client.Services.At("default", "one"))
		synctest.Wait()
		if w.get(ranges.At("", "further")) != nil {
			t.Error("it is there without a Service that has an address of it")
		}
		// One that nobody uses goes when every server has had time to hear of it.
		again := further.DeepCopy()
		again.ResourceVersion, again.UID = "", ""
		w.must(w.admin.Create(t.Context(), ranges.At("", ""), again))
		synctest.Wait()
		w.delete(ranges.At("", "further"))
		time.Sleep(servicecidrs.Grace - 2*time.Second)
		if w.get(ranges.At("", "further")) == nil {
			t.Error("it went at once")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if w.get(ranges.At("", "further")) != nil {
			t.Error("it stays")
		}
	})
}
