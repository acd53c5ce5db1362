package wire

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// A table put together from cached parts is the same as one that is encoded whole, in every form.
func TestTableIsSpliced(t *testing.T) {
	kind := registry.Lookup(v1.Resource("pods"))
	now := func() time.Time { return time.Unix(1000, 0) }
	for _, include := range []string{"None", "Metadata", "Object"} {
		for n := range 3 {
			l := &verbs.List{Kind: kind, Rev: 7}
			var objs []runtime.Object
			for i := range n {
				p := pod(fmt.Sprintf(`"odd" <p> %d`, i)) // what JSON escapes
				p.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
				p.Status.Phase = []v1.PodPhase{v1.PodRunning, v1.PodSucceeded}[i]
				l.Items = append(l.Items, &view.Entry{Object: p, Meta: p})
				objs = append(objs, p)
			}
			for _, f := range []form{{media: jsonType}, {media: jsonType, pretty: true}, {media: yamlType}} {
				made := func() *tabler {
					tab, err := newTabler(kind, metaGV, include, now)
					if err != nil {
						t.Fatal(err)
					}
					return tab
				}
				whole, err := made().table(listMeta(l), objs...)
				if err != nil {
					t.Fatal(err)
				}
				want, err := objectBody(f, metaGV.WithKind(tableKind), whole, nil)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second time of what is cached
					got, err := made().listBody(f, l)
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got.bytes(), want.bytes()) || got.size != want.size {
						t.Fatalf("%s, %d pods, %+v:\n got %s\nwant %s", include, n, f, got.bytes(), want.bytes())
					}
				}
			}
		}
	}
}

// A row says of a pod that it has ended.
func TestTableHasConditions(t *testing.T) {
	tab, err := newTabler(registry.Lookup(v1.Resource("pods")), metaGV, "None", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	running, ended := pod("a"), pod("b")
	ended.Status.Phase = v1.PodSucceeded
	got, err := tab.table(metav1.ListMeta{}, running, ended)
	if err != nil {
		t.Fatal(err)
	}
	if of := got.Rows[1].Conditions; len(got.Rows[0].Conditions) != 0 || len(of) != 1 || of[0].Type != metav1.RowCompleted {
		t.Errorf("conditions of a running and of an ended pod: %v, %v", got.Rows[0].Conditions, of)
	}
}
