package why

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/explain"
)

type label struct{ key, value string }

// selected are the pods that a selector takes, and what is to be told of them.
type selected struct {
	pods []explain.Facts
	told []explain.Report
}

// selected gathers the pods that a selector takes. It searches those with the rarest label that the selector demands, and
// explains them once for all objects with an equal selector.
func (q *question) selected(out *explain.Owner, namespace string, by labels.Selector) {
	requirements, some := by.Requirements()
	if !some {
		return
	}
	p := q.place(namespace)
	s, ok := p.selected[by.String()]
	if !ok {
		labelled := q.labelled(namespace)
		among := labelled[label{}]
		for _, r := range requirements {
			values, op := r.ValuesUnsorted(), r.Operator()
			if len(values) == 1 && (op == selection.Equals || op == selection.In) {
				if with := labelled[label{r.Key(), values[0]}]; len(with) < len(among) {
					among = with
				}
			}
		}
		for _, pod := range among {
			if by.Matches(labels.Set(pod.Labels)) {
				s.pods = append(s.pods, q.facts(pod))
			}
		}
		s.told = explain.Pods(s.pods)
		if p.selected == nil {
			p.selected = map[string]selected{}
		}
		p.selected[by.String()] = s
	}
	out.Pods, out.Told = s.pods, s.told
}

func (q *question) labelled(namespace string) map[label][]*v1.Pod {
	p := q.place(namespace)
	if p.labelled != nil {
		return p.labelled
	}
	p.labelled = map[label][]*v1.Pod{}
	for _, obj := range q.list(client.Ref{Resource: schema.GroupResource(client.Pods), Namespace: namespace}, &internalversion.ListOptions{}) {
		pod := obj.(*v1.Pod)
		p.labelled[label{}] = append(p.labelled[label{}], pod)
		for key, value := range pod.Labels {
			p.labelled[label{key, value}] = append(p.labelled[label{key, value}], pod)
		}
	}
	return p.labelled
}
