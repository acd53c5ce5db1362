package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Owner is an object that has pods made, and what a diagnosis of it is made of. Object is required.
type Owner struct {
	Object   runtime.Object // a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or ReplicationController
	Children []Owner        // of those kinds, which it controls
	Pods     []Facts        // which it controls itself
	Warnings []*v1.Event    // about itself
	Now      time.Time
}

// Owns says whether Find can tell something of objects of this type.
func Owns(obj runtime.Object) bool {
	_, ok := standing(obj)
	return ok
}

// Text is the diagnosis: a paragraph of the object itself, and indented below it one of each child and one of each group of pods that
// are in the same state for the same reason, those first that are not as they should be.
func (o Owner) Text() string {
	var b strings.Builder
	o.write(&b, "")
	return strings.TrimSuffix(b.String(), "\n")
}

func (o Owner) write(b *strings.Builder, indent string) {
	f, ok := standing(o.Object)
	m, isObject := o.Object.(metav1.Object)
	if !ok || !isObject {
		return
	}
	if w := o.newest(); w != nil && !f.fine {
		f.Why = joined(f.Why, "Its controller said "+w.LastTimestamp.UTC().Format("15:04:05")+": "+w.Message)
	}
	fmt.Fprintf(b, "%s%s\n", indent, f.paragraph(kindOf(o.Object)+" "+m.GetNamespace()+"/"+m.GetName(), o.Now))
	indent += "  "
	for _, child := range o.Children {
		if s, ok := standing(child.Object); ok && (s.wanted > 0 || len(child.Pods) > 0 || len(child.Children) > 0) {
			child.write(b, indent)
		}
	}
	for _, g := range grouped(o.Pods) {
		fmt.Fprintf(b, "%s%s\n", indent, g.text(o.Now))
	}
}

// newest is the last warning of the last quarter of an hour.
func (o Owner) newest() (last *v1.Event) {
	for _, e := range o.Warnings {
		if e.Type == v1.EventTypeWarning && o.Now.Sub(e.LastTimestamp.Time) < 15*time.Minute && (last == nil || e.LastTimestamp.After(last.LastTimestamp.Time)) {
			last = e
		}
	}
	return last
}

// joined is two sentences, or the second one.
func joined(first, second string) string {
	if first == "" {
		return second
	}
	return sentence(first) + " " + second
}

func kindOf(obj runtime.Object) string { return obj.GetObjectKind().GroupVersionKind().Kind }

// group is pods of one state and reason.
type group struct {
	Finding
	first   *v1.Pod
	others  []string
	healthy bool
}

// grouped puts pods together whose findings are the same but for their names and times.
func grouped(pods []Facts) []*group {
	groups := map[string]*group{}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b Facts) int { return cmp.Compare(a.Pod.Name, b.Pod.Name) })
	for _, p := range pods {
		f := Find(p)
		c := p.condition(v1.PodReady)
		healthy := p.Pod.DeletionTimestamp == nil && (p.Pod.Status.Phase == v1.PodSucceeded || c != nil && c.Status == v1.ConditionTrue)
		key := strings.ReplaceAll(f.State+"\n"+f.Why+"\n"+f.Do, p.Pod.Name, "")
		if healthy {
			key = "healthy " + f.State
		}
		if g := groups[key]; g != nil {
			g.others = append(g.others, p.Pod.Name)
			if f.Since.Before(g.Since) {
				g.Since = f.Since
			}
			continue
		}
		groups[key] = &group{Finding: f, first: p.Pod, healthy: healthy}
	}
	var out []*group
	for _, g := range groups {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *group) int {
		if a.healthy != b.healthy {
			if b.healthy {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(len(b.others), len(a.others)), cmp.Compare(a.first.Name, b.first.Name))
	})
	return out
}

// named is how many of a group's other pods are called by their names.
const named = 5

func (g *group) text(now time.Time) string {
	text := g.Text(g.first.Namespace+"/"+g.first.Name, now)
	if len(g.others) == 0 {
		return text
	}
	more := g.others
	rest := ""
	if len(more) > named {
		rest = fmt.Sprintf(" and %d more", len(more)-named)
		more = more[:named]
	}
	return fmt.Sprintf("%s It is the same with %s%s.", text, strings.Join(more, ", "), rest)
}

// stand is how an owner stands as its own status tells it.
type stand struct {
	Finding
	wanted int32 // pods
	fine   bool  // nothing is to be explained
}

// standing reads an owner; false is an object of another kind.
func standing(obj runtime.Object) (stand, bool) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return deployment(o), true
	case *appsv1.ReplicaSet:
		s := o.Status
		return replicas(o.Spec.Replicas, s.ReadyReplicas, o.Generation, s.ObservedGeneration, replicaSetFailure(s.Conditions)), true
	case *v1.ReplicationController:
		s := o.Status
		return replicas(o.Spec.Replicas, s.ReadyReplicas, o.Generation, s.ObservedGeneration, controllerFailure(s.Conditions)), true
	case *appsv1.StatefulSet:
		return statefulSet(o), true
	case *appsv1.DaemonSet:
		return daemonSet(o), true
	case *batchv1.Job:
		return job(o), true
	case *batchv1.CronJob:
		return cronJob(o), true
	}
	return stand{}, false
}

func want(n *int32) int32 {
	if n == nil {
		return 1 // as the API fills it in
	}
	return *n
}

// unseen is how an object stands whose last change its controller has not looked at.
func unseen(wanted int32) stand {
	return stand{wanted: wanted, Finding: Finding{
		State: "has been changed, and its controller has not looked at it yet", Do: "If this lasts, see whether the controllers run: `podo status`",
	}}
}

