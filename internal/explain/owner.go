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

	"podo.dev/podo/internal/registry/batchobject"
)

// Owner is an object to be explained, and what stands below it. Object is required.
type Owner struct {
	Object   runtime.Object // a maker of pods (a Deployment, a Job), or something that they depend on (a node, a claim, a budget)
	Children []Owner        // those that it controls or, with an autoscaler, scales
	Pods     []Facts        // which it controls itself, selects, or has
	Told     []Report       // the result of Pods(Pods), if it was made for another object with the same pods; otherwise nil
	Warnings []*v1.Event    // about itself
	Cluster  Cluster        // nil: nothing else is known
	Now      time.Time
}

// Owns tells whether Of can explain more about objects of this type than about any: that they exist, or what keeps them from
// going.
func Owns(obj runtime.Object) bool {
	_, ok := Owner{Object: obj}.standing()
	return ok
}

// Of is the report of the object itself, and below it one of each child and one of each group of pods in the same state for the
// same reason, those in trouble first. What a child says about its lack of pods is not repeated above it.
func Of(o Owner) Report {
	f, _ := o.standing()
	m, isObject := o.Object.(metav1.Object)
	if !isObject {
		return Report{}
	}
	r := Report{Kind: kindOf(o.Object), Namespace: m.GetNamespace(), Name: m.GetName(), Fine: f.fine, State: f.State, Since: f.Since, Why: f.Why, Do: f.Do}
	if _, is := o.Object.(*v1.Namespace); is && m.GetDeletionTimestamp() == nil {
		return o.inside(r)
	}
	for _, child := range o.Children {
		if s, ok := child.standing(); ok && (s.wanted > 0 || !s.fine || len(child.Pods) > 0 || len(child.Children) > 0) {
			r.Below = append(r.Below, Of(child))
		}
	}
	slices.SortStableFunc(r.Below, SickFirst)
	if o.Told == nil {
		o.Told = Pods(o.Pods)
	}
	r.Below = append(r.Below, o.Told...)
	if w := o.newest(); w != nil && !f.fine && !same(w.Message, f.Why) {
		r.Why = joined(r.Why, "Its controller said at "+clock(w.LastTimestamp.Time, o.Now)+": "+w.Message)
		if f.refusal == "" && w.Reason == "FailedCreate" {
			f.refusal = w.Message
		}
	}
	for i := range r.Below {
		below := &r.Below[i]
		switch {
		case f.refusal != "" && strings.Contains(below.Why, f.refusal):
			r.Why = strings.TrimPrefix(strings.Replace(r.Why, f.refusal, below.Kind+" "+below.Name+" may not create its pods", 1), ". ")
			return r
		case f.Why != "" && strings.Contains(strings.ToLower(below.Why), strings.ToLower(f.Why)):
			below.Why, below.Do = "", "" // as above it
		}
	}
	if f.refusal != "" {
		r.Do = mendRefusal(f.refusal, m.GetNamespace())
	}
	return r
}

// same tells whether one of two texts contains the other.
func same(a, b string) bool {
	return a != "" && b != "" && (strings.Contains(a, b) || strings.Contains(b, a))
}

// SickFirst orders what is not as it should be before what is.
func SickFirst(a, b Report) int {
	switch {
	case a.Fine == b.Fine:
		return 0
	case b.Fine:
		return -1
	}
	return 1
}

// newest is the last warning within a quarter of an hour.
func (o Owner) newest() (last *v1.Event) {
	for _, e := range o.Warnings {
		if e.Type == v1.EventTypeWarning && o.Now.Sub(e.LastTimestamp.Time) < 15*time.Minute && (last == nil || e.LastTimestamp.After(last.LastTimestamp.Time)) {
			last = e
		}
	}
	return last
}

func kindOf(obj runtime.Object) string { return obj.GetObjectKind().GroupVersionKind().Kind }

