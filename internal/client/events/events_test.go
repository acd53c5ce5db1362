package events

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
)

// flaky fails the first creates as an API server that is away does.
type flaky struct {
	client.Client
	left int
}

func (f *flaky) Create(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	if f.left--; f.left >= 0 {
		return nil, errors.New("connection refused")
	}
	return f.Client.Create(ctx, ref, obj)
}

func TestSimilarEventsBecomeOneWithACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vw, s := viewtest.New(t, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}})
		vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := New(ctx, &flaky{local.Node(vb, "n1"), 2}, "kubelet", "n1", nil)
		pod := &v1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}
		for range 3 {
			r.Eventf(pod, v1.EventTypeNormal, "Pulled", "image %s is there", "x")
		}
		r.Event(pod, v1.EventTypeWarning, "BackOff", "wait")
		// Two refusals are retried 10 s apart at most: far less than a bubble's patience.
		admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
		w, err := vb.Watch(ctx, admin, client.Events.At("default", ""), &internalversion.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last := map[string]*v1.Event{}
		for last["BackOff"] == nil || last["Pulled"].Count < 3 {
			got, err := w.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range got {
				ev := e.Object.(*v1.Event)
				last[ev.Reason] = ev
			}
		}
		if e := last["Pulled"]; e.InvolvedObject.Name != "p" || e.Source != (v1.EventSource{Component: "kubelet", Host: "n1"}) || e.Message != "image x is there" {
			t.Errorf("%+v", e)
		}
		l, err := vb.List(ctx, admin, client.Events.At("default", ""), &internalversion.ListOptions{})
		if err != nil || len(l.Items) != 2 {
			t.Errorf("%d events, %v", len(l.Items), err)
		}
		w.Close()
		cancel()
		synctest.Wait()
	})
}
