package controllers_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/cronjob"
	"podo.dev/podo/internal/controllers/daemonset"
	"podo.dev/podo/internal/controllers/deployment"
	"podo.dev/podo/internal/controllers/garbage"
	"podo.dev/podo/internal/controllers/job"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/podgc"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/controllers/statefulset"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// What people and programs do wrong, and what it must not cost: no loop that spins, no pod or volume that is lost.

// meddled is a client that counts what controllers try to write, and lets somebody in between their plan and the write.
type meddled struct {
	client.Client
	tries  atomic.Int64
	mu     sync.Mutex
	before func()
}

func (m *meddled) meet() {
	m.tries.Add(1)
	m.mu.Lock()
	before := m.before
	m.mu.Unlock()
	if before != nil {
		before()
	}
}

func (m *meddled) let(before func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = before
}

// tried is how many writes were tried while d passed.
func (m *meddled) tried(d time.Duration) int64 {
	synctest.Wait()
	was := m.tries.Load()
	time.Sleep(d)
	synctest.Wait()
	return m.tries.Load() - was
}

func (m *meddled) Create(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	m.meet()
	return m.Client.Create(ctx, ref, obj)
}

func (m *meddled) Update(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	m.meet()
	return m.Client.Update(ctx, ref, obj)
}

func (m *meddled) Mutate(ctx context.Context, ref client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	return m.Client.Mutate(ctx, ref, func(o runtime.Object) (bool, error) {
		wants, err := change(o)
		if wants {
			m.meet()
		}
		return wants, err
	})
}

func (m *meddled) Delete(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error {
	m.meet()
	return m.Client.Delete(ctx, ref, o)
}

// workloads runs a controller of every kind that has pods, and the collectors, all as m.
func (w *world) workloads(m client.Client) {
	w.t.Helper()
	told := &record.FakeRecorder{}
	parts := loop.Parts{View: w.view, Client: m, Events: told}
	w.run(replicas.New(replicas.Config{Kind: replicas.ReplicationControllers, View: w.view, Client: m, Events: told}))
	w.run(replicas.New(replicas.Config{Kind: replicas.ReplicaSets, View: w.view, Client: m, Events: told}))
	w.run(deployment.New(deployment.Config{View: w.view, Client: m, Events: told}))
	w.run(statefulset.New(parts))
	w.run(daemonset.New(parts))
	w.run(job.New(parts))
	w.run(cronjob.New(parts))
	w.run(garbage.New(garbage.Config{View: w.view, Client: m, Events: told, Kinds: registry.All()}))
	w.run(podgc.New(w.view, m, nil))
}

// held are the pods of each controller object that may still run, as kind/name=number.
func (w *world) held() string {
	synctest.Wait()
	by := map[string]int{}
	for e := range w.view.Snapshot().All(client.Pods.At("", "").Resource, "default", view.Key{}) {
		p := e.Object.(*v1.Pod)
		if ref := metav1.GetControllerOf(p); ref != nil && replicas.Active(p) {
			name := ref.Name
			if ref.Kind == "ReplicaSet" && strings.Count(name, "-") > 0 {
				name = name[:strings.LastIndex(name, "-")] // a Deployment's
			}
			by[ref.Kind+"/"+name]++
		}
	}
	var out []string
	for name, n := range by {
		out = append(out, fmt.Sprintf("%s=%d", name, n))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func template(app string) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "v1"}}},
	}
}

func (w *world) replicationController(name, app string, n int32) {
	w.t.Helper()
	t := template(app)
	w.must(w.admin.Create(context.Background(), controllers.At("default", ""), &v1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1.ReplicationControllerSpec{Replicas: &n, Selector: t.Labels, Template: &t},
	}))
}

func (w *world) replicaSet(name, app string, n int32) {
	w.t.Helper()
	w.must(w.admin.Create(context.Background(), replicaSets.At("default", ""), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Template: template(app),
		},
	}))
}

func (w *world) statefulSet(name, app string, n int32) {
	w.t.Helper()
	w.must(w.admin.Create(context.Background(), statefulSets.At("default", ""), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &n, ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Template: template(app),
			VolumeClaimTemplates: []v1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
			}}},
		},
	}))
}

// daemonSet is one, with the nodes that it runs on.
func (w *world) daemonSet(name string, nodes ...string) {
	w.t.Helper()
	for _, n := range nodes {
		w.node(n)
		w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", n), func(o runtime.Object) (bool, error) {
			node := o.(*v1.Node)
			node.Spec.Taints, node.Labels = nil, map[string]string{"name": n} // it is ready
			return true, nil
		}))
	}
	w.must(w.admin.Create(context.Background(), daemonSets.At("default", ""), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name)},
	}))
}

