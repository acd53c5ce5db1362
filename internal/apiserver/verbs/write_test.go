package verbs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/timeline"
)

func TestCreate(t *testing.T) {
	w := newWorld(t)
	p := w.create(pod("a")).(*v1.Pod)
	if p.UID == "" || p.ResourceVersion == "" || !p.CreationTimestamp.Time.Equal(w.now) || p.Kind != "Pod" {
		t.Errorf("incomplete metadata: %+v", p.ObjectMeta)
	}
	if p.Spec.Priority == nil || len(p.Spec.Tolerations) != 2 {
		t.Errorf("admission did not run: %+v", p.Spec)
	}
	if got := w.records.stages(); !slices.Equal(got, []timeline.Stage{timeline.Accepted, timeline.Stored}) {
		t.Errorf("timeline %v", got)
	}
	refused := func(obj runtime.Object, ref client.Ref, is func(error) bool, text string) {
		t.Helper()
		_, err := w.Create(w.ctx, admin, ref, obj, Options{})
		if err == nil || !is(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
	refused(pod("a"), client.Pods.At("default", ""), apierrors.IsAlreadyExists, `pods "a" already exists`)
	missing := pod("b")
	missing.Namespace = "nowhere"
	refused(missing, client.Pods.At("nowhere", ""), apierrors.IsNotFound, `namespaces "nowhere" not found`)
	refused(pod("b"), client.Pods.At("other", ""), apierrors.IsBadRequest, "the namespace of the provided object does not match the namespace sent on the request")
	versioned := configMap("v")
	versioned.ResourceVersion = "5"
	refused(versioned, client.ConfigMaps.At("default", ""), func(err error) bool { return errors.Is(err, errVersioned) }, "resourceVersion should not be set on objects to be created")
	refused(configMap("Not_A_Name"), client.ConfigMaps.At("default", ""), apierrors.IsInvalid, "metadata.name: Invalid value")
	refused(configMap(""), client.ConfigMaps.At("default", ""), apierrors.IsInvalid, "metadata.name: Required value: name or generateName is required")
}

func TestGenerateName(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{}
	for range 20 {
		cm := configMap("")
		cm.GenerateName = strings.Repeat("long-", 20)
		out := w.create(cm).(*v1.ConfigMap)
		if len(out.Name) != 63 || seen[out.Name] || !strings.HasPrefix(out.Name, "long-long-") {
			t.Fatalf("generated %q", out.Name)
		}
		seen[out.Name] = true
	}
}

// What is generated for a Job's template is in its own labels too, unless its name was generated: upstream's copy of it comes between.
func TestLabelsOfAJobWithoutAny(t *testing.T) {
	w := newWorld(t)
	for name, want := range map[string]int{"a": 5, "": 1} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, GenerateName: "g-"}}
		j.Spec.Suspend = new(true)
		j.Spec.Template = v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
			Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "c", Image: "i"}}},
		}
		if out := w.create(j).(*batchv1.Job); len(out.Labels) != want || len(out.Spec.Template.Labels) != 5 {
			t.Errorf("%q: labels %v", name, out.Labels)
		}
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t)
	dry := Options{DryRun: true}
	if out, err := w.Create(w.ctx, admin, client.ConfigMaps.At("default", ""), configMap("a"), dry); err != nil || accessor(out).GetUID() == "" {
		t.Fatalf("%v %v", out, err)
	}
	ref := client.ConfigMaps.At("default", "a")
	if w.get(ref) != nil {
		t.Fatal("a dry run created an object")
	}
	cm := w.create(configMap("a")).(*v1.ConfigMap)
	if _, err := w.Create(w.ctx, admin, ref, configMap("a"), dry); !apierrors.IsAlreadyExists(err) {
		t.Errorf("dry create of a taken name: %v", err)
	}
	out, _, err := w.Patch(w.ctx, admin, ref, Patch{Type: types.MergePatchType, Data: []byte(`{"data":{"k":"new"}}`)}, dry)
	if err != nil || out.(*v1.ConfigMap).Data["k"] != "new" {
		t.Errorf("dry patch: %v %v", out, err)
	}
	if _, deleted, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{DryRun: []string{"All"}}, Options{}); err != nil || !deleted {
		t.Errorf("dry delete: %v %v", deleted, err)
	}
	if got := w.get(ref).(*v1.ConfigMap); got.ResourceVersion != cm.ResourceVersion {
		t.Errorf("a dry run wrote: %s, was %s", got.ResourceVersion, cm.ResourceVersion)
	}
}

