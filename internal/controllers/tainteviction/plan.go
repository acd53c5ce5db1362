// Package tainteviction ends pods on nodes that do not want them any more: a NoExecute taint ends what does not tolerate it, at
// once or after the time for which it does.
package tainteviction

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// NoExecute are a node's taints that end pods.
func NoExecute(node *v1.Node) (out []v1.Taint) {
	for _, t := range node.Spec.Taints {
		if t.Effect == v1.TaintEffectNoExecute {
			out = append(out, t)
		}
	}
	return out
}

// Clock is since when each of the taints that a pod tolerates for a while has been there.
type Clock map[string]time.Time

// Due is when a pod has to go beside these taints, and with what clock that goes on; ok is false when it may stay. It goes at once when it
// tolerates one of them not at all; otherwise when the first of its times is over, each of which begins with its taint: when that says
// that it came, or when it was first seen. A taint that comes in the place of all others goes on where they began: a node that is first not
// ready and then unreachable does not keep its pods twice as long. Of several tolerations of one taint the first counts.
func Due(taints []v1.Taint, tolerations []v1.Toleration, was Clock, now time.Time) (due time.Time, is Clock, ok bool) {
	begun := now
	for _, t := range was {
		if t.Before(begun) {
			begun = t
		}
	}
	stays, goesOn := map[string]time.Duration{}, len(was) == 0
	for i := range taints {
		t := tolerating(&taints[i], tolerations)
		if t == nil {
			return now, was, true
		}
		if t.TolerationSeconds != nil {
			key := taints[i].ToString()
			stays[key] = time.Duration(max(0, *t.TolerationSeconds)) * time.Second
			_, known := was[key]
			goesOn = goesOn || known
		}
	}
	is = Clock{}
	for i := range taints {
		key := taints[i].ToString()
		stay, counts := stays[key]
		if !counts {
			continue
		}
		since, known := was[key]
		switch added := taints[i].TimeAdded; {
		case known:
		case !goesOn:
			since = begun
		case added != nil && added.Time.Before(now): // clocks of others are not trusted to be ahead
			since = added.Time
		default:
			since = now
		}
		is[key] = since
		if end := since.Add(stay); !ok || end.Before(due) {
			due, ok = end, true
		}
	}
	return due, is, ok
}

func tolerating(taint *v1.Taint, tolerations []v1.Toleration) *v1.Toleration {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, false) {
			return &tolerations[i]
		}
	}
	return nil
}
