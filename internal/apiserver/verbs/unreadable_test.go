package verbs

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/store"
)

// What nobody can read is in nobody's way for ever: who may, takes it away.
func TestDeleteUnreadable(t *testing.T) {
	w := newWorld(t)
	ref := client.ConfigMaps.At("default", "broken")
	key := w.Kind(ref.Resource).Key(ref.Namespace, ref.Name)
	if _, err := w.store.Txn(w.ctx, nil, []store.Op{{Key: key, Value: []byte("k8s\x00\xff")}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{}, Options{}); !apierrors.IsInternalError(err) {
		t.Fatalf("as others are deleted: %v", err)
	}
	unread := &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}
	for _, dry := range []bool{true, false} {
		if out, deleted, err := w.Delete(w.ctx, admin, ref, unread, Options{DryRun: dry}); out != nil || !deleted || err != nil {
			t.Fatalf("%v, %v, %v", out, deleted, err)
		}
		if _, err := w.store.Get(w.ctx, key); isNotFound(err) == dry {
			t.Fatalf("a dry run: %v, %v", dry, err)
		}
	}
	if _, err := w.Create(w.ctx, admin, ref, configMap("broken"), Options{}); err != nil {
		t.Fatal(err)
	}
}

// A list or a watch that would leave out what cannot be read says so, and which objects those are; what does not reach as far as them is served.
func TestUnreadableIsNotLeftOut(t *testing.T) {
	w := newWorld(t)
	for _, resource := range []client.Resource{client.ConfigMaps, client.Events} {
		in := resource.At("default", "")
		r := in.Resource
		key := func(name string) string { return w.Kind(r).Key("default", name) }
		for _, name := range []string{"b", "d"} {
			if _, err := w.store.Txn(w.ctx, nil, []store.Op{{Key: key(name), Value: []byte("k8s\x00\xff")}}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.List(w.ctx, admin, in, &internalversion.ListOptions{})
		if !apierrors.IsStoreReadError(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) ||
			!strings.HasPrefix(err.Error(), "failed to read one or more "+r.String()+" from the storage: StorageError: corrupt object, Code: 7, Key: "+key("b")+",") ||
			!strings.HasSuffix(err.Error(), " (and 1 more)") {
			t.Errorf("%s: %v", r, err)
		}
		if _, err := w.Get(w.ctx, admin, resource.At("default", "b"), ""); err == nil ||
			!strings.HasPrefix(err.Error(), "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /"+r.Resource+"/default/b, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=") {
			t.Errorf("one of %s: %v", r, err)
		}
		if _, err := w.Watch(w.ctx, admin, in, &internalversion.ListOptions{}); !apierrors.IsStoreReadError(err) {
			t.Errorf("a watch of %s: %v", r, err)
		}
		if _, err := w.List(w.ctx, admin, resource.At("other", ""), &internalversion.ListOptions{}); err != nil {
			t.Errorf("%s of another namespace: %v", r, err)
		}
		if _, err := w.DeleteCollection(w.ctx, admin, in, &metav1.DeleteOptions{}, &internalversion.ListOptions{}, Options{}); !apierrors.IsStoreReadError(err) {
			t.Errorf("all %s deleted: %v", r, err)
		}
	}
	for _, name := range []string{"a", "c", "e"} {
		if _, err := w.Create(w.ctx, admin, client.ConfigMaps.At("default", name), configMap(name), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	in := client.ConfigMaps.At("default", "")
	page, err := w.List(w.ctx, admin, in, &internalversion.ListOptions{Limit: 1})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("the page before it: %v, %v", page, err)
	}
	if _, err = w.List(w.ctx, admin, in, &internalversion.ListOptions{Limit: 1, Continue: page.Continue}); !apierrors.IsStoreReadError(err) || strings.Contains(err.Error(), "more)") {
		t.Errorf("the page with it: %v", err)
	}
	one := &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "a")}
	if _, err := w.List(w.ctx, admin, in, one); err != nil {
		t.Errorf("another one alone: %v", err)
	}
	for _, name := range []string{"b", "d"} {
		if _, _, err := w.Delete(w.ctx, admin, client.ConfigMaps.At("default", name), &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := w.List(w.ctx, admin, in, &internalversion.ListOptions{}); err != nil || len(l.Items) != 3 {
		t.Errorf("when they have gone: %v, %v", l, err)
	}
}
