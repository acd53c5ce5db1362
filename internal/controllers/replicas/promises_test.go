package replicas

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// pond is a controller object and the pods of its namespace, with nobody between a plan and what it does.
type pond struct {
	wanted int
	pods   map[string]*v1.Pod
	made   int
	now    time.Time
}

var owner = metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"}

func (p *pond) decide() Plan {
	w := Wanted{
		Meta: &owner, Replicas: p.wanted, Selector: labels.SelectorFromSet(labels.Set{"app": "web"}),
		Template: &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
	}
	return Decide(w, p.all(), nil, p.now)
}

func (p *pond) all() (out []*v1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(p.pods)) {
		out = append(out, p.pods[name])
	}
	return out
}

// counts says that a pod is the owner's and counts for it.
func (p *pond) counts(pod *v1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && ref.UID == owner.UID && Active(pod) && pod.Labels["app"] == "web"
}

// held are the pods that count, with those that the owner may take.
func (p *pond) held() (n int) {
	for _, pod := range p.pods {
		if p.counts(pod) || metav1.GetControllerOfNoCopy(pod) == nil && Active(pod) && pod.Labels["app"] == "web" {
			n++
		}
	}
	return n
}

func (p *pond) change(name string, edit func(*v1.Pod)) {
	if pod := p.pods[name]; pod != nil {
		pod = pod.DeepCopy()
		edit(pod)
		p.pods[name] = pod
	}
}

func (p *pond) create(edit func(*v1.Pod)) {
	p.made++
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("web-%04d", p.made), UID: types.UID(fmt.Sprintf("%04d", p.made)), CreationTimestamp: metav1.NewTime(p.now),
		Labels: map[string]string{"app": "web"},
	}}
	pod.Status.Phase = v1.PodPending
	edit(pod)
	p.pods[pod.Name] = pod
}

func own(pod *v1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{UID: owner.UID, Controller: new(true)}}
}

func (p *pond) apply(plan Plan) {
	for _, pod := range plan.Release {
		p.change(pod.Name, func(pod *v1.Pod) { pod.OwnerReferences = nil })
	}
	for _, pod := range plan.Adopt {
		p.change(pod.Name, own)
	}
	for _, pod := range plan.Delete {
		p.change(pod.Name, func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: p.now} })
	}
	for range plan.Create {
		p.create(own)
	}
}

// rules are what the documentation says of the order in which pods go, one after the other: of two pods the one with the smaller number
// goes first.
var rules = []struct {
	name string
	of   func(pod *v1.Pod, p *pond) float64
}{
	{"no node", func(pod *v1.Pod, _ *pond) float64 { return float64(min(len(pod.Spec.NodeName), 1)) }},
	{"pending", func(pod *v1.Pod, _ *pond) float64 {
		return map[v1.PodPhase]float64{v1.PodPending: 0, v1.PodUnknown: 1, v1.PodRunning: 2}[pod.Status.Phase]
	}},
	{"not ready", func(pod *v1.Pod, _ *pond) float64 {
		if _, ready := readySince(pod); ready {
			return 1
		}
		return 0
	}},
	{"cheap", func(pod *v1.Pod, _ *pond) float64 {
		n, _ := strconv.Atoi(pod.Annotations["controller.kubernetes.io/pod-deletion-cost"])
		return float64(n)
	}},
	{"many on its node", func(pod *v1.Pod, p *pond) float64 {
		n := 0.
		for _, other := range p.pods {
			if p.counts(other) && other.Spec.NodeName == pod.Spec.NodeName {
				n--
			}
		}
		return n
	}},
	{"ready for a short time", func(pod *v1.Pod, p *pond) float64 {
		if since, ready := readySince(pod); ready {
			return age(p.now.Sub(since))
		}
		return 0
	}},
	{"restarts", func(pod *v1.Pod, _ *pond) float64 {
		if len(pod.Status.ContainerStatuses) == 0 {
			return 0
		}
		return -float64(pod.Status.ContainerStatuses[0].RestartCount)
	}},
	{"young", func(pod *v1.Pod, p *pond) float64 { return age(p.now.Sub(pod.CreationTimestamp.Time)) }},
}

