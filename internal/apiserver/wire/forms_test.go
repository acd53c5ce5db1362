package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"podo.dev/podo/internal/pki"
)

// One stored event, in two versions: what is written in one is read, listed, watched and patched in the other.
func TestEventsAreOneKindInTwoVersions(t *testing.T) {
	w := newWorld(t)
	for _, media := range []string{jsonType, protoType} {
		t.Run(media, func(t *testing.T) {
			cfg := w.config(pki.Admin)
			cfg.ContentType, cfg.AcceptContentTypes = media, media
			c := kubernetes.NewForConfigOrDie(cfg)
			newer, older := c.EventsV1().Events("default"), c.CoreV1().Events("default")
			name := map[string]string{jsonType: "a", protoType: "b"}[media]
			list, err := newer.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			watch, err := newer.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			ev := &eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: name}, EventTime: metav1.NewMicroTime(time.Unix(1, 0)), Regarding: v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"},
				Type: "Normal", Reason: "Why", Note: "what", ReportingController: "a.io/b", ReportingInstance: "c", Action: "d",
			}
			made, err := newer.Create(t.Context(), ev, metav1.CreateOptions{})
			if err != nil || made.Note != "what" || made.Regarding.Name != "p" {
				t.Fatal(made, err)
			}
			seen := (<-watch.ResultChan()).Object.(*eventsv1.Event)
			if seen.Note != "what" || seen.ResourceVersion != made.ResourceVersion {
				t.Errorf("watched %+v", seen)
			}
			old, err := older.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || old.Message != "what" || old.InvolvedObject.Name != "p" || old.ReportingController != "a.io/b" {
				t.Fatal(old, err)
			}
			l, err := newer.List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=p,metadata.name=" + name})
			if err != nil || len(l.Items) != 1 || l.Items[0].Note != "what" {
				t.Fatal(l, err)
			}
			patched, err := newer.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(`{"series":{"count":2,"lastObservedTime":"2024-01-01T00:00:00.000000Z"}}`), metav1.PatchOptions{})
			if err != nil || patched.Series == nil || patched.Series.Count != 2 {
				t.Fatal(patched, err)
			}
			if _, err := newer.Patch(t.Context(), name, types.MergePatchType, []byte(`{"note":"else"}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
				t.Errorf("the newer version lets a note change: %v", err)
			}
			if _, err := older.Patch(t.Context(), name, types.MergePatchType, []byte(`{"message":"else"}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			if got, err := newer.Get(t.Context(), name, metav1.GetOptions{}); err != nil || got.Note != "else" {
				t.Error(got, err)
			}
			if err := newer.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A part with a type of its own is read from the object and written into it, by the object's rules.
func TestScale(t *testing.T) {
	w := newWorld(t)
	c := kubernetes.NewForConfigOrDie(w.config(pki.Admin)).CoreV1().ReplicationControllers("default")
	rc := &v1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	rc.Spec.Template = &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a", Image: "b"}}}}
	if _, err := c.Create(t.Context(), rc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := c.GetScale(t.Context(), "web", metav1.GetOptions{})
	if err != nil || s.Spec.Replicas != 1 || s.Status.Selector != "a=b" || s.ResourceVersion == "" {
		t.Fatal(s, err)
	}
	stale := s.DeepCopy()
	s.Spec.Replicas = 3
	if s, err = c.UpdateScale(t.Context(), "web", s, metav1.UpdateOptions{FieldManager: "me"}); err != nil || s.Spec.Replicas != 3 {
		t.Fatal(s, err)
	}
	if _, err := c.UpdateScale(t.Context(), "web", stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale scale: %v", err)
	}
	if _, err := c.UpdateScale(t.Context(), "web", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: autoscalingv1.ScaleSpec{Replicas: -1}}, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a negative scale: %v", err)
	}
	if _, err := c.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Error(err)
	}
	got, err := c.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || *got.Spec.Replicas != 5 || got.Generation != 3 {
		t.Fatal(got, err)
	}
	raw, _ := json.Marshal(got.ManagedFields)
	for _, e := range got.ManagedFields {
		if e.Manager == "me" && e.Subresource != "scale" {
			t.Errorf("who scaled owns %s", raw)
		}
	}
}

// What has been read of a header is what reading it again says; headers that clients make up do not fill the memory.
func TestHeadersThatAreKnown(t *testing.T) {
	var known accepts
	const tables = "application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml"
	for range 2 {
		if f := known.choice(tables, all); f.as != table || f.media != jsonType {
			t.Errorf("with tables: %v", f)
		}
		if f := known.choice(tables, noTables); f.as != whole || f.media != yamlType {
			t.Errorf("without: %v", f)
		}
		if f := known.choice("image/png", all); f.media != "" {
			t.Errorf("a picture: %v", f)
		}
	}
	for i := range 2 * maxChoices {
		known.choice(fmt.Sprintf("application/json;q=0.%d", i+1), all)
	}
	known.choice("application/json;x="+strings.Repeat("x", maxAccept), all)
	n := 0
	known.known.Range(func(w, _ any) bool {
		if len(w.(wish).accept) > maxAccept {
			t.Error("a long header is kept")
		}
		n++
		return true
	})
	if n != maxChoices {
		t.Errorf("%d headers are kept", n)
	}
}
