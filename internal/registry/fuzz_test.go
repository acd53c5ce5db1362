package registry_test

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podo.dev/podo/internal/registry"
)

// FuzzKind: whatever decodes as an object of a kind is judged without a panic, as a new object, as a change of another, and as a row.
func FuzzKind(f *testing.F) {
	kinds := slices.DeleteFunc(registry.All(), func(k *registry.Kind) bool { return k.Computed })
	for i, k := range kinds {
		for _, obj := range valid(f, k) {
			raw, err := json.Marshal(obj)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), raw)
		}
		f.Add(uint8(i), []byte(`{"spec":{},"metadata":{"name":"x"}}`))
	}
	f.Fuzz(func(_ *testing.T, i uint8, raw []byte) {
		k := kinds[int(i)%len(kinds)]
		served := k.NewServed()
		if hugeExponent.Match(raw) || json.Unmarshal(raw, served) != nil {
			return
		}
		obj := k.In(served)
		old := obj.DeepCopyObject()
		if k.Default != nil {
			k.Default(obj)
		}
		if errs := create(k, obj); len(errs) == 0 && k.Warnings != nil {
			k.Warnings(obj)
		}
		if k.Row != nil {
			k.Row(obj, time.Time{})
		}
		if k.Selectable != nil {
			k.Selectable(obj)
		}
		k.Out(obj)
		for _, rules := range k.Updates {
			changed := obj.DeepCopyObject()
			if rules.Prepare != nil {
				rules.Prepare(changed, old)
			}
			k.CheckUpdate(rules.At(time.Time{}), changed, old)
		}
		for _, part := range k.Parts {
			scaled := obj.DeepCopyObject()
			p := part.Of(scaled)
			part.Validate(p)
			part.Into(p, scaled)
		}
	})
}

var hugeExponent = regexp.MustCompile(`[eE][+-]?0*[0-9]{5}`)

// FuzzQuantity: a quantity in a pod is refused, or it means the same after defaults, validation and its own text. Huge exponents never get
// as far as here.
func FuzzQuantity(f *testing.F) {
	for _, seed := range []string{
		"", "0", "-0", "1", "100m", "1Gi", "1e3", "1E", "0.0000000001", "9223372036854775808", "-1n", ".5", "1.", "+1", "1ki", "1KI", "١", "1 ",
		"1e-9999", "100000000000000000000000", "0x10", "1_000", strings.Repeat("9", 400), strings.Repeat("0", 4000) + "1",
	} {
		f.Add(seed)
	}
	k := kind(f, "pods")
	f.Fuzz(func(t *testing.T, text string) {
		if hugeExponent.MatchString(text) {
			return
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return
		}
		cpu, memory, size := q.DeepCopy(), q.DeepCopy(), q.DeepCopy() // decoded each by itself; copies would share what is large
		pod := &v1.Pod{Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: cpu}, Requests: v1.ResourceList{v1.ResourceMemory: memory}}}},
			Volumes:    []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}}}},
		}}
		pod.Namespace, pod.Name = "default", "p"
		k.Default(pod)
		create(k, pod)
		if q.CmpInt64(math.MaxInt64) > 0 || q.CmpInt64(math.MinInt64) < 0 {
			return // the library has no suffix for it, and writes another number, as it does for upstream
		}
		for name, is := range map[string]resource.Quantity{
			"the size": *pod.Spec.Volumes[0].EmptyDir.SizeLimit, "the memory": pod.Spec.Containers[0].Resources.Requests[v1.ResourceMemory], "itself": q,
		} {
			again, err := resource.ParseQuantity(is.String())
			if err != nil || again.Cmp(is) != 0 {
				t.Errorf("%q: %s is %s, and that is %s: %v", text, name, &is, &again, err)
			}
		}
	})
}

// FuzzFieldPath: a path into a pod is refused, or names something; every sort of path that pods and events may have is tried.
func FuzzFieldPath(f *testing.F) {
	for _, seed := range []string{
		"metadata.name", "metadata.labels['a']", "metadata.annotations['a.io/b']", "metadata.labels['']", "metadata.labels['a", "status.hostIP", "spec.nodeName",
		"spec.containers{c}", "limits.cpu", "requests.ephemeral-storage", "a[", "[']", "metadata.labels['a']['b']", strings.Repeat("a.", 5000), "\x00", "metadata.labels['\xff']",
	} {
		f.Add(seed)
	}
	k := kind(f, "pods")
	f.Fuzz(func(t *testing.T, path string) {
		pod := &v1.Pod{Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c", Image: "i", Env: []v1.EnvVar{
				{Name: "A", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}},
				{Name: "B", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: path}}},
			}}},
			Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
				{Path: "p", FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}, {Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}},
			}}}}},
		}}
		pod.Namespace, pod.Name = "default", "p"
		k.Default(pod)
		refused := map[string]bool{}
		for _, e := range create(k, pod) {
			refused[e.Field] = true
		}
		if env := refused["spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"]; !env && !strings.HasPrefix(path, "metadata.") && !strings.HasPrefix(path, "spec.") && !strings.HasPrefix(path, "status.") {
			t.Errorf("%q is a field of a pod", path)
		}
		file := false // upstream does not say which item it is
		for at := range refused {
			file = file || strings.HasPrefix(at, "spec.volumes[0].downwardAPI") && strings.HasSuffix(at, "path")
		}
		if !file && (path == "" || strings.HasPrefix(path, "/") || path == ".." || strings.HasPrefix(path, "../")) {
			t.Errorf("%q is a file of a volume", path)
		}
	})
}
