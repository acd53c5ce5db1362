package explain_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"podo.dev/podo/internal/explain"
	"podo.dev/podo/internal/timeline"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into testdata")

// TestCases reads testdata: each file has cases of one topic, each case three parts. "NAME" are the objects that there are, of which the
// first is asked about; "NAME timeline" is what has been recorded, of pods whose head lines name them; "NAME why" is the answer, word for
// word, at noon. The label is=gone says that the first object is there no more,
// asks=guest that who asks may not read timelines. -rewrite writes the answers.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := map[string]int{}
		for i, f := range archive.Files {
			parts[f.Name] = i
		}
		for name, i := range parts {
			if strings.HasSuffix(name, " why") || strings.HasSuffix(name, " timeline") {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+name, func(t *testing.T) {
				w := newWorld(t, string(archive.Files[i].Data))
				if at, ok := parts[name+" timeline"]; ok {
					if w.records, err = timeline.Parse(string(archive.Files[at].Data)); err != nil {
						t.Fatal(err)
					}
				}
				got := w.answer(t)
				at, ok := parts[name+" why"]
				if !ok {
					t.Fatalf("no part %q", name+" why")
				}
				if *rewrite {
					archive.Files[at].Data = []byte(got)
				} else if want := string(archive.Files[at].Data); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
		if *rewrite {
			if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world is a cluster that does not move.
type world struct {
	objects []runtime.Object
	records []timeline.Record
}

func newWorld(t *testing.T, manifests string) *world {
	t.Helper()
	w := &world{}
	for text := range strings.SplitSeq(manifests, "\n---\n") {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		m, _ := meta.Accessor(obj)
		if m.GetNamespace() == "" && namespaced(obj) {
			m.SetNamespace("default")
		}
		w.objects = append(w.objects, obj)
	}
	return w
}

func namespaced(obj runtime.Object) bool {
	switch obj.GetObjectKind().GroupVersionKind().Kind {
	case "Node", "Namespace", "StorageClass", "PersistentVolume", "CertificateSigningRequest":
		return false
	}
	return true
}

func resource(obj runtime.Object) string {
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GetObjectKind().GroupVersionKind())
	return gvr.Resource
}

func (w *world) Get(r, namespace, name string) (runtime.Object, bool) {
	for _, obj := range w.objects {
		m, _ := meta.Accessor(obj)
		if resource(obj) == r && m.GetNamespace() == namespace && m.GetName() == name {
			return obj, true
		}
	}
	return nil, true
}

func (w *world) List(r, namespace string) (out []runtime.Object) {
	for _, obj := range w.objects {
		m, _ := meta.Accessor(obj)
		if resource(obj) == r && (namespace == "" || m.GetNamespace() == namespace) {
			out = append(out, obj)
		}
	}
	return out
}

func (w *world) facts(p *v1.Pod) explain.Facts {
	f := explain.Facts{Pod: p, Nodes: []*v1.Node{}, Cluster: w, Now: noon, Records: timeline.Select(w.records, timeline.Query{Namespace: p.Namespace, Name: p.Name})}
	for _, n := range w.List("nodes", "") {
		f.Nodes = append(f.Nodes, n.(*v1.Node))
	}
	return f
}

// owner puts below an object what names it as its controller, and below one that is none the other pods that there are.
func (w *world) owner(obj runtime.Object) explain.Owner {
	o := explain.Owner{Object: obj, Cluster: w, Now: noon}
	m, _ := meta.Accessor(obj)
	for _, other := range w.objects {
		if e, ok := other.(*v1.Event); ok && e.InvolvedObject.Name == m.GetName() {
			o.Warnings = append(o.Warnings, e)
			continue
		}
		c, _ := meta.Accessor(other)
		by := metav1.GetControllerOfNoCopy(c)
		if other == obj || by != nil && by.Name != m.GetName() {
			continue
		}
		if p, ok := other.(*v1.Pod); ok {
			o.Pods = append(o.Pods, w.facts(p))
		} else if by != nil {
			o.Children = append(o.Children, w.owner(other))
		}
	}
	return o
}

func (w *world) answer(t *testing.T) string {
	t.Helper()
	switch o := w.objects[0].(type) {
	case *v1.Pod:
		if o.Labels["is"] == "gone" {
			return explain.Gone(explain.Past{
				Records: timeline.Select(w.records, timeline.Query{Namespace: o.Namespace, Name: o.Name}), Others: w.records, Reader: o.Labels["asks"] != "guest", Now: noon,
			}).Text(noon) + "\n"
		}
		return explain.Pod(w.facts(o)).Text(noon) + "\n"
	default:
		m, _ := meta.Accessor(o)
		if m.GetLabels()["is"] == "gone" {
			out := ""
			for _, r := range explain.Lost(o.GetObjectKind().GroupVersionKind().Kind, m.GetNamespace(), m.GetName(), w.records, noon) {
				out += r.Text(noon) + "\n"
			}
			return out
		}
		return explain.Of(w.owner(o)).Text(noon) + "\n"
	}
}
