package admit_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/admit/settings"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

var update = flag.Bool("update", false, "write the outcomes in testdata anew")

// TestStories plays testdata/*.txtar against the API verbs. "cluster" holds what is there already, "admission.yaml" the configuration
// file, if any. Each other file is one request after the other: an object to create (to update, if it is there), a line "=>", and what
// became of it: warnings, the refusal, or those parts of a pod that rules edit.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories: ", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { play(t, file) })
	}
}

func play(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objs := []runtime.Object{viewtest.Account("default"), &v1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "n"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive},
	}}
	config := ""
	for _, f := range a.Files {
		switch f.Name {
		case "cluster":
			for _, doc := range bytes.Split(f.Data, []byte("---\n")) {
				objs = append(objs, decode(t, doc))
			}
		case "admission.yaml":
			config = filepath.Join(t.TempDir(), f.Name)
			if err := os.WriteFile(config, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := newStory(t, config, objs...)
	for i := range a.Files {
		f := &a.Files[i]
		if f.Name == "cluster" || f.Name == "admission.yaml" {
			continue
		}
		input, want, _ := strings.Cut(string(f.Data), "=>\n")
		got := s.request(decode(t, []byte(input)))
		if *update {
			f.Data = []byte(input + "=>\n" + got)
		} else if got != want {
			t.Errorf("%s:\n%s\ngot:\n%s\nwant:\n%s", f.Name, input, got, want)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type story struct {
	t     *testing.T
	verbs *verbs.Verbs
	view  *view.View
}

func newStory(t *testing.T, config string, objs ...runtime.Object) *story {
	t.Helper()
	vw, s := viewtest.New(t, objs...)
	rules, err := settings.Rules(config, vw)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Admission: rules})
	if err != nil {
		t.Fatal(err)
	}
	return &story{t, v, vw}
}

func decode(t *testing.T, doc []byte) runtime.Object {
	t.Helper()
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &is); err != nil {
		t.Fatal(err)
	}
	gv, err := schema.ParseGroupVersion(is.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	k := registry.ByGVK(gv.WithKind(is.Kind))
	if k == nil {
		t.Fatalf("not served: %s\n%s", is.GroupVersionKind(), doc)
	}
	obj := k.New()
	if err := yaml.UnmarshalStrict(doc, obj); err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	if m, _ := meta.Accessor(obj); k.Namespaced && m.GetNamespace() == "" {
		m.SetNamespace("default")
	}
	return obj
}

func (s *story) request(obj runtime.Object) string {
	if _, err := s.view.Fresh(s.t.Context()); err != nil { // some rules decide on what the view has
		s.t.Fatal(err)
	}
	m, _ := meta.Accessor(obj)
	k := viewtest.Kind(s.t, obj)
	ref := client.Ref{Resource: k.GroupResource(), Namespace: m.GetNamespace(), Name: m.GetName()}
	var out strings.Builder
	o := verbs.Options{Warn: func(text string) { fmt.Fprintln(&out, "Warning:", text) }}
	var got runtime.Object
	var err error
	if _, missing := s.verbs.Get(s.t.Context(), admin, ref, ""); missing == nil {
		got, _, err = s.verbs.Update(s.t.Context(), admin, ref, obj, o)
	} else {
		got, err = s.verbs.Create(s.t.Context(), admin, ref, obj, o)
	}
	if err != nil {
		text := err.Error()
		if base := m.GetGenerateName(); base != "" { // what is generated is another each time
			text = regexp.MustCompile(`"`+regexp.QuoteMeta(base)+`[a-z0-9]{5}"`).ReplaceAllString(text, `"`+base+`?????"`)
		}
		fmt.Fprintln(&out, "Error:", text)
		return out.String()
	}
	if pod, ok := got.(*v1.Pod); ok {
		raw, err := yaml.Marshal(edited(pod))
		if err != nil {
			s.t.Fatal(err)
		}
		out.Write(raw)
	} else {
		fmt.Fprintln(&out, "ok"+stored(got))
	}
	return out.String()
}

// stored is what rules put into objects about storage and classes.
func stored(obj runtime.Object) (out string) {
	m, _ := meta.Accessor(obj)
	switch o := obj.(type) {
	case *v1.PersistentVolumeClaim:
		if o.Spec.StorageClassName != nil {
			out += fmt.Sprintf(", class %q", *o.Spec.StorageClassName)
		}
	case *networkingv1.Ingress:
		if o.Spec.IngressClassName != nil {
			out += fmt.Sprintf(", class %q", *o.Spec.IngressClassName)
		}
	case *v1.PersistentVolume, *storagev1.VolumeAttributesClass:
	default:
		return ""
	}
	if f := m.GetFinalizers(); len(f) > 0 {
		out += ", kept by " + strings.Join(f, " ")
	}
	return out
}

// edited are the parts of a pod that rules edit, without what they do to every pod.
func edited(pod *v1.Pod) any {
	resources := map[string]v1.ResourceRequirements{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
			resources[c.Name] = c.Resources
		}
	}
	own := slices.DeleteFunc(slices.Clone(pod.Spec.Tolerations), func(t v1.Toleration) bool {
		return t.TolerationSeconds != nil && *t.TolerationSeconds == 300
	})
	out := map[string]any{"priority": *pod.Spec.Priority, "preemption": *pod.Spec.PreemptionPolicy}
	for name, value := range map[string]any{
		"class": pod.Spec.PriorityClassName, "annotations": pod.Annotations, "labels": pod.Labels, "resources": resources,
		"nodeSelector": pod.Spec.NodeSelector, "overhead": pod.Spec.Overhead, "tolerations": own,
	} {
		if s := fmt.Sprint(value); s != "" && s != "map[]" && s != "[]" {
			out[name] = value
		}
	}
	return out
}

var _ admit.Named = (*admit.ResourceQuota)(nil)

// The order is upstream's, whatever order rules come in, and who comes later replaces who has the same name.
func TestOrdered(t *testing.T) {
	last := &admit.ResourceQuota{}
	chain := admit.Ordered(&admit.ResourceQuota{}, "no plug-in", admit.DefaultTolerations{}, &admit.LimitRanger{}, last, &admit.NamespaceLifecycle{}, &admit.Priority{})
	var got []string
	for _, r := range chain {
		if n, ok := r.(admit.Named); ok {
			got = append(got, n.Name())
		} else {
			got = append(got, "-")
		}
	}
	if want := "NamespaceLifecycle LimitRanger Priority DefaultTolerationSeconds - ResourceQuota"; strings.Join(got, " ") != want {
		t.Errorf("%v", got)
	}
	if chain[5] != any(last) {
		t.Error("the first of two stays")
	}
}