// cronJob is one that runs one Job at a time.
func (w *world) cronJob(name, schedule string) {
	w.t.Helper()
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Spec.Schedule, c.Spec.ConcurrencyPolicy, c.Spec.JobTemplate.Spec = schedule, batchv1.ForbidConcurrent, newJob("", nil).Spec
	w.must(w.admin.Create(context.Background(), cronjob.CronJobs.At("default", ""), c))
}

func matches(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return ok && err == nil
}

// claimed are the UIDs of all claims.
func (w *world) claimed() (out []types.UID) {
	synctest.Wait()
	for e := range w.view.Snapshot().All(client.Claims.At("", "").Resource, "default", view.Key{}) {
		out = append(out, e.Meta.GetUID())
	}
	return out
}

// Owners of several kinds that select the same pods have their own each; the pod that nobody controls is taken by one of them.
func TestSelectorsThatMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		stray := pod("stray", "")
		stray.Labels = map[string]string{"app": "same"}
		w.must(w.admin.Create(context.Background(), client.Pods.At("default", ""), stray))
		m := &meddled{Client: w.controllers}
		w.workloads(m)
		w.replicationController("rc", "same", 2)
		w.replicaSet("rs-a", "same", 3)
		w.replicaSet("rs-b", "same", 1)
		w.statefulSet("db", "same", 2)
		w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("work", func(s *batchv1.JobSpec) {
			s.ManualSelector, s.Selector, s.Template.Labels = new(true), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "same"}}, map[string]string{"app": "same"}
			s.Parallelism, s.Completions = new(int32(2)), new(int32(2))
		})))
		w.settle()
		if got := w.held(); got != "Job/work=2 ReplicaSet/rs=4 ReplicationController/rc=2 StatefulSet/db=2" {
			t.Error(got)
		}
		if p := w.get(client.Pods.At("default", "stray")); p == nil || metav1.GetControllerOf(p.(*v1.Pod)) == nil {
			t.Errorf("the stray pod is %v", p)
		}
		if n := m.tried(time.Hour); n > 0 {
			t.Errorf("%d writes in an hour at rest", n)
		}
		// One of them goes, and takes nothing that is another's.
		w.delete(replicaSets.At("default", "rs-a"))
		w.settle()
		if got := w.held(); got != "Job/work=2 ReplicaSet/rs=1 ReplicationController/rc=2 StatefulSet/db=2" {
			t.Error(got)
		}
	})
}

// Two servers that both think they lead: more pods than asked for come for a moment, and then what was asked for is there, once.
func TestTwoOfAKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		m := &meddled{Client: w.controllers}
		w.workloads(m)
		w.workloads(m)
		w.deploy("web", "v1", 4, nil)
		w.statefulSet("db", "db", 3)
		w.replicationController("rc", "rc", 3)
		w.daemonSet("agent", "a", "b")
		w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("work", func(s *batchv1.JobSpec) {
			s.Parallelism, s.Completions = new(int32(2)), new(int32(2))
		})))
		w.settle()
		w.redeploy("web", image("v2"))
		w.settle()
		time.Sleep(time.Minute)
		w.settle()
		if got := w.held(); got != "DaemonSet/agent=2 Job/work=2 ReplicaSet/web=4 ReplicationController/rc=3 StatefulSet/db=3" {
			t.Error(got)
		}
		if n := len(w.claimed()); n != 3 {
			t.Errorf("%d claims", n)
		}
		for _, p := range w.work() {
			if p.Labels[batchv1.JobNameLabel] != "" && p.DeletionTimestamp == nil {
				w.ends(p, v1.PodSucceeded)
			}
		}
		time.Sleep(time.Minute)
		if got := w.jobStatus("work"); got != "0 active, 2 succeeded, 0 failed, SuccessCriteriaMet, Complete" {
			t.Error(got)
		}
		if n := m.tried(time.Hour); n > 0 {
			t.Errorf("%d writes in an hour at rest", n)
		}
		if n := m.tries.Load(); n > 400 {
			t.Errorf("%d writes in all", n)
		}
	})
}

