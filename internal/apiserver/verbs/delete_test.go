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
		_, _, err := w.Patch(w.ctx, admin, ref, Patch{Type: types.MergePatchType, Data: []byte(data)}, Options{})
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

// A deletion that does not say what becomes of dependents does what the kind always did, unless the object itself says it.
func TestDefaultDependents(t *testing.T) {
	w := newWorld(t)
	one := int32(1)
	rc := func(name string, finalizers ...string) {
		w.create(&v1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: finalizers},
			Spec: v1.ReplicationControllerSpec{Replicas: &one, Selector: map[string]string{"a": "b"}, Template: &v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
			}},
		})
	}
	background := metav1.DeletePropagationBackground
	rc("quiet")
	rc("said")
	rc("own", metav1.FinalizerDeleteDependents)
	for name, c := range map[string]struct {
		o    metav1.DeleteOptions
		want string
	}{
		"quiet": {want: metav1.FinalizerOrphanDependents},
		"said":  {o: metav1.DeleteOptions{PropagationPolicy: &background}},
		"own":   {want: metav1.FinalizerDeleteDependents},
	} {
		ref := client.Resource{Resource: "replicationcontrollers"}.At("default", name)
		if _, deleted, err := w.Delete(w.ctx, admin, ref, &c.o, Options{}); err != nil || deleted != (c.want == "") {
			t.Fatalf("%s: deleted %v, %v", name, deleted, err)
		}
		if c.want == "" {
			continue
		}
		if got := accessor(w.get(ref)).GetFinalizers(); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	// Events have no dependents, whatever a deletion says.
	orphan := metav1.DeletePropagationOrphan
	w.create(&v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, InvolvedObject: v1.ObjectReference{Namespace: "default"}})
	if _, deleted, err := w.Delete(w.ctx, admin, client.Events.At("default", "e"), &metav1.DeleteOptions{PropagationPolicy: &orphan}, Options{}); err != nil || !deleted {
		t.Errorf("an event: deleted %v, %v", deleted, err)
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
