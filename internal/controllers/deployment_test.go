package controllers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/deployment"
	"podo.dev/podo/internal/controllers/garbage"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var (
	deployments = client.Resource{Group: "apps", Resource: "deployments"}
	replicaSets = client.Resource{Group: "apps", Resource: "replicasets"}
)

// rollouts runs what rolls a Deployment out, with kubelets that make the pods of images that work ready.
func rollouts(t *testing.T) (*world, *record.FakeRecorder) {
	w := newWorld(t)
	w.everyNamespace()
	told := record.NewFakeRecorder(10000)
	w.run(replicas.New(replicas.Config{Kind: replicas.ReplicaSets, View: w.view, Client: w.controllers, Events: record.NewFakeRecorder(100000)}))
	w.run(deployment.New(deployment.Config{View: w.view, Client: w.controllers, Events: told}))
	w.run(garbage.New(garbage.Config{View: w.view, Client: w.controllers, Events: record.NewFakeRecorder(1000), Kinds: registry.All()}))
	return w, told
}

func (w *world) deploy(name, image string, n int32, more func(*appsv1.Deployment)) {
	w.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	d.Spec.Replicas, d.Spec.Selector = &n, &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []v1.Container{{Name: "c", Image: image}}
	if more != nil {
		more(d)
	}
	w.must(w.admin.Create(context.Background(), deployments.At("default", ""), d))
}

func (w *world) redeploy(name string, change func(*appsv1.Deployment)) {
	w.t.Helper()
	w.must(w.admin.Mutate(context.Background(), deployments.At("default", name), func(o runtime.Object) (bool, error) {
		change(o.(*appsv1.Deployment))
		return true, nil
	}))
}

func image(v string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = v }
}

// settle makes pods of images that work ready, until there is nothing to make.
func (w *world) settle() {
	for idle := 0; idle < 3; idle++ {
		time.Sleep(200 * time.Millisecond)
		for e := range w.view.Snapshot().All(client.Pods.At("", "").Resource, "default", view.Key{}) {
			p := e.Object.(*v1.Pod)
			if p.Status.Phase == v1.PodPending && p.Spec.Containers[0].Image != "bad" {
				w.turnReady(p)
				idle = -1
			}
		}
	}
}

// shape is a Deployment in short: its sets with pods and its conditions.
func (w *world) shape(name string) string {
	d := w.get(deployments.At("default", name)).(*appsv1.Deployment)
	var out []string
	for e := range w.view.Snapshot().All(replicaSets.At("", "").Resource, "default", view.Key{}) {
		if rs := e.Object.(*appsv1.ReplicaSet); metav1.IsControlledBy(rs, d) {
			out = append(out, fmt.Sprintf("#%s %s %d/%d", rs.Annotations["deployment.kubernetes.io/revision"], rs.Spec.Template.Spec.Containers[0].Image, rs.Status.AvailableReplicas, *rs.Spec.Replicas))
		}
	}
	for _, c := range d.Status.Conditions {
		out = append(out, c.Reason)
	}
	return strings.Join(out, ", ")
}

func TestDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, told := rollouts(t)
		w.deploy("web", "v1", 3, nil)
		w.settle()
		if got := w.shape("web"); got != "#1 v1 3/3, MinimumReplicasAvailable, NewReplicaSetAvailable" {
			t.Fatal(got)
		}
		d := w.get(deployments.At("default", "web")).(*appsv1.Deployment)
		if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != 3 || s.TerminatingReplicas == nil || d.Annotations["deployment.kubernetes.io/revision"] != "1" {
			t.Errorf("%+v", d)
		}
		for len(told.Events) > 0 {
			<-told.Events
		}
		w.redeploy("web", image("v2"))
		w.settle()
		if got := w.shape("web"); !strings.Contains(got, "#1 v1 0/0") || !strings.Contains(got, "#2 v2 3/3") {
			t.Error(got)
		}
		var events []string
		for len(told.Events) > 0 {
			text := <-told.Events
			events = append(events, text[strings.Index(text, "Scaled"):strings.Index(text, "set")]+text[strings.Index(text, "from"):])
		}
		if got := strings.Join(events, "; "); got != "Scaled up replica from 0 to 1; Scaled down replica from 3 to 2; Scaled up replica from 1 to 2; Scaled down replica from 2 to 1; Scaled up replica from 2 to 3; Scaled down replica from 1 to 0" {
			t.Error(got)
		}
		// Broken, and undone as kubectl does it: the earlier template is written into it.
		w.redeploy("web", image("bad"))
		w.settle()
		if got := w.shape("web"); !strings.Contains(got, "#2 v2 3/3") || !strings.Contains(got, "#3 bad 0/1") {
			t.Error(got)
		}
		time.Sleep(11 * time.Minute)
		if got := w.shape("web"); !strings.HasSuffix(got, "MinimumReplicasAvailable, ProgressDeadlineExceeded") {
			t.Error(got)
		}
		w.redeploy("web", image("v2"))
		w.settle()
		if got := w.shape("web"); !strings.Contains(got, "#4 v2 3/3") || !strings.Contains(got, "#3 bad 0/0") || !strings.HasSuffix(got, "NewReplicaSetAvailable") {
			t.Error(got)
		}
		// What is deleted takes all along.
		w.delete(deployments.At("default", "web"))
		time.Sleep(time.Minute)
		if n := len(w.podsOf("web")); n != 0 {
			t.Errorf("%d pods stay", n)
		}
	})
}

// Of a Deployment that makes its pods anew, no new pod is there while an old one runs, however long that takes.
func TestRecreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := rollouts(t)
		w.deploy("web", "v1", 2, func(d *appsv1.Deployment) {
			d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
			d.Spec.Template.Finalizers = []string{"example.com/slow"}
		})
		w.settle()
		w.redeploy("web", image("v2"))
		time.Sleep(time.Minute)
		if got := w.shape("web"); got != "#1 v1 0/0, NewReplicaSetAvailable, MinimumReplicasUnavailable" {
			t.Error(got)
		}
		d := w.get(deployments.At("default", "web")).(*appsv1.Deployment)
		if n := d.Status.TerminatingReplicas; n == nil || *n != 2 {
			t.Errorf("%v are told to be on their way out", n)
		}
		for e := range w.view.Snapshot().All(client.Pods.At("", "").Resource, "default", view.Key{}) {
			w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", e.Key.Name), func(o runtime.Object) (bool, error) {
				o.(*v1.Pod).Finalizers = nil
				return true, nil
			}))
		}
		time.Sleep(time.Second)
		if got := w.shape("web"); !strings.Contains(got, "v2 0/2") {
			t.Error(got)
		}
	})
}

// A template that can never run costs a bounded number of pods, and selectors that meet cost nothing.
func TestNoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := rollouts(t)
		w.deploy("web", "v1", 1, nil)
		writes := 0
		rejected := func(d time.Duration) {
			for range int(d / (100 * time.Millisecond)) {
				time.Sleep(100 * time.Millisecond)
				for _, p := range w.podsOf("web") {
					if p.Status.Phase == v1.PodPending {
						writes++
						w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", p.Name).Sub("status"), func(o runtime.Object) (bool, error) {
							o.(*v1.Pod).Status.Phase, o.(*v1.Pod).Status.Reason = v1.PodFailed, "NodeAffinity"
							return true, nil
						}))
					}
				}
			}
		}
		rejected(10 * time.Minute)
		if writes < 12 || writes > 30 {
			t.Errorf("%d pods in ten minutes", writes)
		}
		// Two Deployments and a ReplicaSet that select the same pods leave each other's alone.
		same := func(d *appsv1.Deployment) {
			d.Spec.Selector.MatchLabels = map[string]string{"app": "same"}
			d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}
		}
		w.deploy("a", "v1", 2, same)
		w.deploy("b", "v1", 3, same)
		w.settle()
		before := w.view.Snapshot().Rev()
		time.Sleep(time.Minute)
		if after := w.view.Snapshot().Rev(); after-before > 5 { // the first Deployment's pods are still tried
			t.Errorf("%d writes at rest", after-before)
		}
		if n := len(w.podsOf("same")); n != 5 {
			t.Errorf("%d pods of both", n)
		}
	})
}
