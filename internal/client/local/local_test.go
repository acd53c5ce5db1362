package local

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
)

// What the port promises of objects: those handed in are not kept or changed, those handed out may be changed.
func TestOwnershipOfObjects(t *testing.T) {
	vw, s := viewtest.New(t, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}})
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, c := t.Context(), Admin(vb)
	ref := client.ConfigMaps.At("default", "a")
	in := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "1"}}
	scribble := func(obj runtime.Object) { obj.(*v1.ConfigMap).Data["k"] = "scribble" }
	out, err := c.Create(ctx, ref, in)
	if err != nil {
		t.Fatal(err)
	}
	if in.UID != "" || in.Namespace != "" {
		t.Errorf("Create changed what it was given: %+v", in)
	}
	scribble(out)
	read := func() *v1.ConfigMap {
		t.Helper()
		obj, err := c.Get(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*v1.ConfigMap)
	}
	mine := read().DeepCopy()
	if mine.Data["k"] != "1" {
		t.Errorf("read %q", mine.Data["k"])
	}
	if out, err = c.Update(ctx, ref, mine); err != nil { // nothing changes: the answer is still the caller's own
		t.Fatal(err)
	}
	scribble(out)
	calls := 0
	if out, err = c.Mutate(ctx, ref, func(obj runtime.Object) (bool, error) {
		calls++
		obj.(*v1.ConfigMap).Data["k"] = "scribble"
		return false, nil
	}); err != nil || calls == 0 {
		t.Fatal(calls, err)
	}
	scribble(out)
	if got := read().Data["k"]; got != "1" {
		t.Errorf("a Mutate that wrote nothing left %q", got)
	}
	if _, err = c.Mutate(ctx, ref, func(obj runtime.Object) (bool, error) {
		obj.(*v1.ConfigMap).Data["k"] = "2"
		return true, nil
	}); err != nil || read().Data["k"] != "2" {
		t.Errorf("mutate: %v, %q", err, read().Data["k"])
	}
	if err := c.Delete(ctx, ref, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.Get(ctx, ref); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := Scheduler(vb).Create(ctx, ref, in); !apierrors.IsForbidden(err) {
		t.Errorf("the scheduler created a ConfigMap: %v", err)
	}
}