// Two that start Jobs by the clock start each one once.
func TestTwoThatStartJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		m := &meddled{Client: w.controllers}
		w.workloads(m)
		w.workloads(m)
		w.cronJob("cron", "* * * * *")
		started := map[types.UID]bool{}
		const minutes = 10
		for range minutes * 60 {
			time.Sleep(time.Second)
			for _, p := range w.runs() {
				started[metav1.GetControllerOf(p).UID] = true
				w.ends(p, v1.PodSucceeded)
			}
		}
		if len(started) < minutes || len(started) > minutes+1 { // ends takes its time too
			t.Errorf("%d Jobs ran in %d minutes", len(started), minutes)
		}
		if n := m.tries.Load(); n > minutes*30 {
			t.Errorf("%d writes", n)
		}
	})
}

// Whatever a controller is about to write, the object has just been changed: it does what the last change asks for, with a few more tries.
func TestEditedBetweenPlanAndWrite(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(w *world)
		edit func(w *world, n int32) error
		want string
	}{
		{"Deployment", func(w *world) { w.deploy("web", "v1", 3, nil) }, func(w *world, n int32) error {
			_, err := w.admin.Mutate(context.Background(), deployments.At("default", "web"), func(o runtime.Object) (bool, error) {
				d := o.(*appsv1.Deployment)
				d.Annotations = map[string]string{"edited": fmt.Sprint(n)}
				d.Spec.Replicas = new(2 + n%3)
				image(fmt.Sprint("v", n%2))(d)
				return true, nil
			})
			return err
		}, "ReplicaSet/web=2"},
		{"ReplicationController", func(w *world) { w.replicationController("rc", "rc", 3) }, func(w *world, n int32) error {
			_, err := w.admin.Mutate(context.Background(), controllers.At("default", "rc"), func(o runtime.Object) (bool, error) {
				o.(*v1.ReplicationController).Spec.Replicas = new(2 + n%3)
				return true, nil
			})
			return err
		}, "ReplicationController/rc=2"},
		{"StatefulSet", func(w *world) { w.statefulSet("db", "db", 3) }, func(w *world, n int32) error {
			_, err := w.admin.Mutate(context.Background(), statefulSets.At("default", "db"), func(o runtime.Object) (bool, error) {
				s := o.(*appsv1.StatefulSet)
				s.Spec.Replicas, s.Spec.Template.Spec.Containers[0].Image = new(2+n%3), fmt.Sprint("v", n%2)
				return true, nil
			})
			return err
		}, "StatefulSet/db=2"},
		{"Job", func(w *world) {
			w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("work", func(s *batchv1.JobSpec) {
				s.Parallelism, s.Completions = new(int32(3)), new(int32(9))
			})))
		}, func(w *world, n int32) error {
			_, err := w.admin.Mutate(context.Background(), job.Jobs.At("default", "work"), func(o runtime.Object) (bool, error) {
				o.(*batchv1.Job).Spec.Parallelism = new(2 + n%3)
				return true, nil
			})
			return err
		}, "Job/work=2"},
		{"ReplicaSet", func(w *world) { w.replicaSet("rs", "rs", 3) }, func(w *world, n int32) error {
			_, err := w.admin.Mutate(context.Background(), replicaSets.At("default", "rs"), func(o runtime.Object) (bool, error) {
				o.(*appsv1.ReplicaSet).Spec.Replicas = new(2 + n%3)
				return true, nil
			})
			return err
		}, "ReplicaSet/rs=2"},
		{"DaemonSet", func(w *world) { w.daemonSet("agent", "a", "b", "c") }, func(w *world, n int32) error {
			_, err := w.admin.Mutate(context.Background(), daemonSets.At("default", "agent"), func(o runtime.Object) (bool, error) {
				t := &o.(*appsv1.DaemonSet).Spec.Template.Spec
				t.Containers[0].Image, t.NodeSelector = fmt.Sprint("v", n%2), nil
				if n%3 == 1 {
					t.NodeSelector = map[string]string{"name": "a"}
				}
				return true, nil
			})
			return err
		}, "DaemonSet/agent=3"},
		{"CronJob", func(w *world) { w.cronJob("cron", "* * * * *") }, func(w *world, n int32) error {
			_, err := w.admin.Mutate(context.Background(), cronjob.CronJobs.At("default", "cron"), func(o runtime.Object) (bool, error) {
				s := &o.(*batchv1.CronJob).Spec
				s.Suspend, s.JobTemplate.Annotations = new(n%3 == 1), map[string]string{"edited": fmt.Sprint(n)}
				return true, nil
			})
			return err
		}, "Job/cron-*=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.everyNamespace()
				m := &meddled{Client: w.controllers}
				w.workloads(m)
				c.make(w)
				var mu sync.Mutex
				edits := int32(0)
				const all = 60
				m.let(func() {
					mu.Lock()
					defer mu.Unlock()
					if edits == all {
						return
					}
					edits++
					if err := c.edit(w, edits); err != nil {
						t.Error(err)
					}
				})
				began := m.tries.Load()
				claims := map[types.UID]bool{}
				for range 30 {
					w.settle()
					for _, uid := range w.claimed() {
						claims[uid] = true
					}
					time.Sleep(10 * time.Second)
				}
				mu.Lock()
				done := edits
				mu.Unlock()
				for ; done < all; done++ { // it came to rest before
					if err := c.edit(w, done+1); err != nil {
						t.Error(err)
					}
				}
				m.let(nil)
				w.settle()
				time.Sleep(time.Minute)
				w.settle()
				if got := w.held(); !matches(c.want, got) {
					t.Errorf("%s, want %s", got, c.want)
				}
				if n := m.tries.Load() - began; n > 1500 {
					t.Errorf("%d writes for %d edits", n, all)
				}
				if n := m.tried(time.Hour); n > 0 {
					t.Errorf("%d writes in an hour at rest", n)
				}
				for _, uid := range w.claimed() {
					delete(claims, uid)
				}
				if len(claims) > 0 {
					t.Errorf("%d claims are lost", len(claims))
				}
			})
		})
	}
}

