package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/client"
)

func config(api *fakeAPI, rt *fakeRuntime) Config {
	list := func(memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory), v1.ResourcePods: resource.MustParse("110")}
	}
	return Config{
		Client: api, Runtime: rt, Log: slog.New(slog.DiscardHandler), Name: "n1", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Port: 10250, Version: "v1.37.2", PodCIDR: netip.MustParsePrefix("10.42.0.0/24"),
		Labels: map[string]string{"node-role.kubernetes.io/control-plane": "true"},
		Facts:  Facts{Kernel: "6.18.0", OSImage: "Debian"}, Capacity: list("24683620Ki"), Allocatable: list("24581220Ki"),
	}
}

func settle(d time.Duration) { time.Sleep(d); synctest.Wait() }

// bubble runs body beside a running Manager.
func bubble(t *testing.T, api *fakeAPI, rt *fakeRuntime, body func(m *Manager)) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(config(api, rt))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx, func() {}) }()
		synctest.Wait()
		body(m)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func is(n *v1.Node, typ v1.NodeConditionType) v1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == typ {
			return c
		}
	}
	return v1.NodeCondition{}
}

// What pods are admitted by is known before the API server has answered: static pods do not wait for it.
func TestOwn(t *testing.T) {
	api := newAPI()
	m, err := New(config(api, &fakeRuntime{}))
	if err != nil {
		t.Fatal(err)
	}
	n := m.Own()
	if n.Name != "n1" || n.Labels["kubernetes.io/hostname"] != "n1" || n.Labels["node-role.kubernetes.io/control-plane"] != "true" ||
		n.Status.Allocatable.Pods().Value() != 110 || n.Status.Allocatable.Memory().IsZero() || len(n.Status.Addresses) == 0 {
		t.Errorf("%+v", n)
	}
	if _, err := api.Get(t.Context(), client.Nodes.At("", "n1")); err == nil {
		t.Error("it was registered")
	}
}

// A panic reaches the supervisor: the lease's keeper does not hold it up.
func TestAPanicIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(newAPI(), &fakeRuntime{})
		var ready atomic.Bool
		c.Problems = func() []string {
			if ready.Load() {
				panic("no")
			}
			return nil
		}
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			t.Error(m.Run(t.Context(), func() { ready.Store(true) }))
		}()
		settle(time.Second)
		select {
		case <-ended:
		default:
			t.Error("it hangs")
		}
	})
}

func TestRegistersAndTurnsReadyAtOnce(t *testing.T) {
	api, rt := newAPI(), &fakeRuntime{err: errors.New("no socket")}
	bubble(t, api, rt, func(m *Manager) {
		n := api.node()
		if c := is(n, v1.NodeReady); c.Status != v1.ConditionFalse || c.Reason != "KubeletNotReady" ||
			c.Message != "container runtime status check may not have completed yet" {
			t.Errorf("before the runtime answers: %+v", c)
		}
		if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "node.kubernetes.io/not-ready" || n.Spec.Taints[0].Effect != v1.TaintEffectNoSchedule {
			t.Errorf("taints %v", n.Spec.Taints)
		}
		if n.Labels["kubernetes.io/hostname"] != "n1" || n.Labels["node-role.kubernetes.io/control-plane"] != "true" || n.Spec.PodCIDR != "10.42.0.0/24" {
			t.Errorf("%v %v", n.Labels, n.Spec)
		}
		rt.set(func(f *fakeRuntime) { f.err = nil })
		settle(200 * time.Millisecond)
		want := "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
		if c := is(api.node(), v1.NodeReady); c.Message != want || m.Ready() {
			t.Errorf("without a network: %+v", c)
		}
		rt.set(func(f *fakeRuntime) {
			f.net = true
			f.images = []*runtimev1.Image{
				{RepoTags: []string{"small"}, Size: 1}, {RepoTags: []string{"big"}, RepoDigests: []string{"big@sha"}, Size: 9}, {Size: 5},
			}
		})
		settle(200 * time.Millisecond)
		s := api.node().Status
		if c := is(api.node(), v1.NodeReady); c.Status != v1.ConditionTrue || c.Message != "kubelet is posting ready status" || !m.Ready() {
			t.Errorf("%+v", c)
		}
		if s.NodeInfo.ContainerRuntimeVersion != "containerd://2.4.2" || s.DaemonEndpoints.KubeletEndpoint.Port != 10250 ||
			len(s.Images) != 2 || s.Images[0].Names[0] != "big@sha" || s.RuntimeHandlers[1].Name != "runc" ||
			!*s.RuntimeHandlers[1].Features.UserNamespaces || s.Addresses[0].Address != "10.0.0.1" || s.Addresses[1].Address != "n1" {
			t.Errorf("%+v", s)
		}
		if s.Capacity.Memory().String() != "24683620Ki" || s.Allocatable.Memory().String() != "24581220Ki" || s.Capacity.Pods().Value() != 110 {
			t.Errorf("%v %v", s.Capacity, s.Allocatable)
		}
		if !slices.Contains(s.DeclaredFeatures, "ExtendWebSocketsToKubelet") || s.NodeInfo.RunningInUserNamespace == nil || *s.NodeInfo.RunningInUserNamespace {
			t.Errorf("%v %v", s.DeclaredFeatures, s.NodeInfo.RunningInUserNamespace)
		}
	})
}

