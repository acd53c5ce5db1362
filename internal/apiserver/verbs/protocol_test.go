package verbs

import (
	"encoding/base64"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"podo.dev/podo/internal/client"
)

func TestContinueTokens(t *testing.T) {
	for text, want := range map[string]string{
		`{"v":"meta.k8s.io/v2","rv":1,"start":"a/b"}`:       "invalid continue token: continue key is not valid: server does not recognize this encoded version meta.k8s.io/v2",
		`{"v":"meta.k8s.io/v1","rv":0,"start":"a/b"}`:       "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
		`{"v":"meta.k8s.io/v1","rv":1,"start":""}`:          "invalid continue token: continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
		`{"v":"meta.k8s.io/v1","rv":1,"start":"../b"}`:      "invalid continue token: continue key is not valid: ../b",
		`{"v":"meta.k8s.io/v1","rv":1,"start":"a/../../b"}`: "invalid continue token: continue key is not valid: a/../../b",
		`[]`: "invalid continue token: continue key is not valid: json: cannot unmarshal array into Go value of type verbs.token",
	} {
		_, _, err := decodeContinue(base64.RawURLEncoding.EncodeToString([]byte(text)))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A watch that starts with everything says when that was all, if its client takes bookmarks.
func TestWatchesTellThatTheyHaveShownAll(t *testing.T) {
	w := newWorld(t)
	w.create(configMap("c"))
	for _, version := range []string{"", "0"} {
		s, err := w.Watch(w.ctx, admin, client.ConfigMaps.At("default", ""), &internalversion.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		events, err := s.Next(w.ctx)
		if err != nil || len(events) != 2 || events[0].Type != watch.Added || events[1].Type != watch.Bookmark ||
			accessor(events[1].Object).GetAnnotations()["k8s.io/initial-events-end"] != "true" {
			t.Errorf("resourceVersion %q: %v, %v", version, events, err)
		}
		s.Close()
	}
	no := false
	s, err := w.Watch(w.ctx, admin, client.ConfigMaps.At("default", ""), &internalversion.ListOptions{SendInitialEvents: &no, ResourceVersionMatch: "NotOlderThan"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.create(configMap("d"))
	if events, err := s.Next(w.ctx); err != nil || len(events) != 1 || accessor(events[0].Object).GetName() != "d" {
		t.Errorf("%v, %v", events, err)
	}
}

func TestSelectableFields(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		of          client.Resource
		field, want string
	}{
		{client.Pods, "spec.nodeName", ""},
		{client.Pods, "spec.none", "field label not supported: spec.none"},
		{client.Nodes, "spec.unschedulable", ""},
		{client.Nodes, "metadata.namespace", "field label not supported: metadata.namespace"},
		{client.Namespaces, "name", "field label not supported: name"},
		{client.Leases, "metadata.namespace", ""},
		{client.Leases, "spec.none", `"spec.none" is not a known field selector: only "metadata.name", "metadata.namespace"`},
	} {
		_, err := w.List(w.ctx, admin, c.of.At("", ""), &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector(c.field, "x")})
		if err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("%v by %s: %v", c.of, c.field, err)
		}
	}
}
