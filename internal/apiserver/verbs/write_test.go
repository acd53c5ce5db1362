package verbs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

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
	refused(versioned, client.ConfigMaps.At("default", ""), apierrors.IsBadRequest, "resourceVersion should not be set on objects to be created")
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
	out, err := w.Patch(w.ctx, admin, ref, Patch{Type: types.MergePatchType, Data: []byte(`{"data":{"k":"new"}}`)}, dry)
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
		out, err := w.Patch(w.ctx, admin, ref, Patch{Type: typ, Data: []byte(data), Validation: validation}, Options{Warn: func(s string) { warned = append(warned, s) }})
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
	if _, _, err := patch(types.ApplyYAMLPatchType, `{}`, ""); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("apply: %v", err)
	}
}

// Case C27: finalizers on an object that is being deleted.
func TestFinalizers(t *testing.T) {
	w := newWorld(t)
	cm := configMap("f")
	cm.Finalizers = []string{"a.io/x"}
	w.create(cm)
	ref := client.ConfigMaps.At("default", "f")
	out, deleted, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{}, Options{})
	if err != nil || deleted || accessor(out).GetDeletionTimestamp() == nil {
		t.Fatalf("delete: %v %v", deleted, err)
	}
	patch := func(data string) error {
		_, err := w.Patch(w.ctx, admin, ref, Patch{Type: types.MergePatchType, Data: []byte(data)}, Options{})
		return err
	}
	if err := patch(`{"metadata":{"finalizers":["a.io/x","b.io/y"]}}`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "no new finalizers can be added if the object is being deleted") {
		t.Errorf("adding a finalizer: %v", err)
	}
	if err := patch(`{"data":{"k":"edited"},"metadata":{"deletionTimestamp":null}}`); err != nil {
		t.Errorf("editing: %v", err)
	}
	if got := w.get(ref).(*v1.ConfigMap); got.Data["k"] != "edited" || got.DeletionTimestamp == nil {
		t.Errorf("after editing: %+v", got)
	}
	if _, err := w.Create(w.ctx, admin, ref, configMap("f"), Options{}); !apierrors.IsAlreadyExists(err) || !strings.HasPrefix(err.Error(), "object is being deleted: ") {
		t.Errorf("create meanwhile: %v", err)
	}
	if err := patch(`{"metadata":{"finalizers":null}}`); err != nil {
		t.Fatal(err)
	}
	if w.get(ref) != nil {
		t.Error("the object outlived its last finalizer")
	}
}

func TestPropagationBecomesAFinalizer(t *testing.T) {
	w := newWorld(t)
	for policy, want := range map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
		metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
	} {
		name := strings.ToLower(string(policy))
		w.create(configMap(name))
		ref := client.ConfigMaps.At("default", name)
		if _, deleted, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{PropagationPolicy: &policy}, Options{}); err != nil || deleted {
			t.Fatal(deleted, err)
		}
		if got := w.get(ref).(*v1.ConfigMap); !slices.Equal(got.Finalizers, []string{want}) || got.DeletionTimestamp == nil {
			t.Errorf("%s: %+v", policy, got.ObjectMeta)
		}
	}
}

func TestDeletePreconditions(t *testing.T) {
	w := newWorld(t)
	cm := w.create(configMap("a")).(*v1.ConfigMap)
	ref := client.ConfigMaps.At("default", "a")
	wrong := types.UID("wrong")
	if _, _, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}, Options{}); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), "the UID in the precondition (wrong) does not match the UID in record ("+string(cm.UID)+"). The object might have been deleted and then recreated") {
		t.Errorf("%v", err)
	}
	rv := "1"
	if _, _, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &rv}}, Options{}); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
	out, deleted, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &cm.UID, ResourceVersion: &cm.ResourceVersion}}, Options{})
	if err != nil || !deleted || accessor(out).GetName() != "a" {
		t.Errorf("%v %v", deleted, err)
	}
	if _, _, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{}, Options{}); !apierrors.IsNotFound(err) {
		t.Errorf("second delete: %v", err)
	}
}

