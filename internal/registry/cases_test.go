package registry_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/registry"
)

var update = flag.Bool("update", false, "write the outcomes in testdata anew")

// caseTime is when the cases happen.
var caseTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestCases runs testdata/*.txtar. The text in front says the resource and what is done with it: create, update, update a
// subresource, default, warn, row. A file called "base" is the object that the cases start from; each other file is one case: a
// strategic merge patch of the base (of the stored base for updates), a line "=>", and the outcome.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases: ", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runArchive(t, file) })
	}
}

func runArchive(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(a.Comment))
	k := kind(t, words[0])
	base := "{}"
	for i := range a.Files {
		f := &a.Files[i]
		if f.Name == "base" {
			base = string(f.Data)
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			input, want, _ := strings.Cut(string(f.Data), "=>\n")
			got := outcome(t, k, words[1:], base, input)
			if *update {
				f.Data = []byte(input + "=>\n" + got)
			} else if got != want {
				t.Errorf("%s\ngot:\n%s\nwant:\n%s", input, got, want)
			}
		})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func kind(t testing.TB, resource string) *registry.Kind {
	t.Helper()
	for _, k := range registry.All() {
		if k.Resource == resource {
			return k
		}
	}
	t.Fatalf("no kind %q", resource)
	return nil
}

// outcome does what the words say with the base and the patch.
func outcome(t *testing.T, k *registry.Kind, words []string, base, patch string) string {
	if words[0] == "update" {
		sub := strings.Join(words[1:], "")
		old := decode(t, k, []byte(base))
		create(k, old)
		restore(t, k, old, base)
		raw, err := yaml.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		obj := decode(t, k, merge(t, k, string(raw), patch))
		k.Default(obj)
		k.Updates[sub].Prepare(obj, old)
		return lines(k.CheckUpdate(k.Updates[sub], obj, old))
	}
	obj := decode(t, k, merge(t, k, base, patch))
	switch words[0] {
	case "create":
		return lines(create(k, obj))
	case "warn":
		create(k, obj)
		return strings.Join(append(k.Warnings(obj), ""), "\n")
	case "default":
		k.Default(obj)
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		raw, err := yaml.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	case "row":
		k.Default(obj)
		cells := []string{}
		for _, c := range k.Row(obj, caseTime) {
			cells = append(cells, fmt.Sprint(c))
		}
		return strings.Join(cells, " | ") + "\n"
	}
	t.Fatalf("nothing is done by %q", words)
	return ""
}

// create is what the verbs do with a new object.
func create(k *registry.Kind, obj runtime.Object) field.ErrorList {
	m, _ := meta.Accessor(obj)
	if k.Unstored {
		if k.Default != nil {
			k.Default(obj)
		}
		if k.Validate == nil {
			return nil
		}
		return k.Validate(obj)
	}
	m.SetUID("3f2c")
	k.Default(obj)
	k.PrepareForCreate(obj)
	return k.CheckCreate(obj)
}

// restore gives a stored object what no create lets through: its status, and when it is to be deleted.
func restore(t *testing.T, k *registry.Kind, obj runtime.Object, base string) {
	again := decode(t, k, []byte(base))
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(again)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := raw["status"].(map[string]any); ok && len(s) > 0 {
		stored["status"] = s
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored, obj); err != nil {
		t.Fatal(err)
	}
	from, _ := meta.Accessor(again)
	to, _ := meta.Accessor(obj)
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
	to.SetDeletionGracePeriodSeconds(from.GetDeletionGracePeriodSeconds())
	to.SetResourceVersion("7")
	k.Default(obj)
}

func decode(t testing.TB, k *registry.Kind, raw []byte) runtime.Object {
	t.Helper()
	obj := k.NewServed()
	if err := yaml.UnmarshalStrict(raw, obj); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GVK)
	return k.In(obj)
}

func merge(t *testing.T, k *registry.Kind, base, patch string) []byte {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	p, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	if string(p) == "null" {
		return b
	}
	out, err := strategicpatch.StrategicMergePatch(b, p, k.New())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func lines(list field.ErrorList) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintln(&b, e.Error())
	}
	return b.String()
}
