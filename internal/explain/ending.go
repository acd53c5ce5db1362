package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/timeline"
)

// terminating explains a pod that is being deleted. Within its grace period that is normal; after it something holds the pod.
func (f Facts) terminating() Finding {
	p := f.Pod
	grace := time.Duration(0)
	if p.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
	}
	// deletionTimestamp is when the grace period ends, not when deletion was requested.
	out := Finding{State: "is terminating", Since: p.DeletionTimestamp.Add(-grace)}
	if r, ok := f.last(timeline.Deleting, nil); ok && r.Get("by") != "" {
		out.Why = "Deletion was asked for by " + asker(r) + because(r) + ". "
	}
	var alive []string
	for _, s := range f.statuses() {
		if s.State.Running != nil {
			alive = append(alive, s.Name)
		}
	}
	n := f.node(p.Spec.NodeName)
	left := p.DeletionTimestamp.Sub(f.Now)
	over := p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded // no kubelet has anything to do with it any more
	lost := p.Spec.NodeName != "" && n == nil && f.Nodes != nil
	switch {
	case len(p.Finalizers) > 0 && p.Spec.NodeName == "":
		f.kept(&out, "has never run")
	case len(p.Finalizers) > 0 && over:
		f.kept(&out, "has ended")
	case len(p.Finalizers) > 0 && lost:
		f.kept(&out, "was on node "+p.Spec.NodeName+", which does not exist any more")
	case lost:
		out.Why += "Its node " + p.Spec.NodeName + " does not exist any more, so that nobody can end it"
		out.Do = "It is removed when the node has been missing for 40 s"
	case n != nil && !isReady(n):
		_, words := ready(n)
		out.Why += fmt.Sprintf("The kubelet of its node %s, which must end it, is not there (%s)", n.Name, words)
		out.Do = fmt.Sprintf("Bring the node back. Only if it never comes back: `podo kubectl delete pod -n %s %s --grace-period=0 --force`", p.Namespace, p.Name)
		if len(p.Finalizers) > 0 {
			out.Do = joined(out.Do, "Its finalizers keep it even then: "+strings.Join(p.Finalizers, ", "))
		}
	case len(alive) > 0 && left > 0:
		out.Why += fmt.Sprintf("It still runs %s and has %d s of its grace of %d s left", strings.Join(alive, ", "), int(left.Seconds())+1, int(grace.Seconds()))
		for _, name := range alive {
			if r, ok := f.last(timeline.Container, func(r timeline.Record) bool { return r.Subject == name }); ok && r.To == "PreStop" {
				var hook *v1.LifecycleHandler
				if l := f.container(name).Lifecycle; l != nil {
					hook = l.PreStop
				}
				out.Why = joined(out.Why, fmt.Sprintf("Container %s is asked to end when its preStop hook%s is done, which it is not yet", name, hookWords(hook)))
			}
		}
		if left > time.Minute {
			out.Do = fmt.Sprintf("To wait no longer: `podo kubectl delete pod -n %s %s --grace-period=1`", p.Namespace, p.Name)
		}
	case len(alive) > 0:
		out.Why += fmt.Sprintf("Its grace of %d s is over, but %s still run", int(grace.Seconds()), strings.Join(alive, ", "))
		out.Do = "The runtime does not end them: see `podo status` and the node's log; a process that waits for a dead disk or mount cannot be killed"
	case len(p.Finalizers) > 0:
		f.kept(&out, "has ended")
	default:
		if _, released := f.last(timeline.Released, nil); !released {
			out.Why += "No container runs any more; its volumes, sandbox or network are still being given back"
			if why := f.keeps(); why != "" {
				out.Why += ": " + why
				out.Do = "It goes as soon as that is over: see to the mount or the network plug-in that is named, and to the node's log"
			}
		} else {
			out.Why += "Everything has been given back; the API server is about to be told"
		}
	}
	return out
}

// kept explains a pod that is only held by its finalizers.
func (f Facts) kept(out *Finding, state string) {
	out.State = state + ", and is kept by its finalizers"
	why, do := heldBy("pod", f.Pod, f.Pod.Finalizers)
	out.Why, out.Do = joined(out.Why, why), do
}

