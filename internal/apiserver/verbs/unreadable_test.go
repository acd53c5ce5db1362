package verbs

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