func TestGracefulPodDeletion(t *testing.T) {
	w := newWorld(t)
	ref := client.Pods.At("default", "a")
	w.create(pod("a"))
	bind := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Target: v1.ObjectReference{Kind: "Node", Name: "n1"}}
	if err := w.Bind(w.ctx, admin, bind, Options{}); err != nil {
		t.Fatal(err)
	}
	w.records.stages()
	del := func(grace *int64) bool {
		t.Helper()
		_, deleted, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{GracePeriodSeconds: grace}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return deleted
	}
	if del(nil) {
		t.Fatal("a bound pod went at once")
	}
	p := w.get(ref).(*v1.Pod)
	if *p.DeletionGracePeriodSeconds != 30 || !p.DeletionTimestamp.Time.Equal(w.now.Add(30*time.Second)) {
		t.Fatalf("first deletion: %v %v", *p.DeletionGracePeriodSeconds, p.DeletionTimestamp)
	}
	del(seconds(60))
	if p := w.get(ref).(*v1.Pod); *p.DeletionGracePeriodSeconds != 30 {
		t.Errorf("a longer grace was taken: %d", *p.DeletionGracePeriodSeconds)
	}
	del(seconds(10))
	if p := w.get(ref).(*v1.Pod); *p.DeletionGracePeriodSeconds != 10 || !p.DeletionTimestamp.Time.Equal(w.now.Add(10*time.Second)) {
		t.Errorf("shortening: %v %v", *p.DeletionGracePeriodSeconds, p.DeletionTimestamp)
	}
	w.now = w.now.Add(8 * time.Second)
	del(seconds(5)) // would lie in the past: at least a second is left for who ends it
	if p := w.get(ref).(*v1.Pod); *p.DeletionGracePeriodSeconds != 1 || !p.DeletionTimestamp.Time.Equal(w.now) {
		t.Errorf("shortening into the past: %v %v", *p.DeletionGracePeriodSeconds, p.DeletionTimestamp)
	}
	if !del(seconds(0)) || w.get(ref) != nil {
		t.Error("grace 0 did not remove the pod")
	}
	if got := w.records.stages(); got[0] != timeline.Deleting || got[len(got)-1] != timeline.Deleted {
		t.Errorf("timeline %v", got)
	}
	// A pod on no node has nobody who could end it gracefully.
	w.create(pod("b"))
	if _, deleted, err := w.Delete(w.ctx, admin, client.Pods.At("default", "b"), &metav1.DeleteOptions{}, Options{}); err != nil || !deleted {
		t.Errorf("an unscheduled pod stayed: %v %v", deleted, err)
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

func TestNamespaceEnd(t *testing.T) {
	w := newWorld(t)
	ref := client.Namespaces.At("", "other")
	if _, _, err := w.Delete(w.ctx, admin, client.Namespaces.At("", "default"), &metav1.DeleteOptions{}, Options{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "this namespace may not be deleted") {
		t.Errorf("default: %v", err)
	}
	out, deleted, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{}, Options{})
	if err != nil || deleted || out.(*v1.Namespace).Status.Phase != v1.NamespaceTerminating {
		t.Fatalf("%v %v %v", out, deleted, err)
	}
	cm := configMap("late")
	cm.Namespace = "other"
	_, err = w.Create(w.ctx, admin, client.ConfigMaps.At("other", ""), cm, Options{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `configmaps "late" is forbidden: unable to create new content in namespace other because it is being terminated`) ||
		!apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
		t.Errorf("create in a terminating namespace: %v", err)
	}
	if _, deleted, err := w.Delete(w.ctx, admin, ref, &metav1.DeleteOptions{}, Options{}); err != nil || deleted {
		t.Errorf("second delete: %v %v", deleted, err)
	}
	ns := w.get(ref).DeepCopyObject().(*v1.Namespace)
	ns.Spec.Finalizers = nil
	if _, _, err := w.Update(w.ctx, admin, ref.Sub("finalize"), ns, Options{}); err != nil {
		t.Fatal(err)
	}
	if w.get(ref) != nil {
		t.Error("the namespace outlived its finalizer")
	}
}

// Nothing may appear in a namespace whose deletion has begun, however stale the view of who admits it.
func TestNoObjectSlipsIntoATerminatingNamespace(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	accepted := make(chan string, 200)
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				cm := configMap(fmt.Sprintf("c-%d-%d", i, j))
				cm.Namespace = "other"
				out, err := w.Create(w.ctx, admin, client.ConfigMaps.At("other", ""), cm, Options{})
				if err == nil {
					accepted <- accessor(out).GetResourceVersion()
				} else if !apierrors.IsForbidden(err) {
					t.Error(err)
				}
			}
		})
	}
	out, _, err := w.Delete(w.ctx, admin, client.Namespaces.At("", "other"), &metav1.DeleteOptions{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	close(accepted)
	end := accessor(out).GetResourceVersion()
	for rv := range accepted {
		if len(rv) > len(end) || len(rv) == len(end) && rv > end {
			t.Errorf("an object was created at %s, after the deletion at %s", rv, end)
		}
	}
}

func TestDeleteCollection(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		p := pod(fmt.Sprintf("p%d", i))
		p.Labels = map[string]string{"half": fmt.Sprint(i % 2)}
		w.create(p)
	}
	o := &internalversion.ListOptions{LabelSelector: mustLabels("half=1")}
	l, err := w.DeleteCollection(w.ctx, admin, client.Pods.At("default", ""), &metav1.DeleteOptions{GracePeriodSeconds: seconds(0)}, o, Options{})
	if err != nil || len(l.Items) != 50 {
		t.Fatalf("%v %v", l, err)
	}
	rest, err := w.List(w.ctx, admin, client.Pods.At("default", ""), &internalversion.ListOptions{})
	if err != nil || len(rest.Items) != 50 {
		t.Errorf("left %d, %v", len(rest.Items), err)
	}
}

