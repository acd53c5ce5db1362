package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/daemonset"
	"podo.dev/podo/internal/controllers/statefulset"
	"podo.dev/podo/internal/view"
)

var (
	daemonSets   = client.Resource{Group: "apps", Resource: "daemonsets"}
	statefulSets = client.Resource{Group: "apps", Resource: "statefulsets"}
	revisions    = client.Resource{Group: "apps", Resource: "controllerrevisions"}
)

func webTemplate(image string) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}
}

var webSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}

// kubelets do what kubelets and the scheduler would until nothing changes any more: pods are bound where they are meant to be, run and
// become ready, unless their image is "broken"; those told to go are gone.
func (w *world) kubelets() {
	w.t.Helper()
	for range 50 {
		synctest.Wait()
		changed := false
		for e := range w.view.Snapshot().All(client.Pods.At("", "").Resource, "default", view.Key{}) {
			p := e.Object.(*v1.Pod)
			switch {
			case p.DeletionTimestamp != nil:
				w.gone(p)
				changed = true
			case p.Status.Phase == v1.PodPending && p.Spec.Containers[0].Image != "broken":
				w.turnReady(p)
				changed = true
			}
		}
		if !changed {
			return
		}
		time.Sleep(time.Second)
	}
	w.t.Fatal("it never comes to rest")
}

func (w *world) gone(p *v1.Pod) {
	zero := int64(0)
	_ = w.admin.Delete(context.Background(), client.Pods.At(p.Namespace, p.Name), metav1.DeleteOptions{GracePeriodSeconds: &zero})
}

