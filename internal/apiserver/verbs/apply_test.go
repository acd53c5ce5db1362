package verbs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/store"
)

// applier applies to one config map as several managers.
type applier struct {
	*world
	ref client.Ref
}

func (a *applier) apply(manager string, force bool, data string) (*v1.ConfigMap, bool, error) {
	text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n%s", a.ref.Name, data)
	out, created, err := a.Patch(a.ctx, admin, a.ref, Patch{Type: types.ApplyYAMLPatchType, Data: []byte(text), Force: force}, Options{Manager: manager})
	if err != nil {
		return nil, false, err
	}
	return out.(*v1.ConfigMap), created, nil
}

func (a *applier) must(manager string, force bool, data string) *v1.ConfigMap {
	a.t.Helper()
	out, _, err := a.apply(manager, force, data)
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

// owned shows who owns what: "manager/operation fields".
func owned(obj runtime.Object) []string {
	var out []string
	for _, e := range accessor(obj).GetManagedFields() {
		sub := ""
		if e.Subresource != "" {
			sub = "/" + e.Subresource
		}
		out = append(out, fmt.Sprintf("%s/%s%s %s", e.Manager, e.Operation, sub, e.FieldsV1.GetRawBytes()))
	}
	return out
}

func wantOwned(t *testing.T, obj runtime.Object, want ...string) {
	t.Helper()
	if got := owned(obj); !slices.Equal(got, want) {
		t.Errorf("owners\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Two teams apply to one object; a third writes to it by hand.
func TestApply(t *testing.T) {
	w := newWorld(t)
	a := &applier{w, client.ConfigMaps.At("default", "c")}
	cm, created, err := a.apply("one", false, `data: {a: "1", b: "1"}`)
	if err != nil || !created || cm.Data["a"] != "1" || cm.UID == "" {
		t.Fatalf("created %v, %+v, %v", created, cm, err)
	}
	wantOwned(t, cm, `one/Apply {"f:data":{"f:a":{},"f:b":{}}}`)
	if at := cm.ManagedFields[0].Time; !at.Time.Equal(w.now) {
		t.Errorf("managed at %v", at)
	}

	// The same again writes nothing.
	w.now = w.now.Add(time.Hour)
	if again := a.must("one", false, `data: {a: "1", b: "1"}`); again.ResourceVersion != cm.ResourceVersion {
		t.Errorf("a second apply wrote %s over %s", again.ResourceVersion, cm.ResourceVersion)
	}

	// Another manager may share a value, and may not change it.
	a.must("two", false, `data: {a: "1", c: "2"}`)
	_, _, err = a.apply("two", false, `data: {a: "2", c: "2"}`)
	if !apierrors.IsConflict(err) || err.Error() != `Apply failed with 1 conflict: conflict with "one": .data.a` {
		t.Errorf("conflict: %v", err)
	}
	var st apierrors.APIStatus
	if errors.As(err, &st) {
		if c := st.Status().Details.Causes; len(c) != 1 || c[0].Type != metav1.CauseTypeFieldManagerConflict || c[0].Field != ".data.a" || c[0].Message != `conflict with "one"` {
			t.Errorf("causes %+v", c)
		}
	}
	cm = a.must("two", true, `data: {a: "2", c: "2"}`)
	wantOwned(t, cm, `one/Apply {"f:data":{"f:b":{}}}`, `two/Apply {"f:data":{"f:a":{},"f:c":{}}}`)

	// What a manager applies no more goes, unless another owns it too.
	if cm = a.must("two", false, `data: {a: "2"}`); cm.Data["c"] != "" || cm.Data["b"] != "1" || cm.Data["a"] != "2" {
		t.Errorf("pruned to %v", cm.Data)
	}

	// Who updates takes what he changes.
	byHand := cm.DeepCopy()
	byHand.Data["b"], byHand.Labels = "hand", map[string]string{"l": "x"}
	out, _, err := w.Update(w.ctx, admin, a.ref, byHand, Options{Manager: "hand"})
	if err != nil {
		t.Fatal(err)
	}
	wantOwned(t, out, `two/Apply {"f:data":{"f:a":{}}}`, `hand/Update {"f:data":{"f:b":{}},"f:metadata":{"f:labels":{".":{},"f:l":{}}}}`)
	_, _, err = a.apply("two", false, "data: {b: two}\nimmutable: true")
	want := `Apply failed with 1 conflict: conflict with "hand" using v1: .data.b`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}

	// An empty list of managers forgets them all.
	reset := out.DeepCopyObject().(*v1.ConfigMap)
	reset.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	if out, _, err = w.Update(w.ctx, admin, a.ref, reset, Options{Manager: "hand"}); err != nil || len(owned(out)) != 0 {
		t.Errorf("reset: %v, %v", owned(out), err)
	}
	cm = a.must("one", true, `data: {z: "1"}`)
	if got := owned(cm); len(got) != 2 || !strings.HasPrefix(got[1], "before-first-apply/Update") {
		t.Errorf("after a reset: %v", got)
	}
}

func TestApplyRefused(t *testing.T) {
	w := newWorld(t)
	ref := client.ConfigMaps.At("default", "c")
	w.create(configMap("c"))
	for _, c := range []struct{ name, data, validation, want string }{
		{"kind", "apiVersion: v1\nkind: Secret\nmetadata: {name: c}", "", "invalid object type: /v1, Kind=Secret"},
		{"version", "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: c}", "", "invalid object type: /v2, Kind=ConfigMap"},
		{"yaml", "a: [", "", "error encoding patch: yaml: line 1: did not find expected node content"},
		{"name", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}", "", "the name of the object (d) does not match the name on the URL (c)"},
		{"managers", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, managedFields: []}", "", "metadata.managedFields must be nil"},
		{"field", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nnone: 1", "", "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .none: field not declared in schema"},
		{"old", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","resourceVersion":"1"}}`, "", "the object has been modified"},
		{"twice", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1","a":"2"}}`, metav1.FieldValidationStrict, `key "a" already set in map`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Patch{Type: types.ApplyYAMLPatchType, Data: []byte(c.data), Validation: c.validation}
			_, _, err := w.Patch(w.ctx, admin, ref, p, Options{Manager: "m"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	absent := client.ConfigMaps.At("default", "absent")
	p := Patch{Type: types.ApplyYAMLPatchType, Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: absent, uid: u}")}
	if _, _, err := w.Patch(w.ctx, admin, absent, p, Options{Manager: "m"}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "uid mismatch: the provided object specified uid u, and no existing object was found") {
		t.Errorf("uid: %v", err)
	}
	p.Data = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: absent}\ndata: {a: b}")
	if _, created, err := w.Patch(w.ctx, admin, absent, p, Options{Manager: "m", DryRun: true}); err != nil || !created || w.get(absent) != nil {
		t.Errorf("dry run: %v, %v", created, err)
	}
}

// Each endpoint's writer owns what it can write there, and no more.
func TestOwnersOfParts(t *testing.T) {
	w := newWorld(t)
	p := pod("p")
	p.Status.Phase = v1.PodFailed // not the creator's to say
	out, err := w.Create(w.ctx, admin, client.Pods.At("default", ""), p, Options{Manager: "kubectl-create"})
	if err != nil {
		t.Fatal(err)
	}
	spec := `kubectl-create/Update {"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":` +
		`{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},` +
		`"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`
	wantOwned(t, out, spec)

	ref := client.Pods.At("default", "p")
	if err := w.Bind(w.ctx, admin, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Target: v1.ObjectReference{Name: "n"}}, Options{Manager: "kube-scheduler"}); err != nil {
		t.Fatal(err)
	}
	wantOwned(t, w.get(ref), spec)

	status := func(change func(*v1.Pod)) *v1.Pod {
		t.Helper()
		out, err := w.Mutate(w.ctx, admin, ref.Sub("status"), func(obj runtime.Object) (bool, error) { change(obj.(*v1.Pod)); return true, nil }, Options{Manager: "kubelet"})
		if err != nil {
			t.Fatal(err)
		}
		return out.(*v1.Pod)
	}
	running := status(func(p *v1.Pod) {
		p.Status.Phase, p.Spec.Hostname = v1.PodRunning, "nobody asked"
		p.ManagedFields = nil // a subresource cannot touch them
	})
	wantOwned(t, running, spec, `kubelet/Update/status {"f:status":{"f:phase":{}}}`)

	// A writer that changes its own fields keeps them, at a new time.
	w.now = w.now.Add(time.Minute)
	failed := status(func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
	if was, is := running.ManagedFields[1].Time, failed.ManagedFields[1].Time; !is.Time.Equal(w.now) || !was.Time.Before(is.Time) {
		t.Errorf("times %v and %v", was, is)
	}
	w.now = w.now.Add(time.Minute)
	if same := status(func(*v1.Pod) {}); same.ResourceVersion != failed.ResourceVersion {
		t.Error("an update of nothing was written")
	}
}

// No more than ten updaters are told apart: the oldest share a name.
func TestManyManagers(t *testing.T) {
	w := newWorld(t)
	w.create(configMap("c"))
	ref := client.ConfigMaps.At("default", "c")
	var out runtime.Object
	for i := range 15 {
		w.now = w.now.Add(time.Minute)
		p := Patch{Type: types.MergePatchType, Data: fmt.Appendf(nil, `{"data":{"k%d":"v"}}`, i)}
		var err error
		if out, _, err = w.Patch(w.ctx, admin, ref, p, Options{Manager: fmt.Sprint("m", i)}); err != nil {
			t.Fatal(err)
		}
	}
	got := accessor(out).GetManagedFields()
	if len(got) != 10 || !slices.ContainsFunc(got, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "ancient-changes" }) {
		t.Errorf("%d managers: %v", len(got), owned(out))
	}
}

func TestOwnerReferencesOnce(t *testing.T) {
	w := newWorld(t)
	cm := configMap("c")
	o := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
	cm.OwnerReferences = []metav1.OwnerReference{o, o}
	var warned []string
	out, err := w.Create(w.ctx, admin, client.ConfigMaps.At("default", ""), cm, Options{Warn: func(s string) { warned = append(warned, s) }})
	if err != nil || len(accessor(out).GetOwnerReferences()) != 1 {
		t.Fatalf("%v, %v", accessor(out).GetOwnerReferences(), err)
	}
	if len(warned) != 1 || !strings.HasSuffix(warned[0], "duplicate UID(s) observed: u") {
		t.Errorf("warned %q", warned)
	}
}

// What the store finds too large is written without managedFields, if that helps.
func TestTooLarge(t *testing.T) {
	if err := storeError(fmt.Errorf("put: %w", store.ErrTooLarge)); !isTooLarge(err) || err.Error() != "etcdserver: request is too large" {
		t.Errorf("%v", err)
	}
}

// Who scales owns the number of replicas, as upstream has it: under the part's name.
func TestOwnersOfScale(t *testing.T) {
	w := newWorld(t)
	one := int32(1)
	rc := &v1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rc"},
		Spec: v1.ReplicationControllerSpec{Replicas: &one, Selector: map[string]string{"a": "b"}, Template: &v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
		}},
	}
	w.create(rc)
	ref := client.Resource{Resource: "replicationcontrollers"}.At("default", "rc")
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rc"}, Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	if _, _, err := w.Update(w.ctx, admin, ref.Sub("scale"), scale, Options{Manager: "scaler"}); err != nil {
		t.Fatal(err)
	}
	if got := owned(w.get(ref)); len(got) != 2 || got[0] != `scaler/Update/scale {"f:spec":{"f:replicas":{}}}` || strings.Contains(got[1], "f:replicas") {
		t.Errorf("owners\n%s", strings.Join(got, "\n"))
	}
}