// keeps is what could not be given back at the last attempt.
func (f Facts) keeps() string {
	failed := func(r timeline.Record) bool { return r.Cause != "" && (r.From == "returning" || r.To == "kept") }
	if now, _ := f.last(timeline.Volumes, nil); now.To != "returned" {
		if r, ok := f.last(timeline.Volumes, failed); ok {
			return r.Cause
		}
	}
	r, _ := f.last(timeline.Sandbox, failed)
	return r.Cause
}

func isReady(n *v1.Node) bool {
	ok, _ := ready(n)
	return ok
}

// ended explains a pod that is over.
func (f Facts) ended() Finding {
	p := f.Pod
	out := Finding{State: "has succeeded"}
	if p.Status.Phase == v1.PodFailed {
		out.State = "has failed"
	}
	if p.Status.Reason != "" {
		out.State += " (" + p.Status.Reason + ")"
	}
	out.Why = p.Status.Message
	for _, s := range f.statuses() {
		t := s.State.Terminated
		if t == nil {
			continue
		}
		if t.FinishedAt.After(out.Since) {
			out.Since = t.FinishedAt.Time
		}
		if t.ExitCode != 0 {
			end := Finding{}
			f.end(&end, s.Name, t, false)
			out.Why, out.Do, out.Log = joined(out.Why, end.Why), end.Do, end.Log
		}
	}
	if c := f.condition(v1.PodReady); out.Since.IsZero() && c != nil && c.Status == v1.ConditionFalse {
		out.Since = c.LastTransitionTime.Time
	}
	if do := refused(p.Status.Reason, p.Status.Message); do != "" {
		out.Do = do
	}
	return out
}

// useLess says how to keep a pod from being evicted again, by the kubelet's message.
func useLess(message string) string {
	switch {
	case strings.HasPrefix(message, "Usage of EmptyDir volume "):
		return "Have it write less there, or raise the volume's emptyDir.sizeLimit"
	case strings.Contains(message, " exceeded its local ephemeral storage limit "), strings.HasPrefix(message, "Pod ephemeral local storage usage exceeds "):
		return "Have it write less to its file system, logs and emptyDir volumes, or raise resources.limits of ephemeral-storage"
	}
	return "Lower what it uses, or raise its requests so that others are chosen first"
}

// refusals are the kubelet's reasons that a pod's message explains.
var refusals = []string{
	"NodeAffinity", "NodeName", "UnexpectedAdmissionError", "AppArmor", "TopologyAffinityError", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch",
	"SupplementalGroupsPolicyNotSupported", "PodFeatureUnsupported", "PodLevelResourcesNotSupported",
}

// refused says what to do about a pod that the kubelet rejected, or ended by itself.
func refused(reason, message string) string {
	switch {
	case reason == "Evicted":
		return "It is not started again; whatever made it makes a new one. " + useLess(message)
	case reason == "DeadlineExceeded":
		return "It ran longer than activeDeadlineSeconds allows: raise that, or find what keeps it"
	case reason == "Preempting" || reason == v1.PodReasonPreemptionByScheduler:
		return "A pod of higher priority took its room: raise its priorityClassName, or add a node"
	case strings.HasPrefix(reason, "OutOf"):
		return "The node it named has not enough left: leave spec.nodeName to the scheduler, lower its requests, or end other pods"
	case reason == "SysctlForbidden":
		return "Leave that out of spec.securityContext.sysctls, or have the node allow it (allowedUnsafeSysctls in the file of --kubelet-config); then make the pod anew"
	case reason == "NodePorts":
		return "The node has its hostPort in use, by another pod or by podo itself: choose another one, end who has it, or leave spec.nodeName to the scheduler; then make the pod anew"
	case reason == "TaintToleration":
		return "The node that it named has a taint that it does not tolerate: add the toleration, or leave spec.nodeName to the scheduler; then make the pod anew"
	case reason == "NodeShutdown" || reason == "Terminated":
		return "Its node was shut down: whatever made it makes a new one"
	case reason == "NodeAffinity":
		return "The node that it named is none that its nodeSelector and nodeAffinity ask for: leave spec.nodeName to the scheduler, or correct them; then make the pod anew"
	case reason == "AppArmor":
		return "Leave appArmorProfile out, or have the pod go to a node with AppArmor that has the profile; then make the pod anew"
	case reason == "PodOSNotSupported":
		return "Correct spec.os.name, or have the pod go to a node of that system; then make the pod anew"
	case slices.Contains(refusals, reason):
		return "The kubelet refused it; a new pod is needed"
	}
	return ""
}