func TestIdleNodeWritesOnlyItsLease(t *testing.T) {
	api, rt := newAPI(), &fakeRuntime{net: true}
	bubble(t, api, rt, func(m *Manager) {
		settle(time.Second)
		status, lease, asked := api.count("nodes/status"), api.count("leases"), rt.count()
		settle(4*time.Minute + 30*time.Second)
		if got := api.count("nodes/status") - status; got != 0 {
			t.Errorf("%d status writes on an idle node", got)
		}
		if got := api.count("leases") - lease; got != 27 {
			t.Errorf("%d lease writes in 4.5 minutes, want 27", got)
		}
		if got := rt.count() - asked; got > 28 {
			t.Errorf("the runtime was asked %d times in 4.5 minutes", got)
		}
		before := is(api.node(), v1.NodeReady)
		settle(40 * time.Second)
		after := is(api.node(), v1.NodeReady)
		if api.count("nodes/status")-status != 1 || !after.LastHeartbeatTime.After(before.LastHeartbeatTime.Time) ||
			!after.LastTransitionTime.Equal(&before.LastTransitionTime) {
			t.Errorf("the five minutes' report: %+v -> %+v", before, after)
		}
		l := api.objs["leases/n1"].(*coordinationv1.Lease)
		if *l.Spec.HolderIdentity != "n1" || *l.Spec.LeaseDurationSeconds != 40 || l.OwnerReferences[0].UID != m.UID() || m.UID() == "" {
			t.Errorf("%+v", l)
		}
	})
}

func TestRuntimeGoesDownAndComesBack(t *testing.T) {
	api, rt := newAPI(), &fakeRuntime{net: true}
	bubble(t, api, rt, func(m *Manager) {
		settle(time.Second)
		rt.set(func(f *fakeRuntime) { f.err = errors.New("gone") })
		settle(20 * time.Second)
		if !m.Ready() {
			t.Error("not ready before the runtime was away for half a minute")
		}
		settle(31 * time.Second)
		if c := is(api.node(), v1.NodeReady); c.Message != "container runtime is down" {
			t.Errorf("%+v", c)
		}
		if v := api.node().Status.NodeInfo.ContainerRuntimeVersion; v != "containerd://2.4.2" {
			t.Errorf("version %q while the runtime is away", v)
		}
		rt.set(func(f *fakeRuntime) { f.err = nil })
		m.Poke()
		synctest.Wait()
		if !m.Ready() {
			t.Error("a poke did not make the node look")
		}
	})
}

func TestAPIOutageAndDeletedNode(t *testing.T) {
	api, rt := newAPI(), &fakeRuntime{net: true}
	api.down = errors.New("connection refused")
	bubble(t, api, rt, func(m *Manager) {
		settle(10 * time.Second)
		api.setDown(nil)
		settle(8 * time.Second)
		if api.node() == nil || !m.Ready() {
			t.Fatal("not registered after the API came")
		}
		old := m.UID()
		api.mu.Lock()
		delete(api.objs, "nodes/n1")
		delete(api.objs, "leases/n1")
		api.mu.Unlock()
		settle(30 * time.Second)
		if api.node() == nil || m.UID() == old || is(api.node(), v1.NodeReady).Status != v1.ConditionTrue {
			t.Error("a deleted node was not registered again")
		}
		if l, _ := api.objs["leases/n1"].(*coordinationv1.Lease); l == nil || l.OwnerReferences[0].UID != m.UID() {
			t.Errorf("lease %+v", l)
		}
	})
}

func TestTakesOverARegisteredNode(t *testing.T) {
	api, rt := newAPI(), &fakeRuntime{net: true}
	api.objs["nodes/n1"] = &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "old", Labels: map[string]string{"mine": "yes", "kubernetes.io/hostname": "stale"}},
		Spec:       v1.NodeSpec{Unschedulable: true, PodCIDR: "10.9.0.0/24"},
		Status: v1.NodeStatus{Conditions: []v1.NodeCondition{
			{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse}, {Type: v1.NodeReady, Status: v1.ConditionUnknown},
		}},
	}
	bubble(t, api, rt, func(m *Manager) {
		settle(time.Second)
		n := api.node()
		if m.UID() != "old" || n.Labels["mine"] != "yes" || n.Labels["kubernetes.io/hostname"] != "n1" || len(n.Spec.Taints) != 0 ||
			!n.Spec.Unschedulable || n.Spec.PodCIDR != "10.9.0.0/24" {
			t.Errorf("%+v %+v", n.ObjectMeta, n.Spec)
		}
		if is(n, v1.NodeNetworkUnavailable).Status != v1.ConditionFalse || is(n, v1.NodeReady).Status != v1.ConditionTrue || len(n.Status.Conditions) != 5 {
			t.Errorf("%+v", n.Status.Conditions)
		}
	})
}

