package registry_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"podo.dev/podo/internal/registry"
)

// Every row is whole, found by both names, and of types that the codecs know.
func TestTable(t *testing.T) {
	dirs := map[string]bool{}
	for _, k := range registry.All() {
		if shown := k.Served != nil && k.Stored().GroupResource() == k.GroupResource(); !shown && registry.Lookup(k.GroupResource()) != k || registry.ByGVK(k.GVK) != k {
			t.Errorf("%s is not found", k.GVK)
		}
		if k.Unstored && !k.Computed {
			if !slices.Equal(k.Verbs, []string{"create"}) || k.Dir != "" {
				t.Errorf("%s is not stored, and can be more than created", k.GVK)
			}
			continue
		}
		for _, obj := range []struct {
			kind string
			is   func() []schema.GroupVersionKind
		}{
			{k.GVK.Kind, func() []schema.GroupVersionKind { out, _, _ := scheme.Scheme.ObjectKinds(k.NewServed()); return out }},
			{k.GVK.Kind + "List", func() []schema.GroupVersionKind {
				out, _, _ := scheme.Scheme.ObjectKinds(k.NewServedList())
				return out
			}},
		} {
			if want := k.GroupVersion().WithKind(obj.kind); !slices.Contains(obj.is(), want) {
				t.Errorf("%s makes %v", want, obj.is())
			}
		}
		if k.Computed {
			continue
		}
		if k.Served != nil {
			if k.Stored().Served != nil || k.Dir != k.Stored().Dir {
				t.Errorf("%s shows what is stored elsewhere", k.GVK)
			}
			continue
		}
		if dirs[k.Dir] || k.Dir == "" {
			t.Errorf("%s is stored in %q, as another kind", k.GVK, k.Dir)
		}
		dirs[k.Dir] = true
		if !slices.IsSorted(k.Verbs) || k.Singular == "" || k.Default == nil || k.PrepareForCreate == nil || k.Selectable == nil || k.Row == nil {
			t.Errorf("%s lacks something: %+v", k.GVK, k)
		}
		if key := k.Key("ns", "x"); k.Namespaced && key != k.Prefix()+"ns/x" || !k.Namespaced && key != k.Prefix()+"x" {
			t.Errorf("%s is stored at %s", k.GVK, key)
		}
		if !slices.Contains(registry.GroupVersions(), k.GroupVersion()) {
			t.Errorf("%s is in no group version", k.GVK)
		}
	}
	if k := registry.Lookup(schema.GroupResource{Resource: "nodes"}); k.Dir != "minions" {
		t.Errorf("nodes are stored in %s", k.Dir)
	}
	if registry.Lookup(schema.GroupResource{Group: "x", Resource: "pods"}) != nil || registry.ByGVK(schema.GroupVersionKind{Kind: "Pod"}) != nil {
		t.Error("found what is not there")
	}
}
