package verbs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view/viewtest"
)

// narrow is a store whose transactions hold no value longer than most.
type narrow struct {
	store.Store
	most int
}

func (n narrow) Txn(ctx context.Context, conds []store.Cond, ops []store.Op) (store.TxnResult, error) {
	for _, op := range ops {
		if len(op.Value) > n.most {
			return store.TxnResult{}, store.ErrTooLarge
		}
	}
	return n.Store.Txn(ctx, conds, ops)
}

// What fits only without managedFields is stored without them, unless somebody has applied it: nobody would know the next time that he had, and
// what he does not apply any more would stay.
func TestOwnersAreNotLeftOutOfWhatIsApplied(t *testing.T) {
	vw, s := viewtest.New(t,
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns-1"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}},
	)
	w := worldOver(t, vw, narrow{s, 12 << 10})
	maps := client.Resource{Resource: "configmaps"}
	data := map[string]string{}
	for i := range 500 {
		data[fmt.Sprintf("key-%04d", i)] = "x"
	}
	out := w.create(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "created"}, Data: data})
	if n := len(accessor(out).GetManagedFields()); n != 0 {
		t.Errorf("created with %d entries of managedFields: it should not have fitted", n)
	}
	var text strings.Builder
	for key, value := range data {
		fmt.Fprintf(&text, "  %s: %s\n", key, value)
	}
	for _, name := range []string{"applied", "created"} {
		ref := maps.At("default", name)
		_, _, err := w.applies(ref, "one", false, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\ndata:\n"+text.String())
		if !isTooLarge(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
