package registry_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/registry"
)

// valid are the objects of testdata/valid.
func valid(t testing.TB, k *registry.Kind) []runtime.Object {
	t.Helper()
	a, err := txtar.ParseFile("testdata/valid/objects.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out []runtime.Object
	for _, f := range a.Files {
		name := k.Resource
		switch {
		case k.Served == nil:
		case k.Stored().GroupResource() == k.GroupResource():
			name += "." + k.GVK.Version + "." + k.GVK.Group
		default:
			name = k.GroupResource().String()
		}
		if resource, _, _ := strings.Cut(f.Name, " "); resource == name {
			out = append(out, decode(t, k, f.Data))
		}
	}
	if len(out) == 0 {
		t.Fatalf("no %s in testdata/valid", k.Resource)
	}
	return out
}

func TestValidObjects(t *testing.T) {
	for _, k := range registry.All() {
		if k.Computed {
			continue
		}
		for i, obj := range valid(t, k) {
			if errs := create(k, obj); len(errs) > 0 {
				t.Errorf("%s %d: %v", k.Resource, i+1, errs.ToAggregate())
			}
		}
	}
}

// each runs a property over objects of every kind: valid ones, changed in several places.
func each(t *testing.T, property func(t *rapid.T, k *registry.Kind, obj runtime.Object)) {
	for _, k := range registry.All() {
		if k.Unstored || k.Served != nil {
			continue
		}
		bases := valid(t, k)
		t.Run(k.Resource, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				obj := rapid.SampledFrom(bases).Draw(t, "base").DeepCopyObject()
				several(t, obj, 5)
				property(t, k, obj)
			})
		})
	}
}

func several(t *rapid.T, obj runtime.Object, most int) {
	for range rapid.IntRange(0, most).Draw(t, "changes") {
		change(t, reflect.ValueOf(obj).Elem())
	}
}

// Filling twice is as good as once, whatever the object.
func TestDefaultIsIdempotent(t *testing.T) {
	each(t, func(t *rapid.T, k *registry.Kind, obj runtime.Object) {
		k.Default(obj)
		once := obj.DeepCopyObject()
		k.Default(obj)
		if !equality.Semantic.DeepEqual(once, obj) {
			t.Fatalf("twice:\n%s\nonce:\n%s", text(obj), text(once))
		}
	})
}

// What a create accepts stays the same and acceptable when it is written, read and filled again, as the store does.
func TestValidStaysValid(t *testing.T) {
	each(t, func(t *rapid.T, k *registry.Kind, obj runtime.Object) {
		if errs := create(k, obj); len(errs) > 0 {
			t.SkipNow()
		}
		for name, read := range map[string]func(runtime.Object) (runtime.Object, error){"JSON": throughJSON, "protobuf": throughProtobuf} {
			again, err := read(obj)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			k.Default(again)
			if !equality.Semantic.DeepEqual(obj, again) {
				t.Fatalf("%s changed it:\n%s\nfrom:\n%s", name, text(again), text(obj))
			}
			if errs := k.CheckCreate(again); len(errs) > 0 {
				t.Fatalf("after %s: %v", name, errs.ToAggregate())
			}
		}
	})
}

func throughJSON(obj runtime.Object) (runtime.Object, error) {
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	again := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
	return again, json.Unmarshal(raw, again)
}

func throughProtobuf(obj runtime.Object) (runtime.Object, error) {
	s := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var b bytes.Buffer
	if err := s.Encode(obj, &b); err != nil {
		return nil, err
	}
	again, _, err := s.Decode(b.Bytes(), nil, nil)
	if err == nil {
		again.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	}
	return again, err
}

// An update judges any pair of objects without a panic and leaves the old one alone. What it accepts, it accepts again: the same
// change, judged from its own result, is no change, and raises no generation.
func TestUpdates(t *testing.T) {
	each(t, func(t *rapid.T, k *registry.Kind, old runtime.Object) {
		if errs := create(k, old); len(errs) > 0 {
			t.SkipNow()
		}
		m, _ := meta.Accessor(old)
		m.SetResourceVersion("7")
		obj := old.DeepCopyObject()
		several(t, obj, 3)
		k.Default(obj)
		k.Default(old)
		for sub, rules := range k.Updates {
			was, is := old.DeepCopyObject(), obj.DeepCopyObject()
			rules.Prepare(is, old)
			errs := k.CheckUpdate(rules.At(time.Time{}), is, old)
			if !reflect.DeepEqual(was, old) {
				t.Fatalf("%q changed the old object:\n%s\nfrom:\n%s", sub, text(old), text(was))
			}
			if len(errs) > 0 {
				continue
			}
			if rules.Warnings != nil {
				rules.Warnings(is, old)
			}
			again := is.DeepCopyObject()
			k.Default(again)
			rules.Prepare(again, is)
			if !equality.Semantic.DeepEqual(again, is) {
				t.Fatalf("%q is not stable:\n%s\nfrom:\n%s", sub, text(again), text(is))
			}
			if errs := k.CheckUpdate(rules.At(time.Time{}), again, is); len(errs) > 0 {
				t.Fatalf("%q refuses what it accepted: %v\n%s", sub, errs.ToAggregate(), text(is))
			}
		}
	})
}

