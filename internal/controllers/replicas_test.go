package controllers_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/view"
)

var controllers = client.Resource{Resource: "replicationcontrollers"}

// pods are those of a controller, by name, each with its phase.
func (w *world) podsOf(label string) (out []*v1.Pod) {
	synctest.Wait()
	for e := range w.view.Snapshot().All(client.Pods.At("", "").Resource, "default", view.Key{}) {
		if p := e.Object.(*v1.Pod); p.Labels["app"] == label && p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) scale(name string, n int32) {
	w.must(w.admin.Mutate(context.Background(), controllers.At("default", name), func(o runtime.Object) (bool, error) {
		o.(*v1.ReplicationController).Spec.Replicas = &n
		return true, nil
	}))
	time.Sleep(time.Second)
}

func (w *world) turnReady(p *v1.Pod) {
	w.must(w.admin.Mutate(context.Background(), client.Pods.At(p.Namespace, p.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		pod := o.(*v1.Pod)
		pod.Status.Phase, pod.Status.StartTime = v1.PodRunning, new(metav1.Now())
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		return true, nil
	}))
}

// What is told of the pods that were chosen to be deleted.
func TestAgesOfTheDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.run(replicas.New(replicas.Config{Kind: replicas.ReplicaSets, View: w.view, Client: w.controllers, Events: record.NewFakeRecorder(1000)}))
		sets := replicas.ReplicaSets.Resource
		scale := func(n int32) {
			w.must(w.admin.Mutate(context.Background(), sets.At("default", "web"), func(o runtime.Object) (bool, error) {
				o.(*appsv1.ReplicaSet).Spec.Replicas = &n
				return true, nil
			}))
			time.Sleep(time.Second)
		}
		w.must(w.admin.Create(context.Background(), sets.At("default", ""), &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: webSelector, Template: webTemplate("v1")},
		}))
		time.Sleep(time.Second)
		for _, p := range w.podsOf("web") {
			w.turnReady(p)
		}
		scale(1)
		if n := w.metric("replicaset_controller_sorting_deletion_age_ratio"); n != 2 {
			t.Errorf("the ages of %v deleted pods are told", n)
		}
		scale(0)
		if n := w.metric("replicaset_controller_sorting_deletion_age_ratio"); n != 2 {
			t.Errorf("the ages of %v pods are told, of which one was not chosen", n)
		}
	})
}

func TestReplicationController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		told := record.NewFakeRecorder(1000)
		w.run(replicas.New(replicas.Config{Kind: replicas.ReplicationControllers, View: w.view, Client: w.controllers, Events: told}))
		stray := pod("stray", "")
		stray.Labels = map[string]string{"app": "web"}
		w.must(w.admin.Create(context.Background(), client.Pods.At("default", ""), stray))
		three := int32(3)
		rc := &v1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: v1.ReplicationControllerSpec{
				Replicas: &three, Selector: map[string]string{"app": "web"}, MinReadySeconds: 10,
				Template: &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "tier": "front"}}, Spec: v1.PodSpec{
					Containers: []v1.Container{{Name: "c", Image: "busybox", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m")}}}},
				}},
			},
		}
		w.must(w.admin.Create(context.Background(), controllers.At("default", ""), rc))
		time.Sleep(time.Second)
		status := func() string {
			s := w.get(controllers.At("default", "web")).(*v1.ReplicationController).Status
			return fmt.Sprintf("%d/%d/%d/%d", s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas)
		}
		if n := len(w.podsOf("web")); n != 3 || status() != "3/2/0/0" {
			t.Fatalf("%d pods, status %s: the stray one is adopted", n, status())
		}
		// Ready, and available only ten seconds later.
		for _, p := range w.podsOf("web") {
			w.turnReady(p)
		}
		time.Sleep(5 * time.Second)
		if status() != "3/2/3/0" {
			t.Error(status())
		}
		time.Sleep(6 * time.Second)
		if status() != "3/2/3/3" {
			t.Error(status())
		}
		// More, and fewer: those that are not ready go first.
		w.scale("web", 5)
		if n := len(w.podsOf("web")); n != 5 {
			t.Errorf("%d pods", n)
		}
		w.scale("web", 3)
		for _, p := range w.podsOf("web") {
			if p.Status.Phase != v1.PodRunning {
				t.Errorf("%s stays and is not ready", p.Name)
			}
		}
		// A pod that is deleted, and one that has failed, are replaced.
		w.delete(client.Pods.At("default", "stray"))
		failed := w.podsOf("web")[0]
		w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", failed.Name).Sub("status"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Status.Phase = v1.PodFailed
			return true, nil
		}))
		time.Sleep(time.Second)
		if n := len(w.podsOf("web")); n != 4 { // the failed one is still there
			t.Errorf("%d pods", n)
		}
		// One whose labels change is released, and replaced.
		released := w.podsOf("web")[1]
		if released.Name == failed.Name {
			released = w.podsOf("web")[2]
		}
		w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", released.Name), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Labels["app"] = "free"
			return true, nil
		}))
		time.Sleep(time.Second)
		free := w.get(client.Pods.At("default", released.Name)).(*v1.Pod)
		if len(free.OwnerReferences) != 0 || len(w.podsOf("web")) != 4 {
			t.Errorf("%v, %d pods", free.OwnerReferences, len(w.podsOf("web")))
		}
		created := 0
		for len(told.Events) > 0 {
			if strings.HasPrefix(<-told.Events, "Normal SuccessfulCreate Created pod: web-") {
				created++
			}
		}
		if created != 7 { // 2, 2, 1 for the deleted, 1 for the failed, 1 for the released
			t.Errorf("%d creations were told", created)
		}
	})
}

