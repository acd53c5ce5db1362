package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

// disks is a plug-in with everything that one can have: a pod with the label "disk" needs a ConfigMap of that name, which says on which
// node it is, and has it to itself from Reserve on.
type disks struct {
	view *view.View

	mu     sync.Mutex
	held   map[string]string // by disk, the pod
	fail   error             // of PreBind
	hangs  chan struct{}     // what PreBind waits for
	ended  []string
	failed int
}

func (d *disks) Name() string { return "Disks" }

func (d *disks) Relate(_ *framework.Cluster, pod *framework.Pod) framework.Related {
	if pod.Object == nil || pod.Object.Labels["disk"] == "" {
		return nil
	}
	out := &diskOf{d: d, pod: pod.Object.Name, name: pod.Object.Labels["disk"]}
	if e := d.view.Snapshot().Get(configMaps, "ns", out.name); e != nil {
		out.node = e.Object.(*v1.ConfigMap).Data["node"]
	}
	return out
}

func (d *disks) Kinds() []schema.GroupResource { return []schema.GroupResource{configMaps} }

func (d *disks) Helps(pod *v1.Pod, _ schema.GroupResource, _, is runtime.Object) bool {
	m, ok := is.(*v1.ConfigMap)
	return ok && m.Name == pod.Labels["disk"]
}

type diskOf struct {
	d               *disks
	pod, name, node string
}

func (o *diskOf) Personal()                                   {}
func (o *diskOf) Binding() bool                               { return true }
func (o *diskOf) Explain(*framework.Node) []timeline.Field    { return nil }
func (o *diskOf) Score([]*framework.Node, []int64) bool       { return false }
func (o *diskOf) Only() ([]string, bool)                      { return []string{o.node}, true }
func (o *diskOf) Filter(*framework.Node) *framework.Rejection { return nil }

func (o *diskOf) Refused() *framework.Rejection {
	if o.node == "" {
		return &framework.Rejection{Plugin: "Disks", Reasons: []string{fmt.Sprintf("disk %q not found", o.name)}, Unresolvable: true}
	}
	return nil
}

func (o *diskOf) Reserve(*framework.Node) (framework.Reservation, error) {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if by := o.d.held[o.name]; by != "" {
		o.d.failed++
		return nil, fmt.Errorf("disk %s is %s's", o.name, by)
	}
	o.d.held[o.name] = o.pod
	return o, nil
}

func (o *diskOf) Name() string { return "Disks" }

func (o *diskOf) PreBind(ctx context.Context, _ client.Client) error {
	o.d.mu.Lock()
	hangs, err := o.d.hangs, o.d.fail
	o.d.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (o *diskOf) End(bound bool) {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	delete(o.d.held, o.name)
	o.d.ended = append(o.d.ended, fmt.Sprintf("%s %v", o.pod, bound))
}

func withDisks(w *world) *disks {
	d := &disks{view: w.view, held: map[string]string{}}
	w.profiles = profile.Default(profile.Given{})
	set := &w.profiles.Profiles[0].Set
	set.Relations = append(set.Relations, plugins.Relation{Relation: d, Filters: true})
	return d
}

func (w *world) disk(name, node string) {
	w.t.Helper()
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"node": node}}
	if _, err := w.admin.Create(context.Background(), client.Resource(configMaps).At("ns", ""), m); err != nil {
		w.t.Fatal(err)
	}
}

func needs(name, disk string) *v1.Pod {
	p := pod(name, "100m")
	p.Labels = map[string]string{"disk": disk}
	return p
}

// A pod that a plug-in refuses waits for what that plug-in names and for nothing else.
func TestRefusedPodWaitsForWhatItsPluginNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := withDisks(w)
		w.node(node("node-a", "4"))
		w.start()
		w.create(needs("p", "x"))
		const want = `0/1 nodes are available: disk "x" not found. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.`
		if c := condition(w.pod("p"), v1.PodScheduled); c.Message != want {
			t.Errorf("%q", c.Message)
		}
		w.node(node("node-b", "4"))
		w.disk("y", "node-a")
		time.Sleep(time.Minute)
		if n := w.attempts("p"); n != 1 {
			t.Errorf("tried %d times, though nothing that helps has happened", n)
		}
		w.disk("x", "node-b")
		time.Sleep(time.Second)
		w.on("p", "node-b")
		if fmt.Sprint(d.ended) != "[p true]" {
			t.Errorf("ended: %v", d.ended)
		}
	})
}

// What is set aside for a pod is given back when its bind fails or what comes before it does; while that lasts, others go on.
func TestReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := withDisks(w)
		w.node(node("node-a", "4"))
		w.disk("x", "node-a")
		d.hangs, d.fail = make(chan struct{}), errors.New("no power")
		w.start()
		w.create(needs("p", "x"))
		for i := range 50 { // more than there are binders
			w.disk(fmt.Sprint("d", i), "node-a")
		}
		w.create(needs("q", "x"))
		for i := range 20 {
			w.create(needs(fmt.Sprint("p", i), fmt.Sprint("d", i)))
		}
		w.create(pod("plain", "100m"))
		w.on("plain", "node-a")
		if d.failed == 0 {
			t.Error("two pods got one disk")
		}
		if c := condition(w.pod("q"), v1.PodScheduled); c.Reason != v1.PodReasonSchedulerError || c.Message != `running Reserve plugin "Disks": disk x is p's` {
			t.Errorf("%s %q", c.Reason, c.Message)
		}
		close(d.hangs)
		synctest.Wait()
		if c := condition(w.pod("p"), v1.PodScheduled); c.Reason != v1.PodReasonSchedulerError || c.Message != `running PreBind plugin "Disks": no power` {
			t.Errorf("%s %q", c.Reason, c.Message)
		}
		d.mu.Lock()
		d.fail = nil
		d.mu.Unlock()
		time.Sleep(time.Minute)
		w.on("p", "node-a")
		w.on("p19", "node-a")
	})
}

// attempts is how often a pod was tried.
func (w *world) attempts(name string) (n int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if r.Stage == timeline.Attempt && r.Pod.Name == name {
			n++
		}
	}
	return n
}
