package oracle

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	internal "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view/viewtest"
)

// TestLimits compares what a limit range makes of pods and claims with upstream's plug-in.
func TestLimits(t *testing.T) {
	var ranges Kind
	for i := range Kinds {
		if Kinds[i].name() == "limitranges" {
			ranges = Kinds[i]
		}
	}
	each(t, func(t *testing.T, k Kind) {
		if k.name() != "pods" && k.name() != "persistentvolumeclaims" {
			t.Skip("has no limits")
		}
		m := mutatorFor(t)
		pop, rangePop := newPopulation(seeds(t, k)), newPopulation(seeds(t, ranges))
		var r Report
		for range rounds(1) {
			obj, l := k.stored(m, pop), ranges.stored(m, rangePop)
			if obj == nil || l == nil {
				continue
			}
			l.(*v1.LimitRange).Namespace = inNamespace
			up, in := k.internal(obj), obj.DeepCopyObject()
			k.Podo.Default(in)
			var upErr error
			if pod, ok := up.(*internal.Pod); ok {
				if err := limitranger.PodMutateLimitFunc(l.(*v1.LimitRange), pod); err != nil {
					t.Fatal(err)
				}
				upErr = limitranger.PodValidateLimitFunc(l.(*v1.LimitRange), pod)
			} else {
				upErr = limitranger.PersistentVolumeClaimValidateLimitFunc(l.(*v1.LimitRange), up.(*internal.PersistentVolumeClaim))
			}
			v, _ := viewtest.New(t, l)
			rule := &admit.LimitRanger{View: v}
			a := &admit.Attributes{Op: admit.Create, Kind: k.Podo, Ref: client.Ref{Resource: k.Podo.GroupResource(), Namespace: inNamespace, Name: "x"}, Object: in}
			if err := rule.Mutate(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			podoErr := rule.Validate(t.Context(), a)
			r.ran()
			d := compareJSON("", tree(k.external(up)), tree(in))
			if u, p := all(upErr), texts(podoErr); u != p {
				d = append(d, Difference{Where: "refusal", Upstream: u, Podo: p})
			}
			r.found("limits of "+k.name(), d, func(string) string { return manifest(l) + manifest(obj) })
		}
		r.fail(t)
	})
}

// all are the messages in order, each once.
func all(err error) string {
	if err == nil {
		return ""
	}
	out := sets.New[string]()
	if list, ok := err.(utilerrors.Aggregate); ok {
		for _, e := range list.Errors() {
			out.Insert(e.Error())
		}
	}
	return strings.Join(sets.List(out), ", ")
}

// texts are the messages of a refusal in order.
func texts(err error) string {
	text := reason(err)
	if rest, many := strings.CutPrefix(text, "["); many {
		list := strings.Split(strings.TrimSuffix(rest, "]"), ", m")
		for i := range list[1:] {
			list[i+1] = "m" + list[i+1]
		}
		text = ""
		var out []string
		for _, one := range list {
			out = append(out, splitRatio(one)...)
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	return text
}

// splitRatio parts messages about ratios, which begin with the resource.
func splitRatio(s string) []string { return []string{s} }
