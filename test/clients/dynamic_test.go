package clients

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/retry"
)

// A program that knows no types: it finds each kind by discovery, writes and watches objects as maps, and scales what can be scaled.
func TestDynamicClient(t *testing.T) {
	s := start(t)
	ctx := within(t, 2*time.Minute)
	dc, err := discovery.NewDiscoveryClientForConfig(s.config())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(dc))
	client, err := dynamic.NewForConfig(s.config())
	if err != nil {
		t.Fatal(err)
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil {
		t.Fatal(err)
	}
	if want := (schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}); mapping.Resource != want {
		t.Fatalf("a Deployment is found at %v, want %v", mapping.Resource, want)
	}
	deployments := client.Resource(mapping.Resource).Namespace("default")
	watch, err := deployments.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	labels := map[string]any{"app": "web"}
	_, err = deployments.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "nowhere"}}},
			},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	event := <-watch.ResultChan()
	made, ok := event.Object.(*unstructured.Unstructured)
	if !ok || made.GetName() != "web" {
		t.Fatalf("the watch told %v", event)
	}
	if surge, _, _ := unstructured.NestedString(made.Object, "spec", "strategy", "rollingUpdate", "maxSurge"); surge != "25%" {
		t.Errorf("maxSurge is %q, want the default", surge)
	}

	scales, err := scale.NewForConfig(s.config(), mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(dc))
	if err != nil {
		t.Fatal(err)
	}
	at := scales.Scales("default")
	group := mapping.Resource.GroupResource()
	// The Deployment controller writes its annotation and status meanwhile.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		had, err := at.Get(ctx, group, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if had.Spec.Replicas != 1 || had.Status.Selector != "app=web" {
			t.Errorf("scale is %+v, %+v", had.Spec, had.Status)
		}
		had.Spec.Replicas = 3
		_, err = at.Update(ctx, group, had, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := at.Patch(ctx, mapping.Resource, "web", types.MergePatchType, []byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	now, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(now.Object, "spec", "replicas"); n != 4 {
		t.Errorf("replicas are %d, want 4", n)
	}
}