// Owners in a circle, and an object that owns itself, stay as long as nobody deletes one of them; then all go.
func TestOwnersInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		m := &meddled{Client: w.controllers}
		w.run(garbage.New(garbage.Config{View: w.view, Client: m, Events: &record.FakeRecorder{}, Kinds: registry.All()}))
		a := w.owned("default", "a", false)
		b := w.owned("default", "b", true, a)
		self := w.owned("default", "self", false)
		for of, owner := range map[string]*v1.ConfigMap{"a": b, "self": self} {
			w.must(w.admin.Mutate(context.Background(), client.ConfigMaps.At("default", of), func(o runtime.Object) (bool, error) {
				o.(*v1.ConfigMap).OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: new(true)}}
				return true, nil
			}))
		}
		if n := m.tried(time.Hour); n > 0 {
			t.Errorf("%d writes in an hour", n)
		}
		if got := w.there("default", "a", "b", "self"); got != "a b self" {
			t.Errorf("left: %s", got)
		}
		w.end(a, metav1.DeletePropagationBackground)
		w.end(self, metav1.DeletePropagationForeground)
		if got := w.there("default", "a", "b", "self"); got != "" {
			t.Errorf("left: %s", got)
		}
	})
}

// A finalizer that nobody removes holds what has it, says so where there is a place for it, and costs nothing meanwhile.
func TestAFinalizerThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := context.Background()
		w.everyNamespace()
		m := &meddled{Client: w.controllers}
		w.workloads(m)
		w.deploy("web", "v1", 2, func(d *appsv1.Deployment) { d.Spec.Template.Finalizers = []string{"example.com/stays"} })
		w.statefulSet("db", "db", 2)
		w.settle()
		w.must(w.admin.Mutate(ctx, client.Pods.At("default", "db-1"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Finalizers = []string{"example.com/stays"}
			return true, nil
		}))
		w.set("db", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "v2" })
		foreground := metav1.DeletePropagationForeground
		if err := w.admin.Delete(ctx, deployments.At("default", "web"), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
		for _, p := range w.work() {
			if p.DeletionTimestamp != nil {
				w.gone(p) // as its kubelet says
			}
		}
		time.Sleep(time.Minute)
		if n := m.tried(time.Hour); n > 0 {
			t.Errorf("%d writes in an hour", n)
		}
		d, _ := w.get(deployments.At("default", "web")).(*appsv1.Deployment)
		p, _ := w.get(client.Pods.At("default", "db-1")).(*v1.Pod)
		if d == nil || d.DeletionTimestamp == nil || p == nil || p.DeletionTimestamp == nil {
			t.Errorf("the Deployment %v, the set's pod %v", d, p)
		}
		if got := w.held(); got != "StatefulSet/db=1" {
			t.Error(got)
		}
	})
}

