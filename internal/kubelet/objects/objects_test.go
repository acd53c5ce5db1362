package objects

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/view/viewtest"
)

func TestReadAndFollow(t *testing.T) {
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Data: map[string]string{"k": "v1"}}
	v, s := viewtest.New(t, cm)
	r := New(v)
	if got, err := r.ConfigMap("ns", "c"); err != nil || got.Data["k"] != "v1" {
		t.Fatalf("ConfigMap = %v, %v", got, err)
	}
	if _, err := r.ConfigMap("ns", "x"); err == nil || err.Error() != `configmap "x" not found` {
		t.Errorf("missing: %v", err)
	}
	if _, err := r.Secret("ns", "x"); err == nil || err.Error() != `secret "x" not found` {
		t.Errorf("missing: %v", err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	resyncs := make(chan struct{}, 10)
	refs := make(chan Ref, 10)
	done := make(chan error, 1)
	go func() {
		done <- r.Follow(ctx, func() { resyncs <- struct{}{} }, func(got []Ref) {
			for _, x := range got {
				refs <- x
			}
		})
	}()
	<-resyncs
	cm = cm.DeepCopy()
	cm.Data["k"] = "v2"
	viewtest.Put(t, s, cm)
	if got := <-refs; got != (Ref{ConfigMap, "ns", "c"}) {
		t.Errorf("changed %v", got)
	}
	if got, err := r.ConfigMap("ns", "c"); err != nil || got.Data["k"] != "v2" {
		t.Errorf("after the change: %v, %v", got, err)
	}
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}
	viewtest.Put(t, s, secret)
	if got := <-refs; got != (Ref{Secret, "ns", "s"}) {
		t.Errorf("changed %v", got)
	}
	viewtest.Delete(t, s, secret)
	if got := <-refs; got != (Ref{Secret, "ns", "s"}) {
		t.Errorf("deleted %v", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow = %v", err)
	}
}
