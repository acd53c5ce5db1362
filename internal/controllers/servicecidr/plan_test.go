package servicecidr

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMakeReady(t *testing.T) {
	c := Wanted("10.43.0.0/16")
	if !MakeReady(c, "10.43.0.0/16", time.Unix(1, 0)) || !meta.IsStatusConditionTrue(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
		t.Fatalf("a new range is not ready: %+v", c.Status)
	}
	if MakeReady(c, "10.43.0.0/16", time.Unix(2, 0)) {
		t.Error("written again")
	}
	c.Status.Conditions[0].Status = metav1.ConditionFalse
	if MakeReady(c, "10.43.0.0/16", time.Unix(2, 0)) {
		t.Error("somebody says that it is not ready")
	}
	if MakeReady(Wanted("10.44.0.0/16"), "10.43.0.0/16", time.Unix(1, 0)) {
		t.Error("another range than the configured one")
	}
}
