package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"podo.dev/podo/internal/timeline"
)

// Past is what is remembered of a pod that no longer exists. Records are required.
type Past struct {
	Records []timeline.Record // of all pods that had its name
	Others  []timeline.Record // of pods that existed beside it, one of which may have taken its room
	Reader  bool              // the asker may read the timeline in full
	Now     time.Time
}

// Gone is the report of a pod that does not exist any more.
func Gone(p Past) Report {
	groups := timeline.Group(p.Records)
	own := groups[len(groups)-1]
	r := Report{Kind: "Pod", Namespace: own.Pod.Namespace, Name: own.Pod.Name, State: "does not exist any more", How: journey(own.Records)}
	last := own.Records[len(own.Records)-1]
	r.Since = last.At
	f := Facts{Records: own.Records, Now: p.Now}
	if d, ok := f.last(timeline.Deleting, nil); ok {
		r.Why = "Deletion was asked for by " + asker(d) + because(d) + maker(p.Others, own.Pod, d)
	} else if d, ok := f.last(timeline.Deleted, nil); ok && d.Get("by") != "" {
		r.Why = "It was deleted by " + asker(d) + because(d)
	}
	if e, ok := f.last(timeline.Container, func(r timeline.Record) bool { return r.To == "Exited" }); ok {
		r.Why = joined(r.Why, "Its container "+e.Subject+" ended with exit code "+e.Get("exit"))
		if e.Cause != "" && e.Cause != "Error" {
			r.Why += " (" + e.Cause + ")"
		}
	}
	owner := ""
	if a, ok := f.last(timeline.Accepted, nil); ok {
		owner = a.Get("owner")
	}
	if kind, name, ok := strings.Cut(owner, "/"); ok {
		r.Do = fmt.Sprintf("See what became of its owner: `podo why -n %s %s/%s`", own.Pod.Namespace, strings.ToLower(kind), name)
	}
	whole := "Whoever administers the cluster sees its whole story with"
	if p.Reader {
		whole = "Its whole story:"
	}
	r.Do = joined(r.Do, fmt.Sprintf("%s `podo timeline -n %s pod/%s`", whole, own.Pod.Namespace, own.Pod.Name))
	if n := len(groups) - 1; n > 0 {
		r.Why = joined(r.Why, fmt.Sprintf("There were %d earlier pods of this name", n))
	}
	return r
}

// maker names the pod for which another had to go.
func maker(all []timeline.Record, victim timeline.PodRef, deleting timeline.Record) string {
	for _, r := range slices.Backward(all) {
		if r.Stage == timeline.Attempt && slices.Contains(strings.Split(r.Get("victims"), ","), victim.Namespace+"/"+victim.Name) && !r.At.After(deleting.At.Add(time.Second)) {
			return ": " + r.Pod.String()
		}
	}
	return ""
}

// Lost is the report of an owner that does not exist, from the records of a namespace: what became of the pods that were made for
// it. It is nil when nothing is remembered.
func Lost(kind, namespace, name string, records []timeline.Record, now time.Time) []Report {
	r := Report{Kind: kind, Namespace: namespace, Name: name, State: "does not exist any more"}
	for _, g := range timeline.Group(records) {
		a, ok := timeline.Last(g.Records, timeline.Accepted)
		owner := a.Get("owner")
		if !ok || owner != kind+"/"+name && !made(kind, name, owner) {
			continue
		}
		pod := Gone(Past{Records: g.Records, Now: now})
		pod.How, pod.Do = nil, ""
		if _, ok := timeline.Last(g.Records, timeline.Deleted); !ok {
			pod.State, pod.Since, pod.Why = "may still be there", time.Time{}, ""
			pod.Do = fmt.Sprintf("`podo why -n %s pod/%s`", namespace, g.Pod.Name)
		}
		r.Below = append(r.Below, pod)
	}
	if len(r.Below) == 0 {
		return nil
	}
	if len(r.Below) > named {
		r.Below = r.Below[len(r.Below)-named:]
	}
	r.Why = "Who deleted it stands in the audit log, where one is kept (--audit-policy-file). What is remembered of its pods is below"
	return []Report{r}
}

// made tells whether an owner is one that the object of this kind and name makes: a Deployment's ReplicaSet, a CronJob's Job.
func made(kind, name, owner string) bool {
	child := map[string]string{"Deployment": "ReplicaSet", "CronJob": "Job"}[kind]
	rest, ok := strings.CutPrefix(owner, child+"/"+name+"-")
	return child != "" && ok && !strings.Contains(rest, "-")
}
