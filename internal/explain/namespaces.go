package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Troubles are reports of objects, none of which is controlled by another one, that have a trouble of their own. Trouble of their
// pods is left to the reports of those.
func Troubles(owners []Owner) (out []Report) {
	for _, o := range owners {
		if !o.troubled() {
			continue
		}
		r := Of(o)
		r.Below = slices.DeleteFunc(r.Below, func(below Report) bool { return below.Fine })
		out = append(out, r)
	}
	return out
}

// troubled tells whether anything is wrong that no pod below explains.
func (own Owner) troubled() bool {
	s, ok := own.standing()
	if !ok || s.fine {
		return false
	}
	if w := own.newest(); s.refusal != "" || w != nil && w.Reason == "FailedCreate" || slices.ContainsFunc(own.Children, Owner.troubled) {
		return true
	}
	return !own.sick()
}

// sick tells whether a pod below is not as it should be.
func (own Owner) sick() bool {
	if own.Told == nil {
		own.Told = Pods(own.Pods)
	}
	return slices.ContainsFunc(own.Told, func(r Report) bool { return !r.Fine }) || slices.ContainsFunc(own.Children, Owner.sick)
}

// inside adds to the report of a namespace what is in trouble there.
func (own Owner) inside(r Report) Report {
	for _, p := range Pods(own.Pods) {
		if !p.Fine {
			r.Below = append(r.Below, p)
		}
	}
	r.Below = append(r.Below, Troubles(own.Children)...)
	r.Fine = len(r.Below) == 0
	r.Why = "What is in trouble there is below"
	if r.Fine {
		r.Why = "Nothing there that you may see is in trouble"
	}
	return r
}

// namespace explains a namespace that does not end. For any other one only its contents are explained.
func (own Owner) namespace(c Cluster, o *v1.Namespace) stand {
	out := stand{fine: true}
	out.State = "is active"
	if o.DeletionTimestamp == nil {
		return out
	}
	out.State, out.Since, out.fine = "is being deleted", o.DeletionTimestamp.Time, false
	empty := false
	for _, cond := range o.Status.Conditions {
		if cond.Status != v1.ConditionTrue {
			empty = empty || cond.Type == v1.NamespaceContentRemaining
			continue
		}
		switch cond.Type {
		case v1.NamespaceFinalizersRemaining:
			out.Why = joined(out.Why, cond.Message)
		case v1.NamespaceContentRemaining:
			var names string
			names, out.Do = held(c, o.Name, cond.Message)
			out.Why = joined(joined(names, out.Why), cond.Message)
		case v1.NamespaceDeletionContentFailure, v1.NamespaceDeletionDiscoveryFailure, v1.NamespaceDeletionGVParsingFailure:
			out.Why = joined(out.Why, cond.Message)
		}
	}
	if out.Do == "" && len(own.Pods) > 0 {
		out.Do = "What keeps its pods is below"
	}
	if out.Why == "" && empty {
		out.Why, out.Do = emptied(o)
	}
	if out.Why == "" {
		out.Why = "What is in it is being deleted"
	}
	return out
}

// emptied says what keeps a namespace in which nothing is left.
func emptied(o *v1.Namespace) (why, do string) {
	var own []string
	for _, f := range o.Spec.Finalizers {
		if f != v1.FinalizerKubernetes {
			own = append(own, string(f))
		}
	}
	if len(own) > 0 {
		return "Everything in it is gone. Whoever put himself into its spec.finalizers must take himself out: " + strings.Join(own, ", "), fmt.Sprintf(
			"Only if that program is gone for good: `podo kubectl get ns %s -o json | jq '.spec.finalizers=[]' | podo kubectl replace --raw /api/v1/namespaces/%s/finalize -f -`", o.Name, o.Name)
	}
	if len(o.Finalizers) == 0 {
		return "", ""
	}
	why, do = heldBy("namespace", o, o.Finalizers)
	return joined("Everything in it is gone", why), do
}

// held names the objects that a namespace's condition counts, with their finalizers: "configmaps. has 1 resource instances, ...".
func held(c Cluster, namespace, message string) (names, do string) {
	_, list, _ := strings.Cut(message, "remaining: ")
	var all []string
	for part := range strings.SplitSeq(list, ", ") {
		resource, _, ok := strings.Cut(part, " has ")
		if !ok {
			continue
		}
		resource = strings.TrimSuffix(resource, ".")
		for _, obj := range c.List(resource, namespace) {
			m, ok := obj.(metav1.Object)
			if !ok || len(m.GetFinalizers()) == 0 {
				continue
			}
			all = append(all, fmt.Sprintf("%s/%s, which is held by the finalizer %s", resource, m.GetName(), strings.Join(m.GetFinalizers(), " and ")))
			if do == "" {
				do = fmt.Sprintf("See that whoever set the finalizer runs and removes it. Only if that program is gone for good: `podo kubectl patch %s -n %s %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'`", resource, namespace, quoted(m.GetName()))
			}
		}
	}
	if len(all) == 0 {
		return "", ""
	}
	return "It waits for " + listed(all), do
}
