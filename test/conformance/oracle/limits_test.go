package oracle

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
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
			said := ""
			if upErr != nil {
				said = upErr.Error()
			}
			if u, p := words(said), words(reason(podoErr)); u != p {
				d = append(d, Difference{Where: "refusal", Upstream: u, Podo: p})
			}
			r.found("limits of "+k.name(), d, func(string) string { return manifest(l) + manifest(obj) })
		}
		r.fail(t)
	})
}

// words are the words of messages, sorted: upstream tells of resources in another order each time.
func words(text string) string {
	list := strings.Fields(strings.NewReplacer("[", " ", "]", " ", ",", " ").Replace(text))
	slices.Sort(list)
	return strings.Join(list, " ")
}