// images are the set's pods by name, each with its image.
func (w *world) images() string {
	var out []string
	for _, p := range w.podsOf("web") {
		out = append(out, p.Name+"="+p.Spec.Containers[0].Image)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (w *world) set(name string, change func(*appsv1.StatefulSet)) {
	w.t.Helper()
	w.must(w.admin.Mutate(context.Background(), statefulSets.At("default", name), func(o runtime.Object) (bool, error) {
		change(o.(*appsv1.StatefulSet))
		return true, nil
	}))
	time.Sleep(time.Second)
}

func (w *world) count(r client.Resource) (n int) {
	synctest.Wait()
	for range w.view.Snapshot().All(r.At("", "").Resource, "default", view.Key{}) {
		n++
	}
	return n
}

func TestStatefulSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		told := record.NewFakeRecorder(1000)
		w.run(statefulset.New(statefulset.Config{View: w.view, Client: w.controllers, Events: told}))
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(3)), ServiceName: "web", Selector: webSelector, Template: webTemplate("v1"),
				VolumeClaimTemplates: []v1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{
					AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
					Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
				}}},
			},
		}
		w.must(w.admin.Create(context.Background(), statefulSets.At("default", ""), set))
		time.Sleep(time.Second)
		if got := w.images(); got != "web-0=v1" {
			t.Fatalf("the first comes alone: %s", got)
		}
		figures := func() [2]float64 {
			of := []string{"OrderedReady", "web", "default"}
			return [2]float64{
				w.metric("statefulset_controller_statefulset_unavailable_replicas", of...), w.metric("statefulset_controller_statefulset_max_unavailable", of...),
			}
		}
		if got := figures(); got != [2]float64{3, 1} {
			t.Errorf("%v pods are missing, which may be so, by the metrics", got)
		}
		defer func() {
			w.delete(statefulSets.At("default", "web"))
			time.Sleep(time.Second)
			if got := figures(); got != [2]float64{} {
				t.Errorf("the figures of a set that is gone stay: %v", got)
			}
		}()
		w.kubelets()
		if got := figures(); got != [2]float64{0, 1} {
			t.Errorf("%v pods are missing, which may be so, by the metrics", got)
		}
		if got := w.images(); got != "web-0=v1 web-1=v1 web-2=v1" {
			t.Fatal(got)
		}
		p := w.get(client.Pods.At("default", "web-1")).(*v1.Pod)
		if p.Spec.Hostname != "web-1" || p.Spec.Subdomain != "web" || p.Labels[appsv1.PodIndexLabel] != "1" || p.Labels[appsv1.StatefulSetPodNameLabel] != "web-1" ||
			p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-web-1" {
			t.Errorf("%+v", p)
		}
		if w.get(client.Claims.At("default", "data-web-2")) == nil {
			t.Error("no claim of the last one")
		}
		status := func() string {
			s := w.get(statefulSets.At("default", "web")).(*appsv1.StatefulSet).Status
			done := "rolling"
			if s.CurrentRevision == s.UpdateRevision {
				done = "done"
			}
			return fmt.Sprintf("%d/%d/%d current %d updated %d %s", s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas, done)
		}
		if got := status(); got != "3/3/3 current 3 updated 3 done" {
			t.Error(got)
		}
		// A partition keeps those below it, even when they are made anew.
		w.set("web", func(s *appsv1.StatefulSet) {
			s.Spec.Template.Spec.Containers[0].Image = "v2"
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
		})
		w.kubelets()
		w.delete(client.Pods.At("default", "web-0"))
		time.Sleep(time.Second)
		w.kubelets()
		if got := w.images() + ", " + status(); got != "web-0=v1 web-1=v1 web-2=v2, 3/3/3 current 2 updated 1 rolling" {
			t.Error(got)
		}
		w.set("web", func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(0)) })
		w.kubelets()
		if got := w.images() + ", " + status(); got != "web-0=v2 web-1=v2 web-2=v2, 3/3/3 current 3 updated 3 done" {
			t.Error(got)
		}
		// A template that cannot run stops at the last pod; the one before it is found again by its revision.
		w.set("web", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "broken" })
		w.kubelets()
		if got := w.images(); got != "web-0=v2 web-1=v2 web-2=broken" {
			t.Error(got)
		}
		w.set("web", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "v2" })
		w.delete(client.Pods.At("default", "web-2")) // in order nothing goes on beyond a pod that is not ready
		time.Sleep(time.Second)
		w.kubelets()
		if got := w.images() + ", " + status(); got != "web-0=v2 web-1=v2 web-2=v2, 3/3/3 current 3 updated 3 done" || w.count(revisions) != 3 {
			t.Errorf("%s, %d revisions", got, w.count(revisions))
		}
		// One that failed is made anew; shrinking goes from the end and keeps the claims, until they are to go too.
		failed := w.get(client.Pods.At("default", "web-1")).(*v1.Pod)
		w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", "web-1").Sub("status"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Status.Phase = v1.PodFailed
			return true, nil
		}))
		w.kubelets()
		if now := w.get(client.Pods.At("default", "web-1")).(*v1.Pod); now.UID == failed.UID {
			t.Error("a failed pod stays")
		}
		w.set("web", func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(2)) })
		w.kubelets()
		if got := w.images(); got != "web-0=v2 web-1=v2" || w.get(client.Claims.At("default", "data-web-2")) == nil {
			t.Error(got)
		}
		w.set("web", func(s *appsv1.StatefulSet) {
			s.Spec.Replicas = new(int32(1))
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Delete", WhenDeleted: "Delete"}
		})
		owners := func(claim string) (out []string) {
			for _, ref := range w.get(client.Claims.At("default", claim)).(*v1.PersistentVolumeClaim).OwnerReferences {
				out = append(out, ref.Kind+"/"+ref.Name)
			}
			return out
		}
		if a, b := owners("data-web-0"), owners("data-web-1"); fmt.Sprint(a, b) != "[StatefulSet/web] [Pod/web-1]" {
			t.Error(a, b)
		}
		w.kubelets()
		if got := w.images(); got != "web-0=v2" {
			t.Error(got)
		}
		seen := map[string]int{}
		for len(told.Events) > 0 {
			seen[<-told.Events]++
		}
		for _, want := range []string{
			"Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful", "Normal SuccessfulDelete Delete Pod web-2 in StatefulSet web successful",
		} {
			if seen[want] == 0 {
				t.Errorf("%q is not told of", want)
			}
		}
	})
}