// A namespace that cannot be emptied says why, and is looked at now and then.
func TestANamespaceThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := context.Background()
		w.everyNamespace()
		w.createNamespace("stays")
		w.must(w.admin.Create(ctx, client.ConfigMaps.At("stays", ""), &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "stays", Name: "held", Finalizers: []string{"example.com/stays"}},
		}))
		p := pod("held", "node-a")
		p.Namespace, p.Finalizers = "stays", []string{"example.com/stays"}
		w.must(w.admin.Create(ctx, client.Pods.At("stays", ""), p))
		w.delete(client.Namespaces.At("", "stays"))
		zero := int64(0)
		if err := w.admin.Delete(ctx, client.Pods.At("stays", "held"), metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		before := w.view.Snapshot().Rev()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := w.view.Snapshot().Rev() - before; n > 10 {
			t.Errorf("%d writes in an hour", n)
		}
		said := map[v1.NamespaceConditionType]string{}
		for _, c := range w.get(client.Namespaces.At("", "stays")).(*v1.Namespace).Status.Conditions {
			if c.Status == v1.ConditionTrue {
				said[c.Type] = c.Message
			}
		}
		if !strings.Contains(said[v1.NamespaceFinalizersRemaining], "example.com/stays in ") || said[v1.NamespaceContentRemaining] == "" {
			t.Errorf("%v", said)
		}
	})
}

// Pods that fail as soon as they are made cost each kind a bounded number of them.
func TestTemplatesThatCannotRun(t *testing.T) {
	for _, c := range []struct {
		name        string
		make        func(w *world)
		least, most int // pods in ten minutes
	}{
		{"ReplicationController", func(w *world) { w.replicationController("web", "web", 1) }, 12, 30},
		{"StatefulSet", func(w *world) { w.statefulSet("web", "web", 2) }, 5, 30},
		{"DaemonSet", func(w *world) {
			w.node("node-a")
			w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", "node-a"), func(o runtime.Object) (bool, error) {
				o.(*v1.Node).Spec.Taints = nil // it is ready
				return true, nil
			}))
			set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			set.Spec.Selector, set.Spec.Template = webSelector, template("web")
			w.must(w.admin.Create(context.Background(), daemonSets.At("default", ""), set))
		}, 5, 30},
		{"Job", func(w *world) {
			w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("web", func(s *batchv1.JobSpec) { s.BackoffLimit = new(int32(4)) })))
		}, 5, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.everyNamespace()
				w.workloads(w.controllers)
				c.make(w)
				made := map[types.UID]bool{}
				for range 6000 {
					time.Sleep(100 * time.Millisecond)
					for _, p := range w.work() {
						made[p.UID] = true
						switch {
						case p.DeletionTimestamp != nil:
							w.gone(p)
						case p.Status.Phase == v1.PodPending:
							w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", p.Name).Sub("status"), func(o runtime.Object) (bool, error) {
								o.(*v1.Pod).Status.Phase, o.(*v1.Pod).Status.Reason = v1.PodFailed, "NodeAffinity"
								return true, nil
							}))
						}
					}
				}
				if n := len(made); n < c.least || n > c.most {
					t.Errorf("%d pods in ten minutes, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}

// A rollout of a StatefulSet that cannot go on says so, for as long as that is so; others' conditions stay.
func TestAStuckRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		m := &meddled{Client: w.controllers}
		w.workloads(m)
		w.statefulSet("db", "web", 2)
		w.kubelets()
		w.must(w.admin.Mutate(context.Background(), statefulSets.At("default", "db").Sub("status"), func(o runtime.Object) (bool, error) {
			o.(*appsv1.StatefulSet).Status.Conditions = []appsv1.StatefulSetCondition{{Type: "Theirs", Status: v1.ConditionTrue}}
			return true, nil
		}))
		says := func() string {
			s := w.get(statefulSets.At("default", "db")).(*appsv1.StatefulSet).Status
			var out []string
			for _, c := range s.Conditions {
				out = append(out, strings.TrimSpace(fmt.Sprint(c.Type, "=", c.Status, " ", c.Reason, " ", strings.ReplaceAll(c.Message, s.UpdateRevision, "NEW"))))
			}
			return strings.Join(out, ", ")
		}
		w.set("db", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "broken" })
		w.kubelets()
		time.Sleep(9 * time.Minute)
		if got := says(); got != "Theirs=True" {
			t.Errorf("early: %s", got)
		}
		time.Sleep(2 * time.Minute)
		const stuck = `Theirs=True, Progressing=False RolloutStuck Pod "db-1" of revision "NEW" has not been available for 10m0s.`
		if got := says(); got != stuck {
			t.Errorf("late: %s", got)
		}
		if n := m.tried(time.Hour); n > 0 {
			t.Errorf("%d writes in an hour", n)
		}
		// Another template, and the pod that is in the way goes, as upstream wants it.
		w.set("db", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "v3" })
		w.gone(w.get(client.Pods.At("default", "db-1")).(*v1.Pod))
		time.Sleep(time.Second)
		w.kubelets()
		if got := says() + ", " + w.images(); got != "Theirs=True, db-0=v3 db-1=v3" {
			t.Errorf("mended: %s", got)
		}
		// One whose pods fail at once is told as soon as their back-off is at its longest.
		w.set("db", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "broken" })
		for range 1500 {
			time.Sleep(100 * time.Millisecond)
			for _, p := range w.work() {
				switch {
				case p.DeletionTimestamp != nil:
					w.gone(p)
				case p.Status.Phase == v1.PodPending:
					w.ends(p, v1.PodFailed)
				}
			}
		}
		if got := says(); got != `Theirs=True, Progressing=False RolloutStuck Pod "db-1" of revision "NEW" fails whenever it is made.` {
			t.Errorf("failing: %s", got)
		}
	})
}

