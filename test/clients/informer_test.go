package clients

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// A shared informer, its reflector streaming its list, keeps up with writers and comes back after a kill -9 of the server, and so
// does one that knows metadata only.
func TestInformers(t *testing.T) {
	s := start(t)
	ctx := within(t, 3*time.Minute)
	config := s.config()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	f := informers.NewSharedInformerFactoryWithOptions(cs, 0, informers.WithNamespace("default"))
	objects := f.Core().V1().ConfigMaps()
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() }, DeleteFunc: func(any) { poke() }}
	if _, err := objects.Informer().AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	mc, err := metadata.NewForConfig(s.config())
	if err != nil {
		t.Fatal(err)
	}
	mf := metadatainformer.NewFilteredSharedInformerFactory(mc, 0, "default", nil)
	metas := mf.ForResource(v1.SchemeGroupVersion.WithResource("configmaps"))
	if _, err := metas.Informer().AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	f.Start(ctx.Done())
	mf.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	mf.WaitForCacheSync(ctx.Done())

	write(t, ctx, cs, 0)
	s.killed()
	write(t, ctx, cs, 1)

	list, err := cs.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for i := range list.Items {
		want[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	for {
		got, gotMeta := map[string]string{}, map[string]string{}
		all, err := objects.Lister().List(labels.Everything())
		if err != nil {
			t.Fatal(err)
		}
		for _, cm := range all {
			got[cm.Name] = cm.ResourceVersion
		}
		for _, obj := range metas.Informer().GetStore().List() {
			m := obj.(*metav1.PartialObjectMetadata)
			gotMeta[m.Name] = m.ResourceVersion
		}
		if maps.Equal(got, want) && maps.Equal(gotMeta, want) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the informers have %d and %d objects, the server has %d", len(got), len(gotMeta), len(want))
		}
	}
}

// write creates, patches and deletes side by side.
func write(t *testing.T, ctx context.Context, cs kubernetes.Interface, round int) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 40 {
				maps := cs.CoreV1().ConfigMaps("default")
				name := fmt.Sprintf("r%d-%d-%d", round, w, i)
				if _, err := maps.Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
				if _, err := maps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}