// What cannot be created costs few tries, and says so in the status until it can.
func TestCreationsThatFailAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		told := record.NewFakeRecorder(1000)
		w.run(replicas.New(replicas.Config{Kind: replicas.ReplicationControllers, View: w.view, Client: w.controllers, Events: told}))
		n := int32(100)
		rc := &v1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: v1.ReplicationControllerSpec{Replicas: &n, Selector: map[string]string{"app": "web"}, Template: &v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       v1.PodSpec{ServiceAccountName: "nobody", Containers: []v1.Container{{Name: "c", Image: "busybox"}}},
			}},
		}
		w.must(w.admin.Create(context.Background(), controllers.At("default", ""), rc))
		time.Sleep(10 * time.Second)
		if n := len(told.Events); n > 20 {
			t.Errorf("%d events in ten seconds", n)
		}
		got := w.get(controllers.At("default", "web")).(*v1.ReplicationController).Status.Conditions
		if len(got) != 1 || got[0].Type != v1.ReplicationControllerReplicaFailure || got[0].Reason != "FailedCreate" || !strings.Contains(got[0].Message, `serviceaccount "nobody" not found`) {
			t.Errorf("%+v", got)
		}
		w.must(w.admin.Create(context.Background(), client.ServiceAccounts.At("default", ""), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nobody"}}))
		time.Sleep(2 * time.Minute)
		rc = w.get(controllers.At("default", "web")).(*v1.ReplicationController)
		if len(rc.Status.Conditions) != 0 || rc.Status.Replicas != 100 {
			t.Errorf("%+v", rc.Status)
		}
	})
}

// creations counts the pods that somebody tries to create.
type creations struct {
	client.Client
	pods atomic.Int64
}

func (c *creations) Create(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	if ref.Resource == client.Pods.At("", "").Resource {
		c.pods.Add(1)
	}
	return c.Client.Create(ctx, ref, obj)
}

// A namespace of many pods goes without waiting for anything, and nobody tries to replace what goes with it.
func TestANamespaceOfManyPodsGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx, n := newWorld(t), context.Background(), int32(600)
		w.everyNamespace()
		tried := &creations{Client: w.controllers}
		w.run(replicas.New(replicas.Config{Kind: replicas.ReplicationControllers, View: w.view, Client: tried, Events: &record.FakeRecorder{}}))
		w.createNamespace("work")
		w.must(w.admin.Create(ctx, controllers.At("work", ""), &v1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "web"},
			Spec: v1.ReplicationControllerSpec{Replicas: &n, Selector: map[string]string{"app": "web"}, Template: &v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "busybox"}}},
			}},
		}))
		time.Sleep(time.Second)
		if got := tried.pods.Load(); got != 600 {
			t.Fatalf("%d pods were made", got)
		}
		began := time.Now()
		w.delete(client.Namespaces.At("", "work"))
		for w.get(client.Namespaces.At("", "work")) != nil {
			if time.Sleep(10 * time.Millisecond); time.Since(began) > time.Second {
				t.Fatal("the namespace is still there after a second")
			}
		}
		if got := tried.pods.Load(); got != 600 {
			t.Errorf("%d pods were tried to be made in a namespace that goes", got-600)
		}
	})
}