// Somebody takes every pod's labels away as soon as it is made: its owner makes others, at a bounded rate, and loses none.
func TestAFightOverPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		m := &meddled{Client: w.controllers}
		w.workloads(m)
		w.replicationController("rc", "rc", 1)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			for _, p := range w.podsOf("rc") {
				w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", p.Name), func(o runtime.Object) (bool, error) {
					o.(*v1.Pod).Labels["app"] = "taken"
					return true, nil
				}))
			}
		}
		if n := len(w.podsOf("taken")); n < 50 || n > 100+60*5 {
			t.Errorf("%d pods in a minute", n)
		}
		time.Sleep(time.Minute)
		if got := w.held(); got != "ReplicationController/rc=1" {
			t.Error(got)
		}
	})
}

// A pod that somebody else takes between a Job's look at it and its word is not waited for: the Job looks again by itself, and has pods of its own.
func TestWhatIsTakenByAnotherIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		stray := pod("stray", "")
		stray.Labels = map[string]string{"app": "same"}
		w.must(w.admin.Create(context.Background(), client.Pods.At("default", ""), stray))
		m := &meddled{Client: w.controllers}
		m.let(sync.OnceFunc(func() {
			w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", "stray"), func(o runtime.Object) (bool, error) {
				o.(*v1.Pod).OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ReplicationController", Name: "rc", UID: "rc", Controller: new(true)}}
				return true, nil
			}))
		}))
		w.run(job.New(loop.Parts{View: w.view, Client: m, Events: &record.FakeRecorder{}}))
		w.must(w.admin.Create(context.Background(), job.Jobs.At("default", ""), newJob("work", func(s *batchv1.JobSpec) {
			s.ManualSelector, s.Selector, s.Template.Labels = new(true), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "same"}}, map[string]string{"app": "same"}
		})))
		time.Sleep(5 * time.Second)
		if got := w.held(); got != "Job/work=1 ReplicationController/rc=1" {
			t.Error(got)
		}
	})
}

// What a workload owns without controlling it is taken by the reference that there is: nobody stands among the owners of an object twice.
func TestWhatIsOwnedIsNotOwnedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.workloads(&meddled{Client: w.controllers})
		w.deploy("web", "v1", 1, nil)
		w.statefulSet("db", "db", 1)
		w.settle()
		checked := map[string]int{}
		for _, kind := range []client.Resource{client.Pods, replicaSets, {Group: "apps", Resource: "controllerrevisions"}} {
			for e := range w.view.Snapshot().All(schema.GroupResource(kind), "", view.Key{}) {
				was := metav1.GetControllerOf(e.Meta)
				ref := kind.At(e.Key.Namespace, e.Key.Name)
				w.must(w.admin.Mutate(context.Background(), ref, func(o runtime.Object) (bool, error) {
					o.(metav1.Object).SetOwnerReferences([]metav1.OwnerReference{{APIVersion: was.APIVersion, Kind: was.Kind, Name: was.Name, UID: was.UID}})
					return true, nil
				}))
				w.settle()
				if refs := w.get(ref).(metav1.Object).GetOwnerReferences(); len(refs) != 1 || refs[0].Controller == nil || !*refs[0].Controller {
					t.Errorf("%s %s is owned by %v", kind.Resource, e.Key.Name, refs)
				}
				checked[kind.Resource]++
			}
		}
		if len(checked) != 3 {
			t.Errorf("looked at %v", checked)
		}
	})
}