func readySince(pod *v1.Pod) (time.Time, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// age is compared by its order of magnitude.
func age(d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return math.Floor(math.Log2(float64(d)))
}

// ordered: no pod goes while one stays that should have gone before it.
func (p *pond) ordered(t *rapid.T, plan Plan) {
	going := map[string]bool{}
	for _, pod := range plan.Delete {
		going[pod.Name] = true
	}
	for _, gone := range plan.Delete {
		if !p.counts(p.pods[gone.Name]) {
			t.Fatalf("%s goes, and is none of ours", gone.Name)
		}
		for _, stays := range p.pods {
			if going[stays.Name] || !p.counts(stays) {
				continue
			}
			for _, r := range rules {
				a, b := r.of(gone, p), r.of(stays, p)
				if a > b {
					t.Fatalf("%s goes and %s stays, by the rule %q: %v, %v", gone.Name, stays.Name, r.name, a, b)
				}
				if a < b {
					break
				}
			}
		}
	}
}

// checked applies a plan: never more pods than were there or are wanted, never fewer, what goes goes in the documented order, one state has
// one plan, and a plan that is applied leaves nothing to do.
func (p *pond) checked(t *rapid.T) {
	plan, before := p.decide(), p.held()
	if again := p.decide(); fmt.Sprint(plan) != fmt.Sprint(again) {
		t.Fatalf("two plans: %v and %v", plan, again)
	}
	if plan.Create > 0 && len(plan.Delete) > 0 {
		t.Fatalf("%d are created while %d go", plan.Create, len(plan.Delete))
	}
	for _, pod := range plan.Adopt {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			t.Fatalf("%s of %s is adopted", pod.Name, ref.UID)
		}
	}
	taken := *p
	taken.pods = maps.Clone(p.pods)
	taken.apply(Plan{Adopt: plan.Adopt, Release: plan.Release})
	taken.ordered(t, plan)
	p.apply(plan)
	switch after := p.held(); {
	case after > max(before, p.wanted):
		t.Fatalf("%d pods, there were %d, %d are wanted", after, before, p.wanted)
	case after < min(before, p.wanted):
		t.Fatalf("%d pods, there were %d, %d are wanted", after, before, p.wanted)
	}
	if more := p.decide(); more.Create+len(more.Delete)+len(more.Adopt)+len(more.Release) > 0 {
		t.Fatalf("applied, a plan leaves to do: %+v", more)
	}
}

func (p *pond) any(t *rapid.T) string {
	if len(p.pods) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(p.pods))).Draw(t, "pod")
}

// kubelet brings a pod one step forward.
func (p *pond) kubelet(name, node string) {
	switch pod := p.pods[name]; {
	case pod == nil:
	case pod.DeletionTimestamp != nil:
		delete(p.pods, name)
	case pod.Spec.NodeName == "":
		p.change(name, func(pod *v1.Pod) { pod.Spec.NodeName = node })
	case pod.Status.Phase == v1.PodPending:
		p.change(name, func(pod *v1.Pod) {
			pod.Status.Phase = v1.PodRunning
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(p.now)}}
		})
	}
}

// happen is what may become of pods.
func (p *pond) happen(t *rapid.T) {
	nodes := rapid.SampledFrom([]string{"a", "b", "c"})
	switch rapid.SampledFrom([]string{"kubelet", "kubelet", "kubelet", "time", "scale", "fail", "unready", "restart", "cost", "stray", "taken", "lose"}).Draw(t, "step") {
	case "kubelet":
		p.kubelet(p.any(t), nodes.Draw(t, "node"))
	case "time":
		p.now = p.now.Add(time.Duration(rapid.IntRange(1, 7200).Draw(t, "seconds")) * time.Second)
	case "scale":
		p.wanted = rapid.IntRange(0, 8).Draw(t, "replicas")
	case "fail":
		p.change(p.any(t), func(pod *v1.Pod) { pod.Status.Phase, pod.Status.Conditions = v1.PodFailed, nil })
	case "unready":
		p.change(p.any(t), func(pod *v1.Pod) { pod.Status.Conditions = nil })
	case "restart":
		p.change(p.any(t), func(pod *v1.Pod) {
			pod.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: rapid.Int32Range(0, 3).Draw(t, "restarts")}}
		})
	case "cost":
		p.change(p.any(t), func(pod *v1.Pod) {
			pod.Annotations = map[string]string{"controller.kubernetes.io/pod-deletion-cost": fmt.Sprint(rapid.IntRange(-2, 2).Draw(t, "cost"))}
		})
	case "stray":
		other := rapid.Bool().Draw(t, "another's")
		p.create(func(pod *v1.Pod) {
			if other {
				pod.OwnerReferences = []metav1.OwnerReference{{UID: "other", Controller: new(true)}}
			}
		})
	case "taken":
		p.change(p.any(t), func(pod *v1.Pod) { pod.Labels = map[string]string{"app": "taken"} })
	case "lose":
		delete(p.pods, p.any(t))
	}
}

// Whatever happens in whatever order, plans keep what checked says; and when the world stands still there are as many pods as are wanted,
// and none is held that does not match.
func TestPlansHoldWhatTheyPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pond{wanted: rapid.IntRange(0, 8).Draw(t, "replicas"), pods: map[string]*v1.Pod{}, now: now}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "plans") == 0 {
				p.checked(t)
			} else {
				p.happen(t)
			}
		}
		for range 10 { // failures are forgotten, kubelets do their work
			p.now = p.now.Add(time.Hour)
			p.checked(t)
			for _, name := range slices.Sorted(maps.Keys(p.pods)) {
				p.kubelet(name, "a")
			}
		}
		if n := p.held(); n != p.wanted {
			t.Fatalf("%d pods, %d are wanted", n, p.wanted)
		}
		for _, pod := range p.pods {
			if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.UID == owner.UID && Active(pod) && pod.Labels["app"] != "web" {
				t.Fatalf("%s matches no more, and is held", pod.Name)
			}
		}
	})
}
