package daemonset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/controllers/podset"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// land is a set, nodes and pods, with nobody between a plan and what it does.
type land struct {
	set   *appsv1.DaemonSet
	hash  string
	nodes map[string]*v1.Node
	pods  map[string]*v1.Pod
	made  int
}

type fatal interface{ Fatalf(string, ...any) }

func newLand(nodes ...string) *land {
	l := &land{
		set:  &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "set"}},
		hash: "v1", nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{},
	}
	l.rolling(0, 1)
	for _, n := range nodes {
		l.nodes[n] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}}
	}
	return l
}

func (l *land) rolling(surge, unavailable int32) {
	l.set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
		Type: appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{
			MaxSurge: new(intstr.FromInt32(surge)), MaxUnavailable: new(intstr.FromInt32(unavailable)),
		},
	}
}

func (l *land) decide() Plan {
	s := State{Set: l.set, Hash: l.hash, Now: now, Waiting: func(string) time.Duration { return 0 }}
	for _, n := range slices.Sorted(maps.Keys(l.nodes)) {
		s.Nodes = append(s.Nodes, l.nodes[n])
	}
	for _, p := range slices.Sorted(maps.Keys(l.pods)) {
		s.Pods = append(s.Pods, l.pods[p])
	}
	return Decide(s)
}

func (l *land) apply(p Plan) (did []string) {
	for _, node := range p.Create {
		l.made++
		pod := kind.New(l.set, &l.set.Spec.Template)
		fit(pod, l.set, node, l.hash)
		pod.Name, pod.UID = fmt.Sprintf("agent-%04d", l.made), types.UID(fmt.Sprint(l.made))
		pod.CreationTimestamp, pod.Status.Phase = metav1.NewTime(now.Add(time.Duration(l.made)*time.Second)), v1.PodPending
		l.pods[pod.Name] = pod
		did = append(did, "+"+node+"="+l.hash)
	}
	for _, pod := range p.Delete {
		node, _ := target(pod)
		gone := pod.DeepCopy()
		gone.DeletionTimestamp = &metav1.Time{Time: now}
		l.pods[pod.Name] = gone
		did = append(did, "-"+node)
	}
	return did
}

func (l *land) kubelet(name string) {
	pod := l.pods[name]
	if pod == nil {
		return
	}
	if pod.DeletionTimestamp != nil {
		delete(l.pods, name)
		return
	}
	node, _ := target(pod)
	if l.nodes[node] == nil || pod.Status.Phase == v1.PodFailed || pod.Labels[appsv1.ControllerRevisionHashLabelKey] == "broken" {
		return
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName, pod.Status.Phase = node, v1.PodRunning
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	l.pods[name] = pod
}

func (l *land) text() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(l.pods)) {
		p := l.pods[name]
		node, _ := target(p)
		out = append(out, fmt.Sprint(node, "=", p.Labels[appsv1.ControllerRevisionHashLabelKey], p.Status.Phase, p.DeletionTimestamp != nil))
	}
	return strings.Join(out, " ")
}

func (l *land) settle(t fatal) (did []string) {
	for range 200 {
		step, before := l.apply(l.decide()), l.text()
		for _, name := range slices.Sorted(maps.Keys(l.pods)) {
			l.kubelet(name)
		}
		if len(step) == 0 && before == l.text() {
			return did
		}
		did = append(did, step...)
	}
	t.Fatalf("it never ends: %v", did[max(0, len(did)-20):])
	return nil
}

