package serviceaccounts

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMissing(t *testing.T) {
	ns := func(phase v1.NamespacePhase) *v1.Namespace {
		return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}, Status: v1.NamespaceStatus{Phase: phase}}
	}
	for _, c := range []struct {
		name string
		ns   *v1.Namespace
		has  string
		want []string
	}{
		{"a new namespace", ns(v1.NamespaceActive), "", []string{"default"}},
		{"another account is not the one", ns(v1.NamespaceActive), "other", []string{"default"}},
		{"it is there", ns(v1.NamespaceActive), "default", nil},
		{"the namespace is going", ns(v1.NamespaceTerminating), "", nil},
		{"the namespace has not been accepted yet", ns(""), "", nil},
		{"the namespace has gone", nil, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Missing(c.ns, func(name string) bool { return name == c.has })
			if len(got) != len(c.want) {
				t.Fatalf("%d to create, want %v", len(got), c.want)
			}
			for i, a := range got {
				if a.Name != c.want[i] || a.Namespace != "work" {
					t.Errorf("creates %s/%s, want work/%s", a.Namespace, a.Name, c.want[i])
				}
			}
		})
	}
}
