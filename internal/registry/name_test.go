package registry

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Whatever a kind allows, a name is one segment of a path; what is wrong with it is told once.
func TestANameIsASegmentOfAPath(t *testing.T) {
	var k Kind
	for _, of := range All() {
		if of.GVK.Kind == "ConfigMap" {
			k = *of
		}
	}
	any := func(string, bool) []string { return nil }
	strict := func(string, bool) []string { return []string{"no"} }
	for _, c := range []struct {
		valid          func(string, bool) []string
		name, generate string
		want           string
	}{
		{any, "a/b", "", `metadata.name: Invalid value: "a/b": may not contain '/'`},
		{any, "a", "a%", `metadata.generateName: Invalid value: "a%": may not contain '%'`},
		{any, "a", "a", ""},
		{strict, "a/b", "", `metadata.name: Invalid value: "a/b": no`},
		{nil, "a/b", "", `metadata.name: Invalid value: "a/b": may not contain '/'`},
	} {
		k.ValidName = c.valid
		errs := k.CheckCreate(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: c.name, GenerateName: c.generate}})
		if got := text(errs); got != c.want {
			t.Errorf("%q %q: %s, want %s", c.name, c.generate, got, c.want)
		}
	}
}

func text(errs field.ErrorList) string {
	if len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}