func (l *land) expect(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(l.settle(t), " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestNodesComeAndGo(t *testing.T) {
	l := newLand("a", "b")
	l.expect(t, "+a=v1 +b=v1")
	l.nodes["c"] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	l.expect(t, "+c=v1")
	// What keeps new pods away lets those stay that are there; a node in trouble keeps its daemon; what evicts does.
	taint := func(key string, effect v1.TaintEffect) {
		l.nodes["c"].Spec.Taints = []v1.Taint{{Key: key, Effect: effect}}
	}
	taint("x", v1.TaintEffectNoSchedule)
	l.expect(t, "")
	if s := l.decide().Status; s.DesiredNumberScheduled != 2 || s.NumberMisscheduled != 1 {
		t.Errorf("%+v", s)
	}
	taint(v1.TaintNodeUnreachable, v1.TaintEffectNoExecute)
	l.expect(t, "")
	taint("x", v1.TaintEffectNoExecute)
	l.expect(t, "-c")
	taint(v1.TaintNodeUnschedulable, v1.TaintEffectNoSchedule)
	l.expect(t, "+c=v1")
	l.set.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	l.nodes["a"].Labels = map[string]string{"disk": "ssd"}
	l.expect(t, "-b -c")
}

func TestRollout(t *testing.T) {
	l := newLand("a", "b", "c")
	l.settle(t)
	l.hash = "v2"
	l.expect(t, "-a +a=v2 -b +b=v2 -c +c=v2")
	l.rolling(0, 2)
	l.hash = "v3"
	l.expect(t, "-a -b +a=v3 +b=v3 -c +c=v3")
	l.rolling(1, 0)
	l.hash = "v4"
	l.expect(t, "+a=v4 -a +b=v4 -b +c=v4 -c")
	l.hash = "broken" // costs one pod too many, and nothing that works
	l.expect(t, "+a=broken")
	l.hash = "v5"
	l.expect(t, "-a +a=v5 -a +b=v5 -b +c=v5 -c")
	l.set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	l.hash = "v6"
	l.expect(t, "")
	for _, name := range slices.Sorted(maps.Keys(l.pods))[:1] {
		delete(l.pods, name)
	}
	l.expect(t, "+a=v6")
}

// Failed pods wait for their turn, and are told of once it is there.
func TestFailedPods(t *testing.T) {
	l := newLand("a")
	l.settle(t)
	for name, pod := range l.pods {
		pod = pod.DeepCopy()
		pod.Status.Phase = v1.PodFailed
		l.pods[name] = pod
	}
	p := l.decide()
	if len(p.Failed) != 1 || len(p.Delete) != 1 {
		t.Errorf("%+v", p)
	}
	s := State{Set: l.set, Nodes: []*v1.Node{l.nodes["a"]}, Hash: l.hash, Now: now, Waiting: func(string) time.Duration { return time.Minute }}
	for _, pod := range l.pods {
		s.Pods = append(s.Pods, pod)
	}
	if p := Decide(s); len(p.Failed)+len(p.Delete)+len(p.Create) != 0 || p.Again != time.Minute {
		t.Errorf("%+v", p)
	}
}

// Whatever happens in whatever order: of the nodes whose pod is available no more lose it for a rollout than may be without one, nodes have
// at most two pods, plans end by themselves and undo nothing of each other, and when the world stands still every node that should has one,
// of the template.
func TestPlansHoldWhatTheyPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		l := newLand(names...)
		most, surge := rapid.Int32Range(1, 3).Draw(t, "unavailable"), int32(0)
		if rapid.Bool().Draw(t, "surges") {
			surge, most = most, 0
		}
		l.rolling(surge, most)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"plan", "plan", "kubelet", "kubelet", "template", "fail", "lose", "twin", "node"}).Draw(t, "step") {
			case "plan":
				l.checked(t, int(most))
				l.rests(t, int(most))
			case "kubelet":
				l.kubelet(l.any(t))
			case "template":
				l.hash = rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "hash")
			case "fail":
				if pod := l.pods[l.any(t)]; pod != nil {
					pod = pod.DeepCopy()
					pod.Status.Phase, pod.Status.Conditions = v1.PodFailed, nil
					l.pods[pod.Name] = pod
				}
			case "lose":
				delete(l.pods, l.any(t))
			case "twin": // as another server's controller makes one
				if pod := l.pods[l.any(t)]; pod != nil {
					l.made++
					twin := pod.DeepCopy()
					twin.Name, twin.CreationTimestamp = fmt.Sprintf("agent-%04d", l.made), metav1.NewTime(now.Add(time.Duration(l.made)*time.Second))
					l.pods[twin.Name] = twin
				}
			case "node":
				n := l.nodes[rapid.SampledFrom(names).Draw(t, "node")].DeepCopy()
				n.Spec.Taints = nil
				if effect := rapid.SampledFrom([]v1.TaintEffect{"", v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute}).Draw(t, "taint"); effect != "" {
					n.Spec.Taints = []v1.Taint{{Key: "x", Effect: effect}}
				}
				l.nodes[n.Name] = n
			}
		}
		for range 60 {
			l.checked(t, int(most))
			for _, name := range slices.Sorted(maps.Keys(l.pods)) {
				l.kubelet(name)
			}
		}
		place := placementOf(l.set)
		for _, n := range l.nodes {
			run, stay := place.on(n)
			count := 0
			for _, pod := range l.pods {
				if node, _ := target(pod); node == n.Name {
					count++
					if _, ready := podset.Ready(pod); run && (!ready || pod.Labels[appsv1.ControllerRevisionHashLabelKey] != l.hash) {
						t.Fatalf("%s is wanted on %s: %s", l.hash, n.Name, l.text())
					}
				}
			}
			if run && count != 1 || !stay && count != 0 {
				t.Fatalf("%d pods on %s: %s", count, n.Name, l.text())
			}
		}
	})
}

