// Package explain tells in words why a pod is as it is: what state it is in, since when, why, what to do about it, and how it got there;
// and the same of what pods depend on or come from: a Deployment, a Job, a claim, a node, a budget, a namespace that does not end. It
// follows causes from object to object. It is pure: everything it knows is handed in. It is the mind behind `podo why`.
//
//	Of       an object and what stands below it -> Report        (owner.go, others.go)
//	Find     a pod -> Finding, in the order of its journey        (below)
//	Gone     a pod that was, from its timeline alone -> Report    (gone.go)
//
// Its sentences for people come last: a Report is data, Report.Text prints it.
package explain

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/registry/podspec"
	"podo.dev/podo/internal/timeline"
)

// Finding is a diagnosis in parts, each of one or more whole sentences; Why and Do may be empty.
type Finding struct {
	State string    // what the pod is doing
	Since time.Time // since when; zero when it is not known
	Why   string
	Do    string
	Log   *Log // whose words tell more
}

// Cluster is everything else in the cluster that the asker may see.
type Cluster interface {
	// Get is an object, nil when there is none. known is false where that cannot be said, since the asker may not see it.
	Get(resource, namespace, name string) (obj runtime.Object, known bool)
	// List are objects of a resource; namespace "" means all.
	List(resource, namespace string) []runtime.Object
}

// blind is a Cluster of which nothing is known.
type blind struct{}

func (blind) Get(string, string, string) (runtime.Object, bool) { return nil, false }
func (blind) List(string, string) []runtime.Object              { return nil }

// Facts are what a diagnosis is made of. Pod is required.
type Facts struct {
	Pod     *v1.Pod
	Records []timeline.Record // the pod's
	Nodes   []*v1.Node
	Cluster Cluster // nil: nothing else is known
	Now     time.Time
}

func (f Facts) cluster() Cluster {
	if f.Cluster == nil {
		return blind{}
	}
	return f.Cluster
}

// Pod is the report of one pod, with how it got there.
func Pod(f Facts) Report {
	r := f.report()
	r.How = journey(f.Records)
	return r
}

func (f Facts) report() Report {
	found := Find(f)
	return Report{
		Kind: "Pod", Namespace: f.Pod.Namespace, Name: f.Pod.Name, Fine: f.fine() && found.Do == "",
		State: found.State, Since: found.Since, Why: found.Why, Do: found.Do, Log: found.Log,
	}
}

// fine says whether the pod is as it should be.
func (f Facts) fine() bool {
	c := f.condition(v1.PodReady)
	return f.Pod.DeletionTimestamp == nil && (f.Pod.Status.Phase == v1.PodSucceeded || c != nil && c.Status == v1.ConditionTrue)
}

// Find goes through what can hold a pod up, the last stages of its journey first: a pod that is being deleted is not explained by
// its image.
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
	for _, ask := range []func() (Finding, bool){f.notTaken, f.waiting, f.stopping, f.restarting, f.preparing} {
		if out, ok := ask(); ok {
			return f.doubted(out)
		}
	}
	return f.doubted(f.running())
}

// doubted adds to a finding about containers that their node is not ready: what it says of them may be outdated.
func (f Facts) doubted(out Finding) Finding {
	n := f.node(f.Pod.Spec.NodeName)
	if n == nil || isReady(n) || !f.heard(n) {
		return out
	}
	_, words := ready(n)
	out.Why = joined(out.Why, "Its node "+n.Name+" is not ready, so that this may be out of date: "+words)
	out.Do = joined(out.Do, "Of the node: `podo why node/"+n.Name+"`")
	return out
}

// heard tells whether a kubelet that still reports has reported the pod's containers.
func (f Facts) heard(n *v1.Node) bool { return speaks(n) && len(f.Pod.Status.ContainerStatuses) > 0 }

func (f Facts) node(name string) *v1.Node {
	for _, n := range f.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// speaks tells whether a node's kubelet itself reports what is wrong: then the machine and its podo run.
func speaks(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionFalse })
}

// ready tells whether a node's kubelet is there, and what the node reports if not.
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

// container is a container's specification, of whatever kind it is.
func (f Facts) container(name string) *v1.Container {
	for c := range podspec.Containers(&f.Pod.Spec) {
		if c.Name == name {
			return c
		}
	}
	return &v1.Container{Name: name}
}

// called is the container's kind and name, with its position where the order matters.
func (f Facts) called(name string) string {
	for i, c := range f.Pod.Spec.InitContainers {
		switch {
		case c.Name != name:
		case restarts(f.Pod, name):
			return fmt.Sprintf("sidecar %s (%d of %d init containers)", name, i+1, len(f.Pod.Spec.InitContainers))
		default:
			return fmt.Sprintf("init container %s (%d of %d)", name, i+1, len(f.Pod.Spec.InitContainers))
		}
	}
	for _, c := range f.Pod.Spec.EphemeralContainers {
		if c.Name == name {
			return "ephemeral container " + name
		}
	}
	return "container " + name
}

// last is the newest record of a stage that keep accepts.
func (f Facts) last(stage timeline.Stage, keep func(timeline.Record) bool) (timeline.Record, bool) {
	for _, r := range slices.Backward(f.Records) {
		if r.Stage == stage && (keep == nil || keep(r)) {
			return r, true
		}
	}
	return timeline.Record{}, false
}

// run is the oldest of the newest records of a stage about a subject that are all bad: the time since when it has been so.
func (f Facts) run(stage timeline.Stage, subject string, bad func(timeline.Record) bool) (since time.Time) {
	for _, r := range slices.Backward(f.Records) {
		if r.Stage != stage || subject != "" && r.Subject != subject {
			continue
		}
		if !bad(r) {
			break
		}
		since = r.At
	}
	return since
}