func TestAuthorization(t *testing.T) {
	w := newWorld(t)
	w.create(configMap("a"))
	mine, theirs := pod("mine"), pod("theirs")
	mine.Spec.NodeName, theirs.Spec.NodeName = "n1", "n2"
	mine.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "a"}}}}}
	w.create(mine)
	w.create(theirs)
	if _, err := w.view.Fresh(w.ctx); err != nil {
		t.Fatal(err)
	}
	nobody := &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
	_, err := w.List(w.ctx, nobody, client.Pods.At("default", ""), &internalversion.ListOptions{})
	if !apierrors.IsForbidden(err) || err.Error() != `pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"` {
		t.Errorf("%v", err)
	}
	n1 := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup, user.AllAuthenticated}}
	status := func(name string) error {
		_, err := w.Mutate(w.ctx, n1, client.Pods.At("default", name).Sub("status"), func(obj runtime.Object) (bool, error) {
			obj.(*v1.Pod).Status.Message = "hello"
			return true, nil
		}, Options{})
		return err
	}
	if err := status("mine"); err != nil {
		t.Errorf("own pod's status: %v", err)
	}
	if err := status("theirs"); !apierrors.IsForbidden(err) {
		t.Errorf("another node's pod: %v", err)
	}
	get := func(ref client.Ref) error { _, err := w.Get(w.ctx, n1, ref, ""); return err }
	if err := get(client.ConfigMaps.At("default", "a")); err != nil {
		t.Errorf("a ConfigMap that its pod uses: %v", err)
	}
	if err := get(client.ConfigMaps.At("default", "b")); !apierrors.IsForbidden(err) {
		t.Errorf("a ConfigMap that none of its pods uses: %v", err)
	}
	if err := get(client.Pods.At("default", "theirs")); !apierrors.IsForbidden(err) {
		t.Errorf("another node's pod: %v", err)
	}
	if _, err := w.Create(w.ctx, n1, client.Nodes.At("", ""), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, Options{}); !apierrors.IsForbidden(err) {
		t.Errorf("another node's Node: %v", err)
	}
	if _, err := w.Create(w.ctx, n1, client.Nodes.At("", ""), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, Options{}); err != nil {
		t.Errorf("its own Node: %v", err)
	}
	if _, err := w.Create(w.ctx, n1, client.Pods.At("default", ""), pod("x"), Options{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "can only create mirror pods") {
		t.Errorf("a pod by a node: %v", err)
	}
}