// Pods are reports of pods; pods with the same finding, apart from names and times, share one.
func Pods(pods []Facts) []Report {
	groups := map[string]*Report{}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b Facts) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	for _, p := range pods {
		r := p.report()
		key := strings.ReplaceAll(r.State+"\n"+r.Why+"\n"+r.Do, p.Pod.Name, "")
		if r.Fine {
			key, r.Why = "fine "+r.State, ""
		}
		key = p.Pod.Namespace + "\n" + key
		if g := groups[key]; g != nil {
			g.Same = append(g.Same, p.Pod.Name)
			if r.Since.Before(g.Since) {
				g.Since = r.Since
			}
			continue
		}
		groups[key] = &r
	}
	var out []Report
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Report) int {
		return cmp.Or(SickFirst(a, b), cmp.Compare(len(b.Same), len(a.Same)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// stand is the state of an owner by its own status.
type stand struct {
	Finding
	wanted  int32  // pods
	fine    bool   // nothing is to be explained
	refusal string // the API server's words when it refused to create one of its pods
}

// standing reads an owner; false for an object of another kind.
func (own Owner) standing() (stand, bool) {
	s, ok := own.alive()
	switch own.Object.(type) {
	case *v1.PersistentVolumeClaim, *v1.Namespace: // their own explanations cover their end
		return s, ok
	}
	return own.leaving(s), ok
}

// alive is the state of an object apart from its deletion.
func (own Owner) alive() (stand, bool) {
	switch o := own.Object.(type) {
	case *appsv1.Deployment:
		return deployment(o, len(own.Children) > 1), true
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
		return cronJob(o, own.newest() == nil, own.Now), true
	}
	return own.others()
}

func want(n *int32) int32 {
	if n == nil {
		return 1 // as the API fills it in
	}
	return *n
}

// unseen is the state of an object whose last change its controller has not seen.
func unseen(wanted int32) stand {
	return stand{wanted: wanted, Finding: Finding{
		State: "has been changed, and its controller has not looked at it yet", Do: "If this lasts, see whether the controllers run: `podo status`",
	}}
}

// replicas is the state of a number of pods, for kinds that want nothing else.
func replicas(n *int32, ready int32, generation, observed int64, failure string) stand {
	wanted := want(n)
	if observed < generation {
		return unseen(wanted)
	}
	s := stand{wanted: wanted, fine: ready == wanted && failure == ""}
	if wanted == 0 && ready == 0 {
		s.State, s.fine = "is scaled to 0, so that it has no pods", true
		return s
	}
	s.State = fmt.Sprintf("has %d of %s ready", ready, count(wanted, "pod"))
	s.Why, s.refusal = failure, failure
	return s
}

func replicaSetFailure(all []appsv1.ReplicaSetCondition) string {
	for _, c := range all {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == v1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func controllerFailure(all []v1.ReplicationControllerCondition) string {
	for _, c := range all {
		if c.Type == v1.ReplicationControllerReplicaFailure && c.Status == v1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// deployment explains one; earlier says that there are ReplicaSets of earlier templates to go back to.
func deployment(d *appsv1.Deployment, earlier bool) stand {
	s, wanted := d.Status, want(d.Spec.Replicas)
	if s.ObservedGeneration < d.Generation {
		return unseen(wanted)
	}
	out := stand{wanted: wanted}
	if wanted == 0 && s.Replicas == 0 && !d.Spec.Paused {
		out.State, out.fine = "is scaled to 0, so that it has no pods", true
		out.Do = fmt.Sprintf("`podo kubectl scale -n %s deployment/%s --replicas=1` starts one", d.Namespace, d.Name)
		return out
	}
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
			out.Do = "What keeps it is below"
			if earlier {
				out.Do += fmt.Sprintf(". Back to what ran before: `podo kubectl rollout undo -n %s %s`", d.Namespace, name)
			}
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == v1.ConditionTrue:
			out.Why, out.refusal = joined(out.Why, c.Message), c.Message
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
	if n := want(o.Spec.Replicas); o.Status.UpdatedReplicas < n && o.Status.UpdateRevision != o.Status.CurrentRevision {
		s.State += fmt.Sprintf(", %d of the newest template", o.Status.UpdatedReplicas)
		u := o.Spec.UpdateStrategy
		switch {
		case u.Type == appsv1.OnDeleteStatefulSetStrategyType:
			s.Why = "A pod gets the newest template when it is deleted (updateStrategy OnDelete)"
		case u.RollingUpdate != nil && u.RollingUpdate.Partition != nil && *u.RollingUpdate.Partition > 0:
			s.Why = fmt.Sprintf("The newest template is for pods from the number %d on (updateStrategy.rollingUpdate.partition)", *u.RollingUpdate.Partition)
		}
	}
	if s.fine || o.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return s
	}
	s.Why = joined(s.Why, "Its pods start one after the other, each when the one before it is ready")
	return s
}

func daemonSet(o *appsv1.DaemonSet) stand {
	wanted := o.Status.DesiredNumberScheduled
	if o.Status.ObservedGeneration < o.Generation {
		return unseen(wanted)
	}
	out := stand{wanted: wanted, fine: o.Status.NumberReady == wanted}
	out.State = fmt.Sprintf("has a ready pod on %d of %s", o.Status.NumberReady, count(wanted, "node"))
	switch {
	case wanted == 0:
		out.State, out.fine = "is for no node there is", false
		out.Why = "No node matches its node selector and affinity and has only taints that it tolerates"
		out.Do = "Compare them with `podo kubectl get nodes --show-labels` and the nodes' taints"
	case o.Status.UpdatedNumberScheduled < wanted:
		out.State += fmt.Sprintf(", %d of the newest template", o.Status.UpdatedNumberScheduled)
		if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			out.Why = "A pod gets the newest template when it is deleted (updateStrategy OnDelete)"
		}
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
	pods := wanted
	if n := o.Spec.Completions; n != nil {
		pods = min(pods, *n-s.Succeeded)
	}
	out.fine = s.Failed == 0 && s.Active > 0 && s.Active >= pods && s.Ready != nil && *s.Ready == s.Active
	switch {
	case o.Spec.ManagedBy != nil && *o.Spec.ManagedBy != batchv1.JobControllerName:
		out.Why = fmt.Sprintf("It is %s that sees to it, and nobody else does (spec.managedBy)", *o.Spec.ManagedBy)
		out.Do = "See whether that program runs"
	case wanted == 0:
		out.Why, out.Do = "Its parallelism is 0", fmt.Sprintf("`podo kubectl patch job -n %s %s -p '{\"spec\":{\"parallelism\":1}}'` lets it go on", o.Namespace, o.Name)
	case s.Failed > 0 && s.Active == 0:
		out.Why = "After a failure it waits before it starts another pod, 10 s at first, twice as long each time, 10 min at most"
		if limit := o.Spec.BackoffLimit; limit != nil && o.Spec.BackoffLimitPerIndex == nil {
			out.Why += fmt.Sprintf("; with more than %s it fails (backoffLimit)", count(*limit, "failure"))
		}
	}
	for _, c := range s.Conditions {
		if c.Status != v1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			out.State, out.Since, out.Why, out.Do, out.fine = "is complete: "+done, c.LastTransitionTime.Time, "", "", true
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			out.State, out.Since, out.fine = "has failed: "+done, c.LastTransitionTime.Time, false
			out.Why = c.Reason + ": " + c.Message
			out.Do = fmt.Sprintf("Read its pods' logs: `podo kubectl logs -n %s job/%s --all-pods`", o.Namespace, o.Name)
		case batchv1.JobSuspended:
			out.State, out.Since, out.Why, out.fine = "is suspended", c.LastTransitionTime.Time, "", false
			out.Do = fmt.Sprintf("It goes on when spec.suspend is false: `podo kubectl patch job -n %s %s -p '{\"spec\":{\"suspend\":false}}'`", o.Namespace, o.Name)
		}
	}
	if n := s.Terminating; n != nil && *n > 0 && !out.fine {
		out.Why = joined(out.Why, fmt.Sprintf("It waits for %s that is to end", count(*n, "pod")))
	}
	return out
}

// cronJob explains one; quiet says that there are no recent warnings.
func cronJob(o *batchv1.CronJob, quiet bool, now time.Time) stand {
	out := stand{fine: quiet}
	schedule := fmt.Sprintf("its schedule is %q", o.Spec.Schedule)
	if z := o.Spec.TimeZone; z != nil {
		schedule += " in " + *z
	}
	if s, err := batchobject.Schedule(&o.Spec); err == nil && !s.Next(now).IsZero() {
		schedule += ", due next at " + s.Next(now).UTC().Format(time.RFC3339)
	}
	out.State = fmt.Sprintf("has %s active", count(int32(len(o.Status.Active)), "job"))
	switch {
	case o.Spec.Suspend != nil && *o.Spec.Suspend:
		out.State, out.fine = "is suspended", false
		out.Do = fmt.Sprintf("It goes on when spec.suspend is false: `podo kubectl patch cronjob -n %s %s -p '{\"spec\":{\"suspend\":false}}'`", o.Namespace, o.Name)
	case o.Status.LastScheduleTime == nil:
		out.Why = "It has not started one yet; " + schedule
	default:
		out.Why = fmt.Sprintf("It started the last one at %s; %s", o.Status.LastScheduleTime.UTC().Format(time.RFC3339), schedule)
	}
	if out.Do == "" && len(o.Status.Active) > 0 && o.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent {
		out.Why = joined(out.Why, "It starts no other before "+o.Status.Active[0].Name+" has ended (concurrencyPolicy Forbid)")
	}
	return out
}
