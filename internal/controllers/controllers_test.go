// Package controllers_test runs the controllers over the real API verbs, in bubbles.
package controllers_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/namespaces"
	"podo.dev/podo/internal/controllers/nodelifecycle"
	"podo.dev/podo/internal/controllers/podgc"
	"podo.dev/podo/internal/controllers/priorityclasses"
	"podo.dev/podo/internal/controllers/serviceaccounts"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

type world struct {
	t           *testing.T
	view        *view.View
	store       store.Store
	verbs       *verbs.Verbs
	admin       client.Client
	controllers client.Client
	board       *loop.Board
}

func newWorld(t *testing.T) *world {
	t.Helper()
	v, s := viewtest.New(t)
	addresses := &admit.ServiceAddresses{View: v, Store: s, CIDR: netip.MustParsePrefix("10.43.0.0/16"), Ports: admit.NodePorts{First: 30000, Last: 30001}}
	vs, err := verbs.New(verbs.Config{Store: s, View: v, Kinds: registry.All(), Admission: admit.Chain{addresses}})
	if err != nil {
		t.Fatal(err)
	}
	return worldOf(t, v, s, vs)
}

// worldOf has an API that was made elsewhere.
func worldOf(t *testing.T, v *view.View, s store.Store, vs *verbs.Verbs) *world {
	return &world{t: t, view: v, store: s, verbs: vs, admin: local.Admin(vs), controllers: local.Controllers(vs), board: loop.NewBoard()}
}

func (w *world) run(c component.Component, err error) (stop func()) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		if l, ok := c.(*loop.Loop); ok {
			done <- w.board.Run(ctx, l, func() { close(ready) })
		} else {
			done <- c.Run(ctx, func() { close(ready) })
		}
	}()
	select {
	case <-ready:
	case err := <-done:
		w.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) namespaces() {
	w.t.Helper()
	w.run(namespaces.New(namespaces.Config{View: w.view, Client: w.controllers, Kinds: registry.All()}))
	synctest.Wait()
}

func (w *world) must(_ runtime.Object, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(ref client.Ref) runtime.Object {
	w.t.Helper()
	synctest.Wait()
	obj, err := w.admin.Get(context.Background(), ref)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return obj
}

// metric is what controllers that run tell: a value or, of a histogram, how often something was observed. labels are values, in the order
// of their names. 0 is for what nobody has told.
func (w *world) metric(name string, labels ...string) float64 {
	w.t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(w.board)
	families, err := r.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(has, labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

// node registers a node as a kubelet does, ready, with a lease.
func (w *world) node(name string) {
	w.t.Helper()
	ctx := context.Background()
	w.must(w.admin.Create(ctx, client.Nodes.At("", ""), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	w.must(w.admin.Mutate(ctx, client.Nodes.At("", name).Sub("status"), func(o runtime.Object) (bool, error) {
		o.(*v1.Node).Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}
		return true, nil
	}))
	now := metav1.NewMicroTime(time.Now())
	w.must(w.admin.Create(ctx, client.Leases.At(v1.NamespaceNodeLease, ""), &coordv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: name}, Spec: coordv1.LeaseSpec{RenewTime: &now},
	}))
}

func (w *world) renew(name string) {
	w.t.Helper()
	w.must(w.admin.Mutate(context.Background(), client.Leases.At(v1.NamespaceNodeLease, name), func(o runtime.Object) (bool, error) {
		now := metav1.NewMicroTime(time.Now())
		o.(*coordv1.Lease).Spec.RenewTime = &now
		return true, nil
	}))
}

func (w *world) taints(node string) string {
	w.t.Helper()
	var out []string
	for _, t := range w.get(client.Nodes.At("", node)).(*v1.Node).Spec.Taints {
		out = append(out, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	return strings.Join(out, " ")
}

func pod(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Image: "busybox"}}},
	}
}

func TestSystemNamespacesAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		for _, name := range namespaces.System {
			if w.get(client.Namespaces.At("", name)) == nil {
				t.Errorf("no namespace %s", name)
			}
		}
	})
}

// The classes of the cluster's own pods are there from the start, and again when somebody has deleted one.
func TestSystemPriorityClassesAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(priorityclasses.New(w.view, w.admin, nil))
		classes := client.Resource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
		value := func(name string) int32 {
			c, _ := w.get(classes.At("", name)).(*schedulingv1.PriorityClass)
			if c == nil {
				return 0
			}
			return c.Value
		}
		for range 2 {
			if node, cluster := value("system-node-critical"), value("system-cluster-critical"); node != 2000001000 || cluster != 2000000000 {
				t.Errorf("%d and %d", node, cluster)
			}
			// Admission forbids it to people; what was removed from the store is gone all the same.
			viewtest.Delete(t, w.store, w.get(classes.At("", "system-node-critical")))
			time.Sleep(time.Second)
		}
	})
}

func TestDeletingANamespaceEmptiesItPodsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := context.Background()
		w.namespaces()
		w.run(serviceaccounts.New(w.view, w.controllers, nil))
		w.must(w.admin.Create(ctx, client.Namespaces.At("", ""), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}))
		p := pod("p", "node-a")
		p.Namespace = "work"
		w.must(w.admin.Create(ctx, client.Pods.At("work", ""), p))
		w.must(w.admin.Create(ctx, client.ConfigMaps.At("work", ""), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "cm", Finalizers: []string{"a.io/x"}}}))
		if err := w.admin.Delete(ctx, client.Namespaces.At("", "work"), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ns := w.get(client.Namespaces.At("", "work")).(*v1.Namespace)
		if ns.Status.Phase != v1.NamespaceTerminating {
			t.Errorf("phase %s", ns.Status.Phase)
		}
		said := func(kind v1.NamespaceConditionType) string {
			for _, c := range w.get(client.Namespaces.At("", "work")).(*v1.Namespace).Status.Conditions {
				if c.Type == kind {
					return string(c.Status) + " " + c.Message
				}
			}
			return ""
		}
		if got := said(v1.NamespaceContentRemaining); got != "True Some resources are remaining: configmaps. has 1 resource instances, pods. has 1 resource instances, serviceaccounts. has 1 resource instances" {
			t.Errorf("remaining: %s", got)
		}
		if w.get(client.Pods.At("work", "p")).(*v1.Pod).DeletionTimestamp == nil {
			t.Error("the pod is not being deleted")
		}
		if w.get(client.ConfigMaps.At("work", "cm")).(*v1.ConfigMap).DeletionTimestamp != nil {
			t.Error("the config map goes before the pod that may use it")
		}
		// The kubelet's part.
		zero := int64(0)
		if err := w.admin.Delete(ctx, client.Pods.At("work", "p"), metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := said(v1.NamespaceFinalizersRemaining); got != "True Some content in the namespace has finalizers remaining: a.io/x in 1 resource instances" {
			t.Errorf("finalizers: %s", got)
		}
		w.must(w.admin.Mutate(ctx, client.ConfigMaps.At("work", "cm"), func(o runtime.Object) (bool, error) {
			o.(*v1.ConfigMap).Finalizers = nil
			return true, nil
		}))
		time.Sleep(time.Second)
		if w.get(client.Namespaces.At("", "work")) != nil {
			t.Error("the namespace is still there")
		}
	})
}

func TestSilentNodeIsTaintedAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		w.run(nodelifecycle.New(w.view, w.controllers, nodelifecycle.GracePeriod, nil, nil))
		w.must(w.admin.Create(context.Background(), client.Nodes.At("", ""), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}))
		if got := w.taints("new"); got != "not-ready:NoSchedule" {
			t.Errorf("a new node has %q", got)
		}
		w.node("node-a")
		w.node("other")
		if got := w.taints("node-a"); got != "" {
			t.Errorf("a ready node has %q", got)
		}
		for range 12 {
			time.Sleep(10 * time.Second)
			w.renew("node-a")
			w.renew("other")
		}
		if got := w.taints("node-a"); got != "" {
			t.Errorf("a node that renews its lease has %q", got)
		}
		time.Sleep(49 * time.Second)
		if got := w.taints("node-a"); got != "" {
			t.Errorf("after 49 s of silence %q", got)
		}
		w.renew("other")
		time.Sleep(3 * time.Second)
		if got := w.taints("node-a"); got != "unreachable:NoSchedule unreachable:NoExecute" {
			t.Errorf("after 52 s of silence %q", got)
		}
		c := w.get(client.Nodes.At("", "node-a")).(*v1.Node).Status.Conditions[0]
		if c.Status != v1.ConditionUnknown || c.Reason != "NodeStatusUnknown" {
			t.Errorf("ready is %+v", c)
		}
		w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", "node-a").Sub("status"), func(o runtime.Object) (bool, error) {
			o.(*v1.Node).Status.Conditions[0] = v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}
			return true, nil
		}))
		if got := w.taints("node-a"); got != "" {
			t.Errorf("back again with %q", got)
		}
	})
}

// A restart of the control plane is no silence of the nodes.
func TestRestartBeginsTheGraceAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		stop := w.run(nodelifecycle.New(w.view, w.controllers, nodelifecycle.GracePeriod, nil, nil))
		w.node("node-a")
		synctest.Wait()
		stop()
		time.Sleep(time.Hour)
		w.run(nodelifecycle.New(w.view, w.controllers, nodelifecycle.GracePeriod, nil, nil))
		time.Sleep(49 * time.Second)
		if got := w.taints("node-a"); got != "" {
			t.Errorf("tainted at once: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := w.taints("node-a"); got == "" {
			t.Error("not tainted after its grace")
		}
	})
}

func TestOrphansGoAfterTheQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := context.Background()
		w.namespaces()
		w.run(serviceaccounts.New(w.view, w.controllers, nil))
		w.run(podgc.New(w.view, w.controllers, nil))
		w.node("node-a")
		w.must(w.admin.Create(ctx, client.Pods.At("default", ""), pod("stays", "node-a")))
		w.must(w.admin.Create(ctx, client.Pods.At("default", ""), pod("orphan", "never-was")))
		held := pod("held", "never-was")
		held.Finalizers = []string{"a.io/x"}
		w.must(w.admin.Create(ctx, client.Pods.At("default", ""), held))
		time.Sleep(39 * time.Second)
		if w.get(client.Pods.At("default", "orphan")) == nil {
			t.Error("the orphan went within the quarantine")
		}
		time.Sleep(2 * time.Second)
		if w.get(client.Pods.At("default", "orphan")) != nil {
			t.Error("the orphan is still there")
		}
		if n := w.metric("pod_gc_collector_force_delete_pods_total", "default", "orphaned"); n != 2 {
			t.Errorf("%v pods were removed, by its metric", n)
		}
		p := w.get(client.Pods.At("default", "held")).(*v1.Pod)
		said := false
		for _, c := range p.Status.Conditions {
			said = said || c.Type == v1.DisruptionTarget && c.Reason == "DeletionByPodGC" && c.Message == "PodGC: node no longer exists"
		}
		if p.Status.Phase != v1.PodFailed || !said {
			t.Errorf("phase %s, conditions %+v", p.Status.Phase, p.Status.Conditions)
		}
		if err := w.admin.Delete(ctx, client.Nodes.At("", "node-a"), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(39 * time.Second)
		if w.get(client.Pods.At("default", "stays")) == nil {
			t.Error("a pod went within the quarantine of its node")
		}
		time.Sleep(2 * time.Second)
		if w.get(client.Pods.At("default", "stays")) != nil {
			t.Error("a pod of a deleted node is still there")
		}
	})
}
