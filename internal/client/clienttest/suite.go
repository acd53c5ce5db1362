// Package clienttest is what every implementation of the client port must do.
package clienttest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
)

// World is an API server that the suite's users reach through the implementation.
type World struct {
	Admin client.Client // may do anything; its writes belong to the manager "suite"
	Node  client.Client // the kubelet of the node "node-a"
}

// Objects are what the API server has at first.
func Objects() []runtime.Object {
	no := false
	return []runtime.Object{
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}},
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default", UID: "account"}, AutomountServiceAccountToken: &no},
	}
}

// Run runs the suite; each part gets a world of its own, over Objects.
func Run(t *testing.T, world func(t *testing.T) World) {
	for name, part := range map[string]func(*testing.T, World){
		"objects belong to who got them":   testOwnership,
		"what is applied is the applier's": testApply,
		"errors are the API's":             testErrors,
		"mutate goes on after conflicts":   testMutate,
		"status is a part of its own":      testStatus,
		"pods are bound":                   testBind,
		"many pods are bound":              testBindMany,
		"a node is a node and no more":     testNode,
	} {
		t.Run(name, func(t *testing.T) { part(t, world(t)) })
	}
}

var sample = client.ConfigMaps.At("default", "a")

func configMap() *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "1"}}
}

func read[T runtime.Object](t *testing.T, c client.Client, ref client.Ref) T {
	t.Helper()
	obj, err := c.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if obj.GetObjectKind().GroupVersionKind().Empty() {
		t.Errorf("%v came without its type", ref)
	}
	return obj.(T)
}