// Without order all come at once, as many may be missing as is said, and a broken template does not keep a good one out.
func TestStatefulSetInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.run(statefulset.New(statefulset.Config{View: w.view, Client: w.controllers, Events: record.NewFakeRecorder(1000)}))
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(4)), Selector: webSelector, Template: webTemplate("v1"), PodManagementPolicy: appsv1.ParallelPodManagement,
				Ordinals:       &appsv1.StatefulSetOrdinals{Start: 5},
				UpdateStrategy: appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromInt32(2))}},
			},
		}
		w.must(w.admin.Create(context.Background(), statefulSets.At("default", ""), set))
		time.Sleep(time.Second)
		if got := w.images(); got != "web-5=v1 web-6=v1 web-7=v1 web-8=v1" {
			t.Fatal(got)
		}
		w.kubelets()
		w.set("web", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "broken" })
		w.kubelets()
		if got := w.images(); got != "web-5=v1 web-6=v1 web-7=broken web-8=broken" {
			t.Error(got)
		}
		w.set("web", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "v2" })
		w.kubelets()
		if got := w.images(); got != "web-5=v2 web-6=v2 web-7=v2 web-8=v2" {
			t.Error(got)
		}
	})
}

// A template has one revision: of two that hold it the newer one stays, and the pods of the other are its own from then on, not replaced.
func TestRevisionsOfOneTemplateAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.run(daemonset.New(daemonset.Config{View: w.view, Client: w.controllers, Events: record.NewFakeRecorder(1000)}))
		ready := func(n string) {
			w.node(n)
			w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", n), func(o runtime.Object) (bool, error) {
				o.(*v1.Node).Spec.Taints = nil
				return true, nil
			}))
		}
		ready("a")
		w.must(w.admin.Create(context.Background(), daemonSets.At("default", ""), &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       appsv1.DaemonSetSpec{Selector: webSelector, Template: webTemplate("v1")},
		}))
		time.Sleep(time.Second)
		w.kubelets()
		first := w.podsOf("web")[0]
		twin := w.get(revisions.At("default", "web-"+first.Labels[appsv1.ControllerRevisionHashLabelKey])).(*appsv1.ControllerRevision).DeepCopy()
		twin.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "web-twin", Labels: maps.Clone(twin.Labels), OwnerReferences: twin.OwnerReferences}
		twin.Labels[appsv1.ControllerRevisionHashLabelKey] = "twin"
		twin.Revision++
		w.must(w.admin.Create(context.Background(), revisions.At("default", ""), twin))
		ready("b") // the set is looked at again
		for range 3 {
			time.Sleep(time.Second)
			w.kubelets()
		}
		pods := w.podsOf("web")
		if len(pods) != 2 || !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == first.UID }) {
			t.Errorf("%d pods, the first one among them: it was not to be replaced", len(pods))
		}
		for _, p := range pods {
			if got := p.Labels[appsv1.ControllerRevisionHashLabelKey]; got != "twin" {
				t.Errorf("%s is of %s", p.Name, got)
			}
		}
		if n := w.count(revisions); n != 1 {
			t.Errorf("%d revisions", n)
		}
	})
}

func TestDaemonSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		told := record.NewFakeRecorder(1000)
		w.run(daemonset.New(daemonset.Config{View: w.view, Client: w.controllers, Events: told}))
		for _, n := range []string{"a", "b", "c"} {
			w.node(n)
			w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", n), func(o runtime.Object) (bool, error) {
				o.(*v1.Node).Spec.Taints = nil // it is ready
				if n == "c" {
					o.(*v1.Node).Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoSchedule}}
				}
				return true, nil
			}))
		}
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.DaemonSetSpec{
			Selector: webSelector, Template: webTemplate("v1"),
		}}
		w.must(w.admin.Create(context.Background(), daemonSets.At("default", ""), set))
		time.Sleep(time.Second)
		w.kubelets()
		on := func() string {
			var out []string
			for _, p := range w.podsOf("web") {
				node := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
				out = append(out, node+"="+p.Spec.Containers[0].Image)
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}
		status := func() string {
			s := w.get(daemonSets.At("default", "web")).(*appsv1.DaemonSet).Status
			return fmt.Sprintf("%d of %d, %d ready, %d available, %d unavailable, %d updated, %d misplaced", s.CurrentNumberScheduled, s.DesiredNumberScheduled,
				s.NumberReady, s.NumberAvailable, s.NumberUnavailable, s.UpdatedNumberScheduled, s.NumberMisscheduled)
		}
		if got := on() + ": " + status(); got != "a=v1 b=v1: 2 of 2, 2 ready, 2 available, 0 unavailable, 2 updated, 0 misplaced" {
			t.Fatal(got)
		}
		// A node that turns fit gets a pod.
		w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", "c"), func(o runtime.Object) (bool, error) {
			o.(*v1.Node).Spec.Taints = nil
			return true, nil
		}))
		w.kubelets()
		if got := on(); got != "a=v1 b=v1 c=v1" {
			t.Error(got)
		}
		change := func(f func(*appsv1.DaemonSet)) {
			w.must(w.admin.Mutate(context.Background(), daemonSets.At("default", "web"), func(o runtime.Object) (bool, error) {
				f(o.(*appsv1.DaemonSet))
				return true, nil
			}))
			time.Sleep(time.Second)
			w.kubelets()
		}
		// One after the other is replaced; a broken template costs one node.
		change(func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
		if got := on() + ": " + status(); got != "a=v2 b=v2 c=v2: 3 of 3, 3 ready, 3 available, 0 unavailable, 3 updated, 0 misplaced" {
			t.Error(got)
		}
		change(func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "broken" })
		if got := status(); strings.Count(on(), "v2") != 2 || got != "3 of 3, 2 ready, 2 available, 1 unavailable, 1 updated, 0 misplaced" {
			t.Error(on(), got)
		}
		change(func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "v1" })
		if got := on(); got != "a=v1 b=v1 c=v1" || w.count(revisions) != 3 {
			t.Error(got, w.count(revisions))
		}
		// With a surge the old ones stay until the new ones are available.
		change(func(d *appsv1.DaemonSet) {
			d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}
			d.Spec.Template.Spec.Containers[0].Image = "broken"
		})
		if got := on(); strings.Count(got, "v1") != 3 || strings.Count(got, "broken") != 1 {
			t.Error(got)
		}
		change(func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "v3" })
		if got := on(); got != "a=v3 b=v3 c=v3" {
			t.Error(got)
		}
		// What fails is replaced ever slower.
		for len(told.Events) > 0 {
			<-told.Events
		}
		for range 120 {
			for _, p := range w.podsOf("web") {
				if on := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]; on == "a" && p.Status.Phase != v1.PodFailed {
					w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", p.Name).Sub("status"), func(o runtime.Object) (bool, error) {
						o.(*v1.Pod).Status.Phase = v1.PodFailed
						return true, nil
					}))
				}
			}
			time.Sleep(time.Second)
			for _, p := range w.terminating() {
				w.gone(p)
			}
		}
		failures := 0
		for len(told.Events) > 0 {
			if strings.HasPrefix(<-told.Events, "Warning FailedDaemonPod Found failed daemon pod default/web-") {
				failures++
			}
		}
		if failures < 5 || failures > 9 {
			t.Errorf("%d replacements in two minutes", failures)
		}
	})
}

func (w *world) terminating() (out []*v1.Pod) {
	synctest.Wait()
	for e := range w.view.Snapshot().All(client.Pods.At("", "").Resource, "default", view.Key{}) {
		if p := e.Object.(*v1.Pod); p.DeletionTimestamp != nil {
			out = append(out, p)
		}
	}
	return out
}