func (l *land) any(t *rapid.T) string {
	if len(l.pods) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(l.pods))).Draw(t, "pod")
}

// serving are the nodes that should have a pod and have an available one.
func (l *land) serving(going map[string]bool) (n, wanted int) {
	place := placementOf(l.set)
	for _, node := range l.nodes {
		if run, _ := place.on(node); !run {
			continue
		}
		wanted++
		for _, pod := range l.pods {
			_, ready := podset.Ready(pod)
			if on, _ := target(pod); on == node.Name && ready && pod.DeletionTimestamp == nil && !going[pod.Name] {
				n++
				break
			}
		}
	}
	return n, wanted
}

// rests: while nothing else happens a few plans, each as it should be, come to an end, and what one of them creates none deletes.
func (l *land) rests(t *rapid.T, most int) {
	l = &land{set: l.set, hash: l.hash, nodes: l.nodes, pods: maps.Clone(l.pods), made: l.made}
	fresh := l.made
	for range 4 {
		p := l.decide()
		if len(p.Create)+len(p.Delete) == 0 {
			return
		}
		for _, pod := range p.Delete {
			if pod.Name > fmt.Sprintf("agent-%04d", fresh) {
				t.Fatalf("%s comes and goes while nothing happens: %s", pod.Name, l.text())
			}
		}
		l.checked(t, most)
	}
	t.Fatalf("plans without end: %+v", l.decide())
}

// oldestStays: where nothing may be there twice, of several pods that run on a node none goes while a younger one stays.
func (l *land) oldestStays(t *rapid.T, going map[string]bool) {
	if l.set.Spec.UpdateStrategy.RollingUpdate.MaxSurge.IntVal > 0 {
		return
	}
	runs := func(pod *v1.Pod) bool { return pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" && !ended(pod) }
	for name := range going {
		for _, stays := range l.pods {
			if gone := l.pods[name]; runs(gone) && runs(stays) && !going[stays.Name] && stays.Spec.NodeName == gone.Spec.NodeName && stays.CreationTimestamp.After(gone.CreationTimestamp.Time) {
				t.Fatalf("%s goes, and %s, which is younger, stays: %s", name, stays.Name, l.text())
			}
		}
	}
}

func (l *land) checked(t *rapid.T, most int) {
	p := l.decide()
	if again := l.decide(); fmt.Sprint(p.Create, len(p.Delete)) != fmt.Sprint(again.Create, len(again.Delete)) {
		t.Fatalf("two plans")
	}
	going := map[string]bool{}
	for _, pod := range p.Delete {
		going[pod.Name] = true
	}
	l.oldestStays(t, going)
	before, wanted := l.serving(nil)
	if after, _ := l.serving(going); after < before && wanted-after > most {
		t.Fatalf("%d of %d nodes are served, %d after %v: %s", before, wanted, after, p.Delete, l.text())
	}
	l.apply(p)
	on := map[string]int{}
	for _, pod := range l.pods {
		if node, _ := target(pod); pod.DeletionTimestamp == nil {
			on[node]++
		}
	}
	for node, n := range on {
		if n > 2 {
			t.Fatalf("%d pods on %s", n, node)
		}
	}
}
