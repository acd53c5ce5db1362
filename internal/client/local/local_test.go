package local

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/apiserver/authz/modes"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/clienttest"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
)

func TestSuite(t *testing.T) {
	clienttest.Run(t, func(t *testing.T) clienttest.World {
		v := newVerbs(t)
		return clienttest.World{Admin: Admin(v).As("suite"), Node: Node(v, "node-a")}
	})
}

func newVerbs(t *testing.T) *verbs.Verbs {
	t.Helper()
	vw, s := viewtest.New(t, clienttest.Objects()...)
	v, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Authorizer: modes.New(vw)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheSchedulerReadsAndBindsOnly(t *testing.T) {
	c := Scheduler(newVerbs(t))
	if _, err := c.Create(t.Context(), client.ConfigMaps.At("default", "a"), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); !apierrors.IsForbidden(err) {
		t.Errorf("the scheduler created a ConfigMap: %v", err)
	}
}