func TestUpdateConflicts(t *testing.T) {
	w := newWorld(t)
	ref := client.ConfigMaps.At("default", "a")
	first := w.create(configMap("a")).(*v1.ConfigMap)
	second := first.DeepCopy()
	second.Data["k"] = "2"
	out, _, err := w.Update(w.ctx, admin, ref, second.DeepCopy(), Options{})
	if err != nil || out.(*v1.ConfigMap).ResourceVersion == first.ResourceVersion {
		t.Fatalf("%v %v", out, err)
	}
	if _, _, err := w.Update(w.ctx, admin, ref, second, Options{}); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), `Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again`) {
		t.Errorf("stale update: %v", err)
	}
	free := second.DeepCopy()
	free.ResourceVersion = ""
	free.Data["k"] = "3"
	latest, _, err := w.Update(w.ctx, admin, ref, free.DeepCopy(), Options{})
	if err != nil {
		t.Fatalf("unconditional update: %v", err)
	}
	// Nothing to write: the same version comes back.
	again, _, err := w.Update(w.ctx, admin, ref, free.DeepCopy(), Options{})
	if err != nil || accessor(again).GetResourceVersion() != accessor(latest).GetResourceVersion() {
		t.Errorf("an update that changes nothing wrote: %v", err)
	}
	alien := free.DeepCopy()
	alien.UID = "someone-else"
	if _, _, err := w.Update(w.ctx, admin, ref, alien, Options{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "Precondition failed: UID in precondition: someone-else") {
		t.Errorf("update of another object's UID: %v", err)
	}
	if _, _, err := w.Update(w.ctx, admin, client.ConfigMaps.At("default", "none"), configMap("none"), Options{}); !apierrors.IsNotFound(err) {
		t.Errorf("update of nothing: %v", err)
	}
	if _, _, err := w.Update(w.ctx, admin, client.ConfigMaps.At("default", "b"), free, Options{}); !apierrors.IsBadRequest(err) {
		t.Errorf("update under another name: %v", err)
	}
}

// Writers that collide each decide again: no increment is lost.
func TestMutateUnderContention(t *testing.T) {
	w := newWorld(t)
	w.create(configMap("n"))
	ref := client.ConfigMaps.At("default", "n")
	const writers, each = 4, 10
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				for {
					_, err := w.Mutate(w.ctx, admin, ref, func(obj runtime.Object) (bool, error) {
						cm := obj.(*v1.ConfigMap)
						var n int
						fmt.Sscan(cm.Data["n"], &n)
						cm.Data["n"] = fmt.Sprint(n + 1)
						return true, nil
					}, Options{})
					if err == nil {
						break
					}
					if !apierrors.IsConflict(err) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if got := w.get(ref).(*v1.ConfigMap).Data["n"]; got != fmt.Sprint(writers*each) {
		t.Errorf("counted to %s, want %d", got, writers*each)
	}
}

func TestPatchTypes(t *testing.T) {
	w := newWorld(t)
	p := pod("a")
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d", Image: "j"})
	w.create(p)
	ref := client.Pods.At("default", "a")
	patch := func(typ types.PatchType, data, validation string) (*v1.Pod, []string, error) {
		var warned []string
		out, _, err := w.Patch(w.ctx, admin, ref, Patch{Type: typ, Data: []byte(data), Validation: validation}, Options{Warn: func(s string) { warned = append(warned, s) }})
		if err != nil {
			return nil, warned, err
		}
		return out.(*v1.Pod), warned, nil
	}
	if got, _, err := patch(types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"d","image":"k"}]}}`, ""); err != nil || got.Spec.Containers[1].Image != "k" || got.Spec.Containers[0].Image != "i" {
		t.Errorf("strategic: %v %v", got, err)
	}
	if got, _, err := patch(types.MergePatchType, `{"metadata":{"labels":{"app":null,"x":"y"}}}`, ""); err != nil || got.Labels["x"] != "y" || got.Labels["app"] != "" {
		t.Errorf("merge: %v %v", got, err)
	}
	if got, _, err := patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/labels/x","value":"y"},{"op":"add","path":"/metadata/labels/z","value":"1"}]`, ""); err != nil || got.Labels["z"] != "1" {
		t.Errorf("json: %v %v", got, err)
	}
	if _, _, err := patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/labels/x","value":"no"}]`, ""); apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && apierrors.ReasonForError(err) != metav1.StatusReasonInvalid {
		t.Errorf("a failed test: %v", err)
	}
	for _, typ := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		data := `{"metadata":{"labels":{"q":"` + string(typ[12:17]) + `"}},"spec":{"foo":1}}`
		if _, warned, err := patch(typ, data, metav1.FieldValidationWarn); err != nil || !slices.Contains(warned, `unknown field "spec.foo"`) {
			t.Errorf("%s warn: %v %v", typ, warned, err)
		}
		if _, _, err := patch(typ, data, metav1.FieldValidationStrict); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `strict decoding error: unknown field "spec.foo"`) {
			t.Errorf("%s strict: %v", typ, err)
		}
		if _, warned, err := patch(typ, data, metav1.FieldValidationIgnore); err != nil || len(warned) != 0 {
			t.Errorf("%s ignore: %v %v", typ, warned, err)
		}
	}
	if _, _, err := patch(types.MergePatchType, `{"metadata":{"resourceVersion":"1","labels":{"r":"1"}}}`, ""); !apierrors.IsConflict(err) {
		t.Errorf("patch at an old version: %v", err)
	}
	if _, _, err := patch(types.MergePatchType, `{`, ""); !apierrors.IsBadRequest(err) {
		t.Errorf("broken patch: %v", err)
	}
	if _, _, err := patch(types.ApplyCBORPatchType, `{}`, ""); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("apply as CBOR: %v", err)
	}
}

