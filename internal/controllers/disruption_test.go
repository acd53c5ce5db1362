package controllers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/disruption"
	"podo.dev/podo/internal/controllers/replicas"
)

var disruptionBudgets = client.Resource{Group: "policy", Resource: "poddisruptionbudgets"}

// budget is a budget's status: healthy/wanted of expected, allowed, and the condition's reason.
func (w *world) budget(name string) string {
	s := w.get(disruptionBudgets.At("default", name)).(*policyv1.PodDisruptionBudget).Status
	out := fmt.Sprintf("%d/%d of %d, %d allowed", s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, s.DisruptionsAllowed)
	for _, c := range s.Conditions {
		out += ", " + c.Reason
		if c.Message != "" {
			out += ": " + c.Message
		}
	}
	return out
}

func (w *world) evict(p *v1.Pod) error {
	synctest.Wait()
	return w.verbs.Evict(context.Background(), &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}, p.Namespace, p.Name, &metav1.DeleteOptions{}, verbs.Options{})
}

// A budget follows its pods, evictions take from it, and it gives again when pods are replaced.
func TestDisruptionBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		told := record.NewFakeRecorder(1000)
		w.run(replicas.New(replicas.Config{Kind: replicas.ReplicationControllers, View: w.view, Client: w.controllers, Events: record.NewFakeRecorder(1000)}))
		w.run(disruption.New(disruption.Config{View: w.view, Client: w.controllers, Events: told}))
		w.run(disruption.NewStale(disruption.Config{View: w.view, Client: w.controllers, Events: told}))
		w.must(w.admin.Create(context.Background(), disruptionBudgets.At("default", ""), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromString("25%")), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}))
		if got := w.budget("b"); got != "0/0 of 0, 0 allowed, InsufficientPods" {
			t.Error(got)
		}
		four := int32(4)
		w.must(w.admin.Create(context.Background(), controllers.At("default", ""), &v1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: v1.ReplicationControllerSpec{Replicas: &four, Selector: map[string]string{"app": "web"}, Template: &v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "c", Image: "busybox"}}},
			}},
		}))
		time.Sleep(time.Second)
		pods := w.podsOf("web")
		for _, p := range pods {
			w.turnReady(p)
		}
		if got := w.budget("b"); got != "4/3 of 4, 1 allowed, SufficientPods" {
			t.Error(got)
		}
		if err := w.evict(pods[0]); err != nil {
			t.Fatal(err)
		}
		if err := w.evict(pods[1]); !apierrors.IsTooManyRequests(err) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := w.budget("b"); got != "3/3 of 4, 0 allowed, InsufficientPods" {
			t.Error(got)
		}
		// The one that replaces it is ready.
		for _, p := range w.podsOf("web") {
			w.turnReady(p)
		}
		if got := w.budget("b"); got != "4/3 of 4, 1 allowed, SufficientPods" {
			t.Error(got)
		}
		// A pod that says it will be disrupted, and stays, takes that back.
		p := w.podsOf("web")[0]
		w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", p.Name).Sub("status"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Status.Conditions = append(o.(*v1.Pod).Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()})
			return true, nil
		}))
		time.Sleep(time.Minute)
		conditions := w.get(client.Pods.At("default", p.Name)).(*v1.Pod).Status.Conditions
		if c := conditions[len(conditions)-1]; c.Status != v1.ConditionTrue {
			t.Error("taken back too early")
		}
		time.Sleep(2 * time.Minute)
		conditions = w.get(client.Pods.At("default", p.Name)).(*v1.Pod).Status.Conditions
		if c := conditions[len(conditions)-1]; c.Status != v1.ConditionFalse || c.Reason != "" {
			t.Errorf("%+v", c)
		}
		// Nobody's pod among them is told; one of a controller that cannot be asked makes the budget give nothing.
		stray := pod("stray", "n")
		stray.Labels = map[string]string{"app": "web"}
		stray.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Thing", Name: "x", UID: "x", Controller: new(true)}}
		w.must(w.admin.Create(context.Background(), client.Pods.At("default", ""), stray))
		if got := w.budget("b"); got != `4/3 of 4, 0 allowed, SyncFailed: no matches for kind "Thing" in version "example.com/v1"` {
			t.Error(got)
		}
		var failures int
		for len(told.Events) > 0 {
			if strings.HasPrefix(<-told.Events, `Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: no matches`) {
				failures++
			}
		}
		if failures == 0 || failures > 3 {
			t.Errorf("%d failures were told", failures)
		}
	})
}