// What is shown and selected is there for every object, valid or not: a cell a column.
func TestRowsAndFields(t *testing.T) {
	each(t, func(t *rapid.T, k *registry.Kind, obj runtime.Object) {
		if row := k.Row(obj, caseTime); len(row) < len(k.Columns) {
			t.Fatalf("%d cells for %d columns", len(row), len(k.Columns))
		}
		m, _ := meta.Accessor(obj)
		set := k.Selectable(obj)
		byNamespace := k.Namespaced && k.Resource != "podcertificaterequests" // which upstream does not select by it
		if set["metadata.name"] != m.GetName() || set.Has("metadata.namespace") != byNamespace {
			t.Fatalf("fields %v", set)
		}
		if k.RowConditions != nil {
			k.RowConditions(obj)
		}
		for _, index := range k.Indexes {
			index(obj)
		}
		if k.TTL != nil && k.TTL(obj) <= 0 {
			t.Fatal("kept for ever")
		}
	})
}

// A pod on a node ends within a time that is asked for or its own; one that runs nowhere is gone at once.
func TestGrace(t *testing.T) {
	k := kind(t, "pods")
	for _, c := range []struct {
		name  string
		node  string
		phase v1.PodPhase
		own   int64
		asked *int64
		want  int64
	}{
		{"its own", "n", v1.PodRunning, 30, nil, 30},
		{"asked", "n", v1.PodRunning, 30, new(int64(5)), 5},
		{"at once", "n", v1.PodRunning, 30, new(int64(0)), 0},
		{"negative", "n", v1.PodRunning, 30, new(int64(-5)), 1},
		{"unscheduled", "", v1.PodPending, 30, new(int64(5)), 0},
		{"failed", "n", v1.PodFailed, 30, nil, 0},
		{"succeeded", "n", v1.PodSucceeded, 30, new(int64(5)), 0},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{NodeName: c.node, TerminationGracePeriodSeconds: &c.own}, Status: v1.PodStatus{Phase: c.phase}}
		if got := k.Graceful(pod, &metav1.DeleteOptions{GracePeriodSeconds: c.asked}); got != c.want {
			t.Errorf("%s: %d s, want %d", c.name, got, c.want)
		}
	}
}

// The generation counts what of a pod is wanted, not what is seen or written beside it.
func TestPodGeneration(t *testing.T) {
	k := kind(t, "pods")
	old := decode(t, k, []byte("metadata: {name: a, namespace: b}\nspec: {nodeName: n, containers: [{name: c, image: i}]}")).(*v1.Pod)
	create(k, old)
	if old.Generation != 1 {
		t.Errorf("new: %d", old.Generation)
	}
	for _, c := range []struct {
		name, sub string
		change    func(*v1.Pod)
		want      int64
	}{
		{"image", "", func(p *v1.Pod) { p.Spec.Containers[0].Image = "j" }, 2},
		{"label", "", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }, 1},
		{"status by the wrong way", "", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, 1},
		{"status", "status", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, 1},
		{"spec by the wrong way", "status", func(p *v1.Pod) { p.Spec.Containers[0].Image = "j" }, 1},
		{"ephemeral container", "ephemeralcontainers", func(p *v1.Pod) {
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
		}, 2},
	} {
		obj := old.DeepCopy()
		c.change(obj)
		k.Default(obj)
		k.Updates[c.sub].Prepare(obj, old)
		if obj.Generation != c.want {
			t.Errorf("%s: %d, want %d", c.name, obj.Generation, c.want)
		}
	}
}

// Whatever decodes as a pod is judged without a panic.
func FuzzPod(f *testing.F) {
	k := kind(f, "pods")
	for _, obj := range valid(f, k) {
		raw, err := json.Marshal(obj)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, odd := range []string{
		`{}`, `{"spec":{"containers":[{}]}}`, `{"spec":{"volumes":[{}],"containers":[{"volumeMounts":[{}],"env":[{"valueFrom":{"fieldRef":{}}}]}]}}`,
		`{"spec":{"affinity":{"nodeAffinity":{},"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}},"topologySpreadConstraints":[{}],"tolerations":[{}]}}`,
		`{"spec":{"containers":[{"livenessProbe":{},"lifecycle":{"preStop":{}},"resources":{"requests":{"":"1"}}}],"resources":{}}}`,
	} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		pod := &v1.Pod{}
		if json.Unmarshal(raw, pod) != nil {
			return
		}
		old := pod.DeepCopy()
		k.Default(pod)
		k.Row(pod, time.Time{})
		if len(create(k, pod)) == 0 {
			k.Warnings(pod)
		}
		for _, rules := range k.Updates {
			obj := pod.DeepCopy()
			rules.Prepare(obj, old)
			k.CheckUpdate(rules.At(time.Time{}), obj, old)
		}
	})
}

func text(obj runtime.Object) string {
	raw, _ := json.MarshalIndent(obj, "", " ")
	return string(raw)
}
