package oracle

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
)

// shown is upstream's table of an object; neither a table nor an error where upstream panics, as it does of a half-made autoscaler.
func shown(g *printers.HumanReadableGenerator, obj runtime.Object) (t *metav1.Table, err error) {
	defer func() {
		if recover() != nil {
			t, err = nil, nil
		}
	}()
	return g.GenerateTable(obj, printers.GenerateOptions{Wide: true})
}

// TestColumns compares what `kubectl get` shows: the columns, and each object's row.
func TestColumns(t *testing.T) {
	generator := printers.NewTableGenerator().With(printersinternal.AddHandlers)
	each(t, func(t *testing.T, k Kind) {
		m := mutatorFor(t)
		pop := newPopulation(seeds(t, k))
		var r Report
		what := "row of " + k.name()
		_, err := shown(generator, k.internal(k.Podo.New()))
		hasColumns := err == nil
		differ := func(obj runtime.Object) []Difference {
			up, err := shown(generator, k.internal(obj))
			if up == nil && err == nil {
				return nil
			}
			if err != nil && hasColumns { // an object that is never stored, as one whose owner has no readable version
				return nil
			}
			if err != nil {
				up, err = rest.NewDefaultTableConvertor(k.Podo.GroupResource()).ConvertToTable(context.Background(), k.internal(obj), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			podo := k.stands(obj)
			var out []Difference
			if d := compareJSON("columns", tree(up.ColumnDefinitions), tree(k.Podo.Columns)); len(d) > 0 {
				out = append(out, d...)
			}
			cells := k.Podo.Row(podo, now)
			for i := range max(len(cells), len(up.Rows[0].Cells)) {
				name, u, p := fmt.Sprint("column ", i), "", ""
				if i < len(up.ColumnDefinitions) { // an IPAddress has a cell more
					name = up.ColumnDefinitions[i].Name
				}
				if i < len(up.Rows[0].Cells) {
					u = fmt.Sprintf("%v", up.Rows[0].Cells[i])
				}
				if i < len(cells) {
					p = fmt.Sprintf("%v", cells[i])
				}
				if u != p {
					out = append(out, Difference{Where: name, Upstream: u, Podo: p})
				}
			}
			var conditions []metav1.TableRowCondition
			if k.Podo.RowConditions != nil {
				conditions = k.Podo.RowConditions(podo)
			}
			return append(out, compareJSON("conditions", tree(up.Rows[0].Conditions), tree(conditions))...)
		}
		for range rounds(1.0 / 3) {
			obj := k.stored(m, pop)
			if obj == nil {
				continue
			}
			if m.IntN(2) == 0 {
				m.Mutate(root(m, "status", obj), changes(m))
			}
			r.ran()
			r.found(what, differ(obj), k.smallest(what, obj, differ))
		}
		r.fail(t)
	})
}

// TestSelectable compares the fields that a fieldSelector may name, and their values.
func TestSelectable(t *testing.T) {
	each(t, func(t *testing.T, k Kind) {
		attrs := k.attrs()
		m := mutatorFor(t)
		pop := newPopulation(seeds(t, k))
		var r Report
		what := "selectable fields of " + k.name()
		differ := func(obj runtime.Object) []Difference {
			_, up, err := attrs(k.internal(obj))
			if err != nil {
				t.Fatal(err)
			}
			podo := k.stands(obj)
			return compareJSON("", tree(up), tree(k.Podo.Selectable(podo)))
		}
		for range rounds(1.0 / 6) {
			obj := k.stored(m, pop)
			if obj == nil {
				continue
			}
			m.Mutate(root(m, "status", obj), changes(m))
			r.ran()
			r.found(what, differ(obj), k.smallest(what, obj, differ))
		}
		r.fail(t)
	})
}

// attrs are the selectable fields of the kind.
func (k Kind) attrs() storage.AttrFunc {
	switch {
	case k.Attrs != nil:
		return k.Attrs
	case k.Podo.Namespaced:
		return storage.DefaultNamespaceScopedAttr
	}
	return storage.DefaultClusterScopedAttr
}

// TestGrace compares how long a deletion waits.
func TestGrace(t *testing.T) {
	each(t, func(t *testing.T, k Kind) {
		if k.Grace == nil {
			t.Skip("goes at once")
		}
		m := mutatorFor(t)
		pop := newPopulation(seeds(t, k))
		var r Report
		what := "grace of " + k.name()
		for range rounds(1.0 / 6) {
			obj := k.stored(m, pop)
			if obj == nil {
				continue
			}
			m.Mutate(root(m, []string{"status", ""}[m.IntN(2)], obj), changes(m))
			o := metav1.DeleteOptions{}
			if m.IntN(2) == 0 {
				n := pick(m, integers)
				o.GracePeriodSeconds = &n
			}
			differ := func(obj runtime.Object) []Difference {
				up, ours := o.DeepCopy(), o.DeepCopy()
				var grace int64
				var w recorder
				obj = obj.DeepCopyObject()
				k.Podo.Default(obj)
				if k.Grace.CheckGracefulDelete(k.requestContext("", "", &w), k.internal(obj), up) {
					grace = *up.GracePeriodSeconds
				}
				return compareJSON("seconds", float64(grace), float64(k.Podo.Graceful(obj.DeepCopyObject(), ours)))
			}
			r.ran()
			r.found(what, differ(obj), k.smallest(what, obj, differ))
		}
		r.fail(t)
	})
}
