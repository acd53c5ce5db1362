package check

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValuesAreShownWithGoNames(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{v1.PodResourceClaim{Name: "a"}, `{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}`},
		{&v1.SeccompProfile{LocalhostProfile: new("p")}, `{"Type":"","LocalhostProfile":"p"}`},
		{[]v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}}, `[{"Key":"k","Value":"","Effect":"NoExecute","TimeAdded":null}]`},
		{v1.SecretKeySelector{Key: "k"}, `{"Name":"","Key":"k","Optional":null}`}, // what is embedded stands among the rest
		{metav1.LabelSelector{}, `{}`},
		{"text", `"text"`},
		{nil, `null`},
		{(*int64)(nil), `null`},
	} {
		got, err := json.Marshal(Shown(c.value))
		if err != nil || string(got) != c.want {
			t.Errorf("%#v: %s, %v, want %s", c.value, got, err, c.want)
		}
	}
	var e Errors
	e.Invalid(field.NewPath("spec"), v1.PodResourceClaim{Name: "a"}, "no")
	if got, want := e.List()[0].ErrorBody(), `Invalid value: {"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}: no`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