// A resource that somebody advertises is allocatable as soon as the node is looked at, as much of it as he says, until he takes it back. What
// the kubelet knows itself is as it knows it.
func TestResourcesOfSomebodyElse(t *testing.T) {
	api, rt := newAPI(), &fakeRuntime{net: true}
	bubble(t, api, rt, func(*Manager) {
		settle(time.Second)
		for _, dongles := range []string{"4", "2", ""} {
			if _, err := api.Mutate(t.Context(), client.Nodes.At("", "n1").Sub("status"), func(o runtime.Object) (bool, error) {
				capacity := o.(*v1.Node).Status.Capacity
				delete(capacity, "example.com/dongle")
				if dongles != "" {
					capacity["example.com/dongle"] = resource.MustParse(dongles)
				}
				capacity[v1.ResourceMemory] = resource.MustParse("1Gi")
				return true, nil
			}); err != nil {
				t.Fatal(err)
			}
			settle(11 * time.Second)
			s := api.node().Status
			got, there := s.Allocatable["example.com/dongle"]
			if there != (dongles != "") || there && got.String() != dongles {
				t.Errorf("of %q there are %v %v", dongles, got.String(), there)
			}
			if s.Capacity.Memory().String() != "24683620Ki" || s.Allocatable.Memory().String() != "24581220Ki" {
				t.Errorf("memory: %v of %v", s.Allocatable.Memory(), s.Capacity.Memory())
			}
		}
	})
}

// What users are told of a node, once each: how it is when it is registered, what turns, and that its machine was rebooted.
func TestEvents(t *testing.T) {
	api, rt := newAPI(), &fakeRuntime{net: true}
	var told []string
	take := func() string {
		defer func() { told = nil }()
		return strings.Join(told, "\n")
	}
	run := func(boot string, body func()) {
		cfg := config(api, rt)
		cfg.Facts.BootID = boot
		cfg.Registered = func(time.Time) { told = append(told, "new") }
		cfg.Event = func(eventType, reason, message string) { told = append(told, eventType+" "+reason+": "+message) }
		synctest.Test(t, func(t *testing.T) {
			m, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- m.Run(ctx, func() {}) }()
			settle(time.Second)
			body()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	run("one", func() {
		const want = "Normal Starting: Starting kubelet.\nnew\n" +
			"Normal NodeHasSufficientMemory: Node n1 status is now: NodeHasSufficientMemory\n" +
			"Normal NodeHasNoDiskPressure: Node n1 status is now: NodeHasNoDiskPressure\n" +
			"Normal NodeHasSufficientPID: Node n1 status is now: NodeHasSufficientPID"
		if got := take(); got != want {
			t.Errorf("registered: %s", got)
		}
		rt.set(func(f *fakeRuntime) { f.net = false })
		settle(11 * time.Second)
		if got := take(); got != "Normal NodeNotReady: Node n1 status is now: NodeNotReady" {
			t.Errorf("turned: %s", got)
		}
		rt.set(func(f *fakeRuntime) { f.net = true })
		settle(11 * time.Second)
		if got := take(); got != "Normal NodeReady: Node n1 status is now: NodeReady" {
			t.Errorf("turned back: %s", got)
		}
		for _, name := range []string{"NodeNotSchedulable", "NodeSchedulable"} {
			n := api.node().DeepCopy()
			n.Spec.Unschedulable = name == "NodeNotSchedulable"
			if _, err := api.Update(t.Context(), client.Nodes.At("", "n1"), n); err != nil {
				t.Fatal(err)
			}
			settle(21 * time.Second)
			if got := take(); got != "Normal "+name+": Node n1 status is now: "+name {
				t.Errorf("cordoned or no longer: %s", got)
			}
		}
	})
	run("one", func() {
		if got := take(); got != "Normal Starting: Starting kubelet." {
			t.Errorf("restarted: %s", got)
		}
	})
	run("two", func() {
		if got := take(); got != "Normal Starting: Starting kubelet.\nWarning Rebooted: Node n1 has been rebooted, boot id: two" {
			t.Errorf("rebooted: %s", got)
		}
	})
}

func TestProblemsAndPressureOfOtherModules(t *testing.T) {
	cs := conditions([]string{"a", "b"}, Pressure{Disk: true})
	if cs[3].Message != "[a, b]" || cs[1].Status != v1.ConditionTrue || cs[1].Reason != "KubeletHasDiskPressure" || cs[0].Status != v1.ConditionFalse {
		t.Errorf("%+v", cs)
	}
}

func TestMissingCapabilityIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := config(newAPI(), &fakeRuntime{net: true})
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		m, _ := New(cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := m.Run(ctx, func() {}); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "CAP_SYS_RESOURCE"); n != 1 {
			t.Errorf("said %d times", n)
		}
	})
}