// replicas is how a number of pods stands, for kinds that want nothing else.
func replicas(n *int32, ready int32, generation, observed int64, failure string) stand {
	wanted := want(n)
	if observed < generation {
		return unseen(wanted)
	}
	s := stand{wanted: wanted, fine: ready == wanted && failure == ""}
	s.State = fmt.Sprintf("has %d of %s ready", ready, count(wanted, "pod"))
	s.Why = failure
	return s
}

func replicaSetFailure(all []appsv1.ReplicaSetCondition) string {
	for _, c := range all {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == v1.ConditionTrue {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func controllerFailure(all []v1.ReplicationControllerCondition) string {
	for _, c := range all {
		if c.Type == v1.ReplicationControllerReplicaFailure && c.Status == v1.ConditionTrue {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func deployment(d *appsv1.Deployment) stand {
	s, wanted := d.Status, want(d.Spec.Replicas)
	if s.ObservedGeneration < d.Generation {
		return unseen(wanted)
	}
	out := stand{wanted: wanted}
	out.State = fmt.Sprintf("has %d of %s available", s.AvailableReplicas, count(wanted, "replica"))
	if s.UpdatedReplicas < wanted {
		out.State += fmt.Sprintf(", %d of the newest template", s.UpdatedReplicas)
	}
	name := "deployment/" + d.Name
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentAvailable && c.Status == v1.ConditionFalse:
			out.Since = c.LastTransitionTime.Time
		case c.Type == appsv1.DeploymentProgressing && c.Status == v1.ConditionFalse:
			out.Why = joined(out.Why, c.Message)
			out.Do = fmt.Sprintf("What keeps it is below. Back to what ran before: `podo kubectl rollout undo -n %s %s`", d.Namespace, name)
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == v1.ConditionTrue:
			out.Why = joined(out.Why, c.Message)
		}
	}
	if d.Spec.Paused {
		out.State += ", and is paused"
		out.Do = fmt.Sprintf("A change of its template is rolled out after `podo kubectl rollout resume -n %s %s`", d.Namespace, name)
	}
	out.fine = s.AvailableReplicas == wanted && s.UpdatedReplicas == wanted && out.Why == ""
	return out
}

func statefulSet(o *appsv1.StatefulSet) stand {
	s := replicas(o.Spec.Replicas, o.Status.ReadyReplicas, o.Generation, o.Status.ObservedGeneration, "")
	if o.Status.ObservedGeneration < o.Generation {
		return s
	}
	for _, c := range o.Status.Conditions {
		if c.Type == "Progressing" && c.Status == v1.ConditionFalse { // docs/decisions/0012
			s.fine = false
			s.Why, s.Since = c.Message, c.LastTransitionTime.Time
			s.Do = fmt.Sprintf("What keeps it is below. Back to what ran before: `podo kubectl rollout undo -n %s statefulset/%s`, and delete the pod", o.Namespace, o.Name)
			return s
		}
	}
	if s.fine || o.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return s
	}
	s.Why = "Its pods start one after the other, each when the one before it is ready"
	return s
}

func daemonSet(o *appsv1.DaemonSet) stand {
	wanted := o.Status.DesiredNumberScheduled
	if o.Status.ObservedGeneration < o.Generation {
		return unseen(wanted)
	}
	out := stand{wanted: wanted, fine: o.Status.NumberReady == wanted}
	out.State = fmt.Sprintf("has a ready pod on %d of %s", o.Status.NumberReady, count(wanted, "node"))
	if wanted == 0 {
		out.State, out.fine = "is for no node there is", false
		out.Why = "No node matches its node selector and affinity, or has only taints that it tolerates"
	}
	return out
}

func job(o *batchv1.Job) stand {
	wanted := want(o.Spec.Parallelism)
	out := stand{wanted: wanted}
	s := o.Status
	done := fmt.Sprintf("%d succeeded, %d failed, %d active", s.Succeeded, s.Failed, s.Active)
	if o.Spec.Completions != nil {
		done = fmt.Sprintf("%d of %d succeeded, %d failed, %d active", s.Succeeded, *o.Spec.Completions, s.Failed, s.Active)
	}
	out.State = "runs: " + done
	for _, c := range s.Conditions {
		if c.Status != v1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			out.State, out.Since, out.fine = "is complete: "+done, c.LastTransitionTime.Time, true
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			out.State, out.Since = "has failed: "+done, c.LastTransitionTime.Time
			out.Why = c.Reason + ": " + c.Message
			out.Do = fmt.Sprintf("Read its pods' logs: `podo kubectl logs -n %s job/%s --all-pods`", o.Namespace, o.Name)
		case batchv1.JobSuspended:
			out.State, out.Since = "is suspended", c.LastTransitionTime.Time
			out.Do = fmt.Sprintf("It goes on when spec.suspend is false: `podo kubectl patch job -n %s %s -p '{\"spec\":{\"suspend\":false}}'`", o.Namespace, o.Name)
		}
	}
	return out
}

func cronJob(o *batchv1.CronJob) stand {
	out := stand{fine: true}
	out.State = fmt.Sprintf("has %s active", count(int32(len(o.Status.Active)), "job"))
	switch {
	case o.Spec.Suspend != nil && *o.Spec.Suspend:
		out.State, out.fine = "is suspended", false
	case o.Status.LastScheduleTime == nil:
		out.Why = fmt.Sprintf("It has not started one yet; its schedule is %q", o.Spec.Schedule)
	default:
		out.Why = fmt.Sprintf("It started the last one at %s; its schedule is %q", o.Status.LastScheduleTime.UTC().Format(time.RFC3339), o.Spec.Schedule)
	}
	return out
}

func count(n int32, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
