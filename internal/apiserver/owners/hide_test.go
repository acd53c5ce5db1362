package owners

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is not compared because it is not changed makes no difference to who owns what: the same writes with and without.
func TestHiddenMakesNoDifference(t *testing.T) {
	o, k := pods(t)
	o.now = func() time.Time { return time.Unix(1700000000, 0) }
	all, _ := pods(t)
	all.now, all.hidden = o.now, nil
	if len(o.hidden[keeper{k, "status"}]) == 0 || len(o.hidden[keeper{k, ""}]) == 0 {
		t.Fatal("nothing is hidden of a pod's status and of a pod: this test shows nothing")
	}
	change := []struct {
		sub, manager string
		do           func(*v1.Pod)
	}{
		{"status", "kubelet", func(p *v1.Pod) {
			p.Status.Phase, p.Status.PodIPs = v1.PodRunning, []v1.PodIP{{IP: "10.0.0.1"}}
			p.Spec.Containers[0].Env = nil // a status comes with whatever spec
			p.Spec.NodeSelector = map[string]string{"a": "b"}
		}},
		{"status", "other", func(p *v1.Pod) {
			p.Status.Phase = v1.PodFailed
			p.Status.PodIPs = nil
			p.Status.Conditions = []v1.PodCondition{{Type: "x"}}
			p.Annotations = map[string]string{"a": "b"}
		}},
		{"", "editor", func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d"})
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "B"}}
			p.Labels["b"] = "c"
			p.Status = v1.PodStatus{}
		}},
		{"resize", "resizer", func(p *v1.Pod) {
			p.Spec.Containers[0].Image, p.Status.Phase = "j", v1.PodPending
		}},
		{"status", "kubelet", func(p *v1.Pod) { p.Status.Conditions[0].Status = "True" }},
	}
	var live *v1.Pod
	for i, c := range change {
		if i == 0 {
			live = benchPod()
			k.Default(live)
			o.Created(k, live, "creator")
			live.UID = "u"
		}
		one, two := live.DeepCopy(), live.DeepCopy()
		c.do(one)
		c.do(two)
		o.Updated(k, c.sub, live, one, c.manager)
		all.Updated(k, c.sub, live, two, c.manager)
		if !apiequality.Semantic.DeepEqual(one, two) {
			t.Errorf("change %d: %s\nand with all that there is: %s", i, show(one.ManagedFields), show(two.ManagedFields))
		}
		if c.sub != "" {
			one.Spec = live.Spec
		} else {
			one.Status = live.Status
		}
		live = one
	}
	if len(live.ManagedFields) < 4 {
		t.Errorf("too few came to own anything: %s", show(live.ManagedFields))
	}
}

func show(entries []metav1.ManagedFieldsEntry) (out string) {
	for _, e := range entries {
		out += "\n" + e.Manager + " " + e.Subresource + " " + string(e.FieldsV1.GetRawBytes())
	}
	return out
}