func TestBind(t *testing.T) {
	w := newWorld(t)
	w.create(pod("a"))
	binding := func(name string) *v1.Binding {
		return &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Target: v1.ObjectReference{Kind: "Node", Name: "n1"}}
	}
	if err := w.Bind(w.ctx, admin, binding("a"), Options{}); err != nil {
		t.Fatal(err)
	}
	p := w.get(client.Pods.At("default", "a")).(*v1.Pod)
	if p.Spec.NodeName != "n1" || !slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue
	}) {
		t.Errorf("bound pod: %+v", p)
	}
	refused := func(b *v1.Binding, text string) {
		t.Helper()
		if err := w.Bind(w.ctx, admin, b, Options{}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
	refused(binding("a"), `Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"`)
	refused(binding("none"), `pods "none" not found`)
	bad := binding("a")
	bad.Target = v1.ObjectReference{Kind: "Pod"}
	refused(bad, `target.name: Required value`)
	gated := pod("g")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x.io/wait"}}
	w.create(gated)
	refused(binding("g"), "pod g has non-empty .spec.schedulingGates")
	held := pod("h")
	held.Finalizers = []string{"a.io/x"}
	w.create(held)
	if _, _, err := w.Delete(w.ctx, admin, client.Pods.At("default", "h"), &metav1.DeleteOptions{}, Options{}); err != nil {
		t.Fatal(err)
	}
	refused(binding("h"), "pod h is being deleted, cannot be assigned to a host")
}

// Whether there is an object is asked before a patch is parsed, as upstream does.
func TestPatchOfNothingIsNotFound(t *testing.T) {
	w := newWorld(t)
	for _, p := range []Patch{
		{Type: types.JSONPatchType, Data: []byte("[" + strings.Repeat(`{"op":"test","path":"/kind","value":"x"},`, 10000) + `{"op":"nope"}]`)},
		{Type: types.JSONPatchType, Data: []byte(`{}`)},
		{Type: types.MergePatchType, Data: []byte(`1`)},
		{Type: types.StrategicMergePatchType, Data: []byte(`"x"`)},
	} {
		for _, ref := range []client.Ref{client.Pods.At("default", "none"), client.Pods.At("default", "none").Sub("status")} {
			if _, _, err := w.Patch(t.Context(), admin, ref, p, Options{}); !apierrors.IsNotFound(err) {
				t.Errorf("%s %.20s of %v: %v", p.Type, p.Data, ref, err)
			}
		}
	}
}
