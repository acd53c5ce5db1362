package verbs

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		{client.Pods, "status.podIPs", ""},
		{client.Resource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}, "metadata.namespace", "field label not supported: metadata.namespace"},
		{client.Pods, "spec.none", "field label not supported: spec.none"},
		{client.Nodes, "spec.unschedulable", ""},
		{client.Nodes, "metadata.namespace", "field label not supported: metadata.namespace"},
		{client.Namespaces, "name", "field label not supported: name"},
		{client.Leases, "metadata.namespace", ""},
		{client.Resource{Group: "batch", Resource: "jobs"}, "status.successful", ""},
		{client.Resource{Group: "batch", Resource: "jobs"}, "spec.none", `field label "spec.none" not supported for Job`},
		{client.Resource{Resource: "replicationcontrollers"}, "status.replicas", ""},
		{client.Resource{Group: "apps", Resource: "replicasets"}, "status.replicas", `"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{client.Resource{Resource: "persistentvolumes"}, "name", `"name" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{client.Resource{Resource: "persistentvolumeclaims"}, "name", `"name" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{client.Leases, "spec.none", `"spec.none" is not a known field selector: only "metadata.name", "metadata.namespace"`},
	} {
		_, err := w.List(w.ctx, admin, c.of.At("", ""), &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector(c.field, "x")})
		if err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("%v by %s: %v", c.of, c.field, err)
		}
	}
}

// Whether there is an object to replace is asked before anything of the one that is sent.
func TestNoNumberAsTheRevisionOfWhatIsNotThere(t *testing.T) {
	w := newWorld(t)
	none, there := configMap("none"), configMap("there")
	w.create(there.DeepCopy())
	none.ResourceVersion, there.ResourceVersion = "-1", "-1"
	if _, _, err := w.Update(w.ctx, admin, client.ConfigMaps.At("default", "none"), none, Options{}); !apierrors.IsNotFound(err) {
		t.Errorf("not there: %v", err)
	}
	const unread = `strconv.ParseUint: parsing "-1": invalid syntax`
	if _, _, err := w.Update(w.ctx, admin, client.ConfigMaps.At("default", "there"), there, Options{}); err == nil || err.Error() != unread {
		t.Errorf("there: %v", err)
	}
}

// Nothing is told as of a revision that is still to come. What upstream's server would ask its store about is refused at once and for good.
func TestRevisionsToCome(t *testing.T) {
	w := newWorld(t)
	w.create(configMap("c"))
	const future = "999999999"
	exact := &internalversion.ListOptions{ResourceVersion: future, ResourceVersionMatch: "Exact", FieldSelector: fields.OneTermEqualSelector("metadata.name", "c")}
	for name, ask := range map[string]func() error{
		"list": func() error {
			_, err := w.List(w.ctx, admin, client.Events.At("default", ""), &internalversion.ListOptions{ResourceVersion: future})
			return err
		},
		"page": func() error {
			_, err := w.List(w.ctx, admin, client.Events.At("default", ""), &internalversion.ListOptions{ResourceVersion: future, Limit: 1})
			return err
		},
		"get":             func() error { _, err := w.Get(w.ctx, admin, client.Events.At("default", "none"), future); return err },
		"one by its name": func() error { _, err := w.List(w.ctx, admin, client.ConfigMaps.At("default", ""), exact); return err },
	} {
		err := ask()
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != 504 || status.Status().Details.RetryAfterSeconds != 0 ||
			!strings.HasPrefix(err.Error(), "Timeout: Too large resource version: 999999999, current: ") || strings.HasSuffix(err.Error(), " 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is wrong with an Event is said of the one kind that it is, by whichever of its names it is served.
func TestEventsAreRefusedByOneName(t *testing.T) {
	w := newWorld(t)
	ref := client.Resource{Group: "events.k8s.io", Resource: "events"}.At("default", "")
	event := &v1.Event{}
	event.Name, event.Namespace, event.InvolvedObject.Namespace = "e", "default", "default"
	if _, err := w.Create(w.ctx, admin, ref, event, Options{}); err == nil || !strings.HasPrefix(err.Error(), `Event "e" is invalid: `) {
		t.Error(err)
	}
}
