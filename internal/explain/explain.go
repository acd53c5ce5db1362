// Package explain tells in words why a pod is as it is: what state it is in, since when, why, and what to do about it; and the same of
// what has pods made, a Deployment or a Job, by its own status and by its pods. It is pure: everything it knows is handed in. It is the
// mind behind `podo why`.
package explain

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/timeline"
)

// Finding is a diagnosis in parts. Each part is one or more whole sentences; Why and Do may be empty.
type Finding struct {
	State string    // what the pod is doing
	Since time.Time // since when; zero when it is not known
	Why   string
	Do    string
}

// Facts are what a diagnosis is made of. Pod is required.
type Facts struct {
	Pod     *v1.Pod
	Records []timeline.Record // the pod's
	Nodes   []*v1.Node
	Now     time.Time
}

// Diagnose is the diagnosis in one paragraph.
func Diagnose(pod *v1.Pod, records []timeline.Record, nodes []*v1.Node, now time.Time) string {
	return Find(Facts{Pod: pod, Records: records, Nodes: nodes, Now: now}).Text(pod.Namespace+"/"+pod.Name, now)
}

// Text makes a paragraph of a Finding about a pod.
func (f Finding) Text(pod string, now time.Time) string { return f.paragraph("Pod "+pod, now) }

func (f Finding) paragraph(subject string, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", subject, f.State)
	if !f.Since.IsZero() {
		fmt.Fprintf(&b, " since %s (%s)", f.Since.UTC().Format("15:04:05"), ago(now.Sub(f.Since)))
	}
	b.WriteByte('.')
	for _, part := range []string{f.Why, f.Do} {
		if part = strings.TrimSpace(part); part != "" {
			b.WriteByte(' ')
			b.WriteString(sentence(part))
		}
	}
	return b.String()
}

func sentence(s string) string {
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "`") {
		return s
	}
	return s + "."
}

// ago rounds a duration to what a person says.
func ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return "just now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h ago", int(d.Hours()))
}

// Find goes through what can hold a pod up in the order of its journey, last things first: a pod that is going away is not
// explained by its image.
func Find(f Facts) Finding {
	p := f.Pod
	switch {
	case p.DeletionTimestamp != nil:
		return f.terminating()
	case p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded:
		return f.ended()
	case p.Spec.NodeName == "":
		return f.unscheduled()
	}
	if out, ok := f.notTaken(); ok {
		return out
	}
	if out, ok := f.waiting(); ok {
		return out
	}
	if out, ok := f.preparing(); ok {
		return out
	}
	return f.running()
}

func (f Facts) node(name string) *v1.Node {
	for _, n := range f.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// ready tells whether a node's kubelet is there, and what the node says if not.
func ready(n *v1.Node) (ok bool, words string) {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue, c.Reason + ": " + c.Message
		}
	}
	return false, "it has never reported"
}

func (f Facts) condition(kind v1.PodConditionType) *v1.PodCondition {
	for i := range f.Pod.Status.Conditions {
		if f.Pod.Status.Conditions[i].Type == kind {
			return &f.Pod.Status.Conditions[i]
		}
	}
	return nil
}

// last is the newest record of a stage that keep accepts.
func (f Facts) last(stage timeline.Stage, keep func(timeline.Record) bool) (timeline.Record, bool) {
	for i := len(f.Records) - 1; i >= 0; i-- {
		if r := f.Records[i]; r.Stage == stage && (keep == nil || keep(r)) {
			return r, true
		}
	}
	return timeline.Record{}, false
}
