package volumebinder

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// nothing is a client for whom all has gone.
type nothing struct{ client.Client }

func (nothing) Mutate(_ context.Context, ref client.Ref, _ func(runtime.Object) (bool, error)) (runtime.Object, error) {
	return nil, apierrors.NewNotFound(ref.Resource, ref.Name)
}

// slowly is a claim that waits for another's program.
func slowly(uid types.UID) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: uid}}
	c.Spec.StorageClassName, c.Spec.AccessModes = new("slow"), []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}

// Of what has gone no operation is under way, when another of its name is there, and when it went while it was looked at.
func TestNothingIsUnderWayOfWhatHasGone(t *testing.T) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/x", VolumeBindingMode: new(storagev1.VolumeBindingImmediate)}
	v, s := viewtest.New(t, class, slowly("old"))
	k := &controller{Config{View: v, Client: nothing{}, Events: record.NewFakeRecorder(10)}, newOperations()}
	underWay := func(after string, want int) {
		t.Helper()
		if n := len(k.ops.began); n != want {
			t.Errorf("%d are under way %s, want %d", n, after, want)
		}
	}
	key, before := claimKey("default", "a"), v.Snapshot()
	look := func() {
		t.Helper()
		if _, err := k.reconcile(t.Context(), before, key); err != nil {
			t.Fatal(err)
		}
	}
	look()
	underWay("when a volume is asked for", 1)
	viewtest.Put(t, s, slowly("new"))
	now, err := v.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.ofClaim(view.Change{Old: before.Get(claims, "default", "a"), New: now.Get(claims, "default", "a")})
	underWay("when another claim has the name", 0)
	look()
	underWay("after a look at what has gone", 0)
}
