package owners

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
)

func benchPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"app": "p"}},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c", Image: "i", Env: []v1.EnvVar{{Name: "A", Value: "b"}}}},
		},
	}
}

func pods(t testing.TB) (*Owners, *registry.Kind) {
	t.Helper()
	o, err := New(registry.All(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return o, registry.Lookup(schema.GroupResource{Resource: "pods"})
}

func BenchmarkTypes(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := makeTypes(); err != nil {
			b.Log(err)
		}
	}
}

func BenchmarkCreated(b *testing.B) {
	o, k := pods(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		p := benchPod()
		k.Default(p)
		b.StartTimer()
		o.Created(k, p, "bench")
	}
}

func BenchmarkStatus(b *testing.B) {
	o, k := pods(b)
	live := benchPod()
	k.Default(live)
	o.Created(k, live, "bench")
	live.UID = "u"
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		p := live.DeepCopy()
		p.Status.Phase = v1.PodRunning
		p.Status.PodIPs = []v1.PodIP{{IP: "10.0.0.1"}}
		p.Status.PodIP = "10.0.0.1"
		for _, c := range []v1.PodConditionType{"Ready", "ContainersReady", "Initialized", "PodScheduled"} {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: c, Status: v1.ConditionTrue})
		}
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", Image: "i", Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
		b.StartTimer()
		o.Updated(k, "status", live, p, "kubelet")
	}
}

// Every kind that is written has a schema to merge by: without one, its writers own nothing and it cannot be applied to.
func TestEveryKindHasAType(t *testing.T) {
	all, err := types()
	if err != nil {
		t.Error(err)
	}
	for _, k := range append(registry.All(), registry.TokenRequest) {
		if _, ok := all[k.GVK]; !ok && (!k.Unstored || k == registry.TokenRequest || slices.Contains(k.Verbs, "create")) {
			t.Errorf("%v has no type", k.GVK)
		}
	}
}

// What a write resets, its writer does not own; every path that the registry names is one of the kind's.
func TestResetsAreFields(t *testing.T) {
	all, err := types()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range registry.All() {
		for sub, rules := range k.Updates {
			for _, path := range rules.Resets {
				at := all[k.GVK].TypeRef
				for name := range strings.SplitSeq(path, ".") {
					atom, ok := all[k.GVK].Schema.Resolve(at)
					if !ok || atom.Map == nil {
						t.Fatalf("%s/%s resets %s, which is nothing", k.Resource, sub, path)
					}
					f, ok := atom.Map.FindField(name)
					if !ok {
						t.Fatalf("%s/%s resets %s, which is nothing", k.Resource, sub, path)
					}
					at = f.Type
				}
			}
		}
	}
}