func create(t *testing.T, c client.Client, ref client.Ref, obj runtime.Object) runtime.Object {
	t.Helper()
	out, err := c.Create(t.Context(), ref, obj)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// testOwnership: objects handed in are not kept or changed, those handed out may be changed.
func testOwnership(t *testing.T, w World) {
	ctx, c, in := t.Context(), w.Admin, configMap()
	scribble := func(obj runtime.Object) { obj.(*v1.ConfigMap).Data["k"] = "scribble" }
	out := create(t, c, sample, in)
	if in.UID != "" || in.Namespace != "" || in.Kind != "" {
		t.Errorf("Create changed what it was given: %+v", in)
	}
	if m := out.(*v1.ConfigMap).ManagedFields; len(m) != 1 || m[0].Manager != "suite" {
		t.Errorf("the fields belong to %v", m)
	}
	scribble(out)
	mine := read[*v1.ConfigMap](t, c, sample).DeepCopy()
	if mine.Data["k"] != "1" {
		t.Errorf("read %q", mine.Data["k"])
	}
	out, err := c.Update(ctx, sample, mine) // nothing changes: the answer is still the caller's own
	if err != nil {
		t.Fatal(err)
	}
	scribble(out)
	if out, err = c.Mutate(ctx, sample, func(obj runtime.Object) (bool, error) { scribble(obj); return false, nil }); err != nil {
		t.Fatal(err)
	}
	scribble(out)
	if got := read[*v1.ConfigMap](t, c, sample).Data["k"]; got != "1" {
		t.Errorf("a Mutate that wrote nothing left %q", got)
	}
	if err := c.Delete(ctx, sample, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// testApply: who applies owns what it says, also what others had, unless it means another version, or an object that is gone.
func testApply(t *testing.T, w World) {
	ctx, c := t.Context(), w.Admin
	created := create(t, c, sample, configMap()).(*v1.ConfigMap)
	apply := func(metadata string) (runtime.Object, error) {
		return c.Apply(ctx, sample, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{%s},"data":{"k":"applied"}}`, metadata), "applier")
	}
	if _, err := apply(`"resourceVersion":"1"`); !apierrors.IsConflict(err) {
		t.Errorf("an old version: %v", err)
	}
	out, err := apply(fmt.Sprintf(`"uid":%q,"resourceVersion":%q`, created.UID, created.ResourceVersion))
	if err != nil {
		t.Fatal(err)
	}
	if got := out.(*v1.ConfigMap); got.Data["k"] != "applied" || !slices.ContainsFunc(got.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "applier" && m.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Errorf("applied: %+v", got)
	}
	if got := read[*v1.ConfigMap](t, c, sample).Data["k"]; got != "applied" {
		t.Errorf("read %q", got)
	}
	if err := c.Delete(ctx, sample, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := apply(fmt.Sprintf(`"uid":%q`, created.UID)); !apierrors.IsConflict(err) {
		t.Errorf("one that is gone: %v", err)
	}
}

func testErrors(t *testing.T, w World) {
	ctx, c := t.Context(), w.Admin
	if _, err := c.Get(ctx, sample); !apierrors.IsNotFound(err) {
		t.Errorf("what is not there: %v", err)
	}
	created := create(t, c, sample, configMap()).(*v1.ConfigMap)
	if _, err := c.Create(ctx, sample, configMap()); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second one: %v", err)
	}
	stale := created.DeepCopy()
	stale.Data["k"], stale.ResourceVersion = "2", "1"
	if _, err := c.Update(ctx, sample, stale); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	bad := configMap()
	bad.Name = "No_Name"
	if _, err := c.Create(ctx, sample, bad); !apierrors.IsInvalid(err) {
		t.Errorf("a bad name: %v", err)
	}
	other := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}
	if err := c.Delete(ctx, sample, other); !apierrors.IsConflict(err) {
		t.Errorf("the deletion of another: %v", err)
	}
	generated := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-"}}
	if out := create(t, c, client.ConfigMaps.At("default", ""), generated).(*v1.ConfigMap); len(out.Name) <= len("some-") {
		t.Errorf("the name is %q", out.Name)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Create(gone, client.ConfigMaps.At("default", ""), generated); err == nil {
		t.Error("a call whose context has ended succeeded")
	}
}

func testMutate(t *testing.T, w World) {
	ctx, c := t.Context(), w.Admin
	create(t, c, sample, configMap())
	calls := 0
	out, err := c.Mutate(ctx, sample, func(obj runtime.Object) (bool, error) {
		cm := obj.(*v1.ConfigMap)
		if calls++; calls == 1 { // somebody else was faster
			theirs := cm.DeepCopy()
			theirs.Data["theirs"] = "x"
			if _, err := c.Update(ctx, sample, theirs); err != nil {
				return false, err
			}
		}
		cm.Data["k"] = "2"
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := out.(*v1.ConfigMap).Data; calls != 2 || d["k"] != "2" || d["theirs"] != "x" {
		t.Errorf("after %d calls: %v", calls, d)
	}
	if _, err := c.Mutate(ctx, client.ConfigMaps.At("default", "none"), func(runtime.Object) (bool, error) { return true, nil }); !apierrors.IsNotFound(err) {
		t.Errorf("what is not there: %v", err)
	}
}

func testStatus(t *testing.T, w World) {
	ref := client.Nodes.At("", "node-a")
	create(t, w.Node, ref, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}})
	if _, err := w.Node.Mutate(t.Context(), ref.Sub("status"), func(obj runtime.Object) (bool, error) {
		n := obj.(*v1.Node)
		n.Status.NodeInfo.KernelVersion, n.Spec.PodCIDR = "6", "10.0.0.0/24"
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := read[*v1.Node](t, w.Node, ref); n.Status.NodeInfo.KernelVersion != "6" || n.Spec.PodCIDR != "" {
		t.Errorf("kernel %q, podCIDR %q", n.Status.NodeInfo.KernelVersion, n.Spec.PodCIDR)
	}
}

func pod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
}

func testBind(t *testing.T, w World) {
	ref := client.Pods.At("default", "p")
	create(t, w.Admin, ref, pod("p"))
	b := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Target: v1.ObjectReference{Kind: "Node", Name: "node-a"}}
	if err := client.Bind(t.Context(), w.Admin, b); err != nil {
		t.Fatal(err)
	}
	if node := read[*v1.Pod](t, w.Admin, ref).Spec.NodeName; node != "node-a" {
		t.Errorf("bound to %q", node)
	}
	if err := client.Bind(t.Context(), w.Admin, b); !apierrors.IsConflict(err) {
		t.Errorf("bound again: %v", err)
	}
}

// What is wrong with one of several bindings is its own affair, and each that went well has a revision of its own.
func testBindMany(t *testing.T, w World) {
	to := func(name, node string) *v1.Binding {
		return &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Target: v1.ObjectReference{Kind: "Node", Name: node}}
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		create(t, w.Admin, client.Pods.At("default", name), pod(name))
	}
	if err := client.Bind(t.Context(), w.Admin, to("c", "node-z")); err != nil {
		t.Fatal(err)
	}
	var told atomic.Int32
	errs := make([]error, 6)
	w.Admin.Bind(t.Context(), []*v1.Binding{to("a", "node-a"), to("none", "node-a"), to("b", "node-b"), to("c", "node-a"), to("d", ""), to("d", "node-d")}, func(i int, err error) {
		told.Add(1)
		errs[i] = err
	})
	if told.Load() != 6 || errs[0] != nil || !apierrors.IsNotFound(errs[1]) || errs[2] != nil || !apierrors.IsConflict(errs[3]) || errs[4] == nil || errs[5] != nil {
		t.Errorf("answers: %v", errs)
	}
	revisions := map[string]bool{}
	for name, node := range map[string]string{"a": "node-a", "b": "node-b", "c": "node-z", "d": "node-d"} {
		p := read[*v1.Pod](t, w.Admin, client.Pods.At("default", name))
		if p.Spec.NodeName != node || revisions[p.ResourceVersion] {
			t.Errorf("%s is on %q at %s; revisions %v", name, p.Spec.NodeName, p.ResourceVersion, revisions)
		}
		revisions[p.ResourceVersion] = true
	}
	w.Admin.Bind(t.Context(), nil, func(int, error) { t.Error("an answer to nothing") })
}

func testNode(t *testing.T, w World) {
	ctx := t.Context()
	create(t, w.Admin, client.Secrets.At("default", "s"), &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
	if _, err := w.Node.Get(ctx, client.Secrets.At("default", "s")); !apierrors.IsForbidden(err) {
		t.Errorf("a Secret that no pod of the node refers to: %v", err)
	}
	if _, err := w.Node.Create(ctx, client.Nodes.At("", "node-b"), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}}); !apierrors.IsForbidden(err) {
		t.Errorf("another node: %v", err)
	}
	elsewhere := pod("q")
	elsewhere.Spec.NodeName = "node-b"
	create(t, w.Admin, client.Pods.At("default", ""), elsewhere)
	if err := w.Node.Delete(ctx, client.Pods.At("default", "q"), metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("another node's pod: %v", err)
	}
}
