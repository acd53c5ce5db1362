package rootca

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecideAndRepair(t *testing.T) {
	const ca = "PEM"
	ns := func(phase v1.NamespacePhase) *v1.Namespace {
		return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}, Status: v1.NamespaceStatus{Phase: phase}}
	}
	active, going := ns(v1.NamespaceActive), ns(v1.NamespaceTerminating)
	made := func(change func(c *v1.ConfigMap)) *v1.ConfigMap {
		c := Wanted("work", ca)
		if change != nil {
			change(c)
		}
		return c
	}
	for _, c := range []struct {
		name string
		ns   *v1.Namespace
		has  *v1.ConfigMap
		want Action
	}{
		{"a new namespace", active, nil, Create},
		{"the namespace is going", going, nil, Leave},
		{"the namespace has gone", nil, nil, Leave},
		{"as made", active, made(nil), Leave},
		{"other words", active, made(func(c *v1.ConfigMap) { c.Annotations[describes] = "ours" }), Leave},
		{"labels are not our business", active, made(func(c *v1.ConfigMap) { c.Labels = map[string]string{"a": "b"} }), Leave},
		{"no words", active, made(func(c *v1.ConfigMap) { c.Annotations = nil }), Change},
		{"another certificate", active, made(func(c *v1.ConfigMap) { c.Data[Key] = "x" }), Change},
		{"another certificate in a namespace that is going", going, made(func(c *v1.ConfigMap) { c.Data[Key] = "x" }), Change},
		{"more than the certificate", active, made(func(c *v1.ConfigMap) { c.Data["more"] = "x" }), Change},
		{"no data", active, made(func(c *v1.ConfigMap) { c.Data = nil }), Change},
		{"the key is another", active, made(func(c *v1.ConfigMap) { c.Data = map[string]string{"x": ca} }), Change},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Decide(c.ns, c.has, ca); got != c.want {
				t.Errorf("decides %d, want %d", got, c.want)
			}
			if c.has == nil {
				return
			}
			if got := Repair(c.has, ca); got != (c.want == Change) {
				t.Errorf("repair says %v", got)
			}
			if !reflect.DeepEqual(c.has.Data, map[string]string{Key: ca}) || c.has.Annotations[describes] == "" {
				t.Errorf("repaired to %v, %v", c.has.Data, c.has.Annotations)
			}
			if Repair(c.has, ca) {
				t.Error("repairs twice")
			}
		})
	}
}
