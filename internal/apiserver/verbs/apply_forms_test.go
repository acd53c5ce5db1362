package verbs

import (
	"fmt"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
)

// applies is an apply of data as manager.
func (w *world) applies(ref client.Ref, manager string, force bool, data string) (runtime.Object, bool, error) {
	p := Patch{Type: types.ApplyYAMLPatchType, Data: []byte(data), Force: force, Validation: metav1.FieldValidationStrict}
	return w.Patch(w.ctx, admin, ref, p, Options{Manager: manager})
}

// An event is applied through the version in which it is not stored; who wrote it through the other one is told of by that one's names.
func TestApplyEvent(t *testing.T) {
	w := newWorld(t)
	ref := client.Resource{Group: "events.k8s.io", Resource: "events"}.At("default", "e")
	const text = `
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: e, namespace: default, labels: {a: %s}}
eventTime: "2026-01-01T00:00:00.000000Z"
reportingController: example.com/c
reportingInstance: c-1
action: Act
reason: Because
type: Normal
note: all is well
regarding: {kind: Pod, name: p, namespace: default}
`
	out, created, err := w.applies(ref, "one", false, fmt.Sprintf(text, "b"))
	if err != nil || !created {
		t.Fatalf("created %v: %v", created, err)
	}
	ev := out.(*v1.Event)
	if ev.Message != "all is well" || ev.InvolvedObject.Name != "p" || ev.UID == "" {
		t.Errorf("%+v", ev)
	}
	entries := ev.ManagedFields
	if len(entries) != 1 || entries[0].APIVersion != "events.k8s.io/v1" || entries[0].Operation != "Apply" || !strings.Contains(string(entries[0].FieldsV1.GetRawBytes()), `"f:note":{}`) {
		t.Fatalf("owners %v", owned(ev))
	}
	again, created, err := w.applies(ref, "one", false, fmt.Sprintf(text, "b"))
	if err != nil || created || accessor(again).GetResourceVersion() != ev.ResourceVersion {
		t.Errorf("the same again: created %v, at %s after %s, %v", created, accessor(again).GetResourceVersion(), ev.ResourceVersion, err)
	}

	// The core group's clients own what they change under core's names; the label is a conflict in both versions.
	core := client.Events.At("default", "e")
	if out, _, err = w.Patch(w.ctx, admin, core, Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"a":"hand"}}}`)}, Options{Manager: "hand"}); err != nil {
		t.Fatal(err)
	}
	if got := owned(out); len(got) != 2 || got[1] != `hand/Update {"f:metadata":{"f:labels":{"f:a":{}}}}` || accessor(out).GetManagedFields()[1].APIVersion != "v1" {
		t.Errorf("owners %v", got)
	}
	if _, _, err = w.applies(ref, "one", false, fmt.Sprintf(text, "c")); !apierrors.IsConflict(err) || err.Error() != `Apply failed with 1 conflict: conflict with "hand" using v1: .metadata.labels.a` {
		t.Errorf("conflict: %v", err)
	}
	if out, _, err = w.applies(ref, "one", true, fmt.Sprintf(text, "c")); err != nil || accessor(out).GetLabels()["a"] != "c" || len(owned(out)) != 1 {
		t.Errorf("by force: %v, %v", owned(out), err)
	}
	// An apply through core finds what was applied through the other version, by its name there.
	if _, _, err = w.applies(core, "two", false, "{apiVersion: v1, kind: Event, metadata: {name: e}, message: other}"); err == nil ||
		err.Error() != `Apply failed with 1 conflict: conflict with "one": .note` {
		t.Errorf("apply through core: %v", err)
	}
	if _, _, err = w.applies(ref, "one", false, "{apiVersion: v1, kind: Event, metadata: {name: e}}"); !apierrors.IsBadRequest(err) {
		t.Errorf("the other version's object: %v", err)
	}
}

// A scale is applied: its manager owns the number of replicas, in the whole object too.
func TestApplyScale(t *testing.T) {
	w := newWorld(t)
	one := int32(1)
	w.create(&v1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rc"},
		Spec: v1.ReplicationControllerSpec{Replicas: &one, Selector: map[string]string{"a": "b"}, Template: &v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
		}},
	})
	rc := client.Resource{Resource: "replicationcontrollers"}.At("default", "rc")
	scale := func(manager string, force bool, rest string) (*autoscalingv1.Scale, error) {
		out, created, err := w.applies(rc.Sub("scale"), manager, force, "apiVersion: autoscaling/v1\nkind: Scale\n"+rest)
		if err != nil {
			return nil, err
		}
		if created {
			t.Error("a scale was created")
		}
		return out.(*autoscalingv1.Scale), nil
	}
	const want3 = "metadata: {name: rc}\nspec: {replicas: 3}"
	if _, err := scale("hpa", false, want3); !apierrors.IsConflict(err) || !strings.HasSuffix(err.Error(), `using autoscaling/v1: .spec.replicas`) {
		t.Errorf("against its creator: %v", err)
	}
	s, err := scale("hpa", true, want3)
	if err != nil || s.Spec.Replicas != 3 || s.ManagedFields != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	whole := w.get(rc)
	if got := owned(whole); len(got) != 2 || got[0] != `hpa/Apply/scale {"f:spec":{"f:replicas":{}}}` || strings.Contains(got[1], "f:replicas") {
		t.Errorf("owners\n%s", strings.Join(got, "\n"))
	}
	if e := accessor(whole).GetManagedFields()[0]; e.APIVersion != "v1" {
		t.Errorf("owned in %s", e.APIVersion)
	}
	if s, err = scale("hpa", false, want3); err != nil || s.ResourceVersion != accessor(whole).GetResourceVersion() {
		t.Errorf("the same again: %+v, %v", s, err)
	}
	// Whoever applies the whole object meets the scaler.
	if _, _, err = w.applies(rc, "team", false, "{apiVersion: v1, kind: ReplicationController, metadata: {name: rc}, spec: {replicas: 9}}"); !apierrors.IsConflict(err) ||
		err.Error() != `Apply failed with 1 conflict: conflict with "hpa" with subresource "scale": .spec.replicas` {
		t.Errorf("the whole: %v", err)
	}
	for name, text := range map[string]string{
		"another name":     "metadata: {name: other}\nspec: {replicas: 3}",
		"another revision": "metadata: {name: rc, resourceVersion: \"1\"}\nspec: {replicas: 4}",
		"negative":         "metadata: {name: rc}\nspec: {replicas: -1}",
		"a typo":           "metadata: {name: rc}\nspec: {replica: 3}",
		"managed already":  "metadata: {name: rc, managedFields: []}\nspec: {replicas: 3}",
	} {
		if _, err := scale("hpa", false, text); err == nil {
			t.Errorf("%s is applied", name)
		}
	}
	if _, _, err := w.applies(rc.Sub("scale"), "hpa", false, "apiVersion: v1\nkind: Scale\nmetadata: {name: rc}\nspec: {replicas: 3}"); !apierrors.IsBadRequest(err) {
		t.Errorf("a scale of another version: %v", err)
	}
	gone := client.Resource{Resource: "replicationcontrollers"}.At("default", "none").Sub("scale")
	if _, _, err := w.applies(gone, "hpa", false, "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: none}\nspec: {replicas: 3}"); !apierrors.IsNotFound(err) {
		t.Errorf("of nothing: %v", err)
	}
}
