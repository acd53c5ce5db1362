package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/timeline"
)

// most is how many steps a journey has: the first three and the newest.
const most = 12

// journey are the milestones of a pod's records; repeated ones are merged.
func journey(records []timeline.Record) []Step {
	var out []Step
	times := map[string]int{}
	at := map[string]int{} // where a repeated step is
	for _, r := range timeline.Select(records, timeline.Query{}) {
		what := milestone(r)
		if what == "" {
			continue
		}
		if i, seen := at[what]; seen && repeats(r) {
			times[what]++
			out[i].What = fmt.Sprintf("%s (%d times, last %s)", what, times[what], r.At.UTC().Format("15:04:05"))
			continue
		}
		at[what], times[what] = len(out), 1
		out = append(out, Step{At: r.At, What: what})
	}
	if len(out) > most {
		out = slices.Concat(out[:3], out[len(out)-most+3:])
	}
	return out
}

// repeats tells whether a record's step is shown once however often it comes.
func repeats(r timeline.Record) bool {
	switch r.Stage {
	case timeline.Condition, timeline.Container, timeline.Image, timeline.Attempt, timeline.Probe, timeline.Volumes, timeline.Sandbox, timeline.Restored:
		return true
	}
	return false
}

// milestone is a record in words, "" for one that is of no interest to users.
func milestone(r timeline.Record) string {
	switch r.Stage {
	case timeline.Accepted:
		return created(r)
	case timeline.Attempt:
		if r.To == "unschedulable" {
			return "found no node"
		}
	case timeline.Bound:
		return "given to node " + r.To
	case timeline.Admitted:
		if r.To != "ok" {
			return "refused by the node: " + r.To
		}
	case timeline.Volumes:
		if r.Cause != "" {
			return "a volume failed: " + short(r.Cause)
		}
	case timeline.Sandbox:
		if r.Cause != "" {
			return "its sandbox failed: " + short(r.Cause)
		}
	case timeline.Image:
		switch r.To {
		case "pulled":
			return "image " + r.Subject + " pulled"
		case "failed":
			return "pulling " + r.Subject + " failed"
		}
	case timeline.Container:
		return contained(r)
	case timeline.Probe:
		kind, container := r.Subject, ""
		if c, k, ok := strings.Cut(r.Subject, "/"); ok {
			container, kind = c, k
		}
		switch r.To {
		case "failed":
			return fmt.Sprintf("the %s probe of %s failed", kind, container)
		case "error":
			return fmt.Sprintf("the %s probe of %s could not be run", kind, container)
		}
	case timeline.Condition:
		if r.Subject == string(v1.PodReady) && r.To == "True" {
			return "ready"
		}
	case timeline.Terminating:
		if r.To == "stopping" && r.Cause != "Deleted" && r.Cause != "Completed" {
			return "stopped by the node: " + r.Cause
		}
	case timeline.Deleting:
		return "deletion asked for by " + asker(r) + because(r)
	case timeline.Deleted:
		if r.Get("by") != "" && !strings.HasPrefix(r.Get("by"), "system:node:") {
			return "deleted by " + asker(r) + because(r)
		}
		return "gone"
	case timeline.Restored:
		return "the node's podo started anew, and took it over"
	}
	return ""
}

func created(r timeline.Record) string {
	out := "created"
	if by := r.Get("by"); by != "" {
		out += " by " + asker(r)
	}
	if owner := r.Get("owner"); owner != "" {
		out += " for " + owner
	}
	return out
}

func contained(r timeline.Record) string {
	switch r.To {
	case "Running":
		return "container " + r.Subject + " started"
	case "Exited":
		out := "container " + r.Subject + " ended"
		if r.From == "Starting" {
			out = "container " + r.Subject + " could not be started"
		} else if code := r.Get("exit"); code != "" {
			out += " with exit code " + code
		}
		if r.Cause != "" && r.Cause != "Error" {
			out += " (" + r.Cause + ")"
		}
		return out
	case "Stopping":
		if strings.HasPrefix(r.Cause, "Stopping container") {
			return ""
		}
		return "the kubelet stops container " + r.Subject + ": " + r.Cause
	case "BackOff":
		switch r.Cause {
		case "CrashLoopBackOff", "ErrImagePull", "":
			return ""
		}
		return "container " + r.Subject + ": " + r.Cause
	}
	return ""
}

// asker is who requested what a record is about.
func asker(r timeline.Record) string {
	switch by := r.Get("by"); by {
	case "":
		return "somebody"
	case "garbage-collector":
		return "the garbage collector, since its owner is gone"
	case "namespaces":
		return "the namespace controller, since its namespace ends"
	case "system:kube-controller-manager":
		return "a controller"
	case "system:kube-scheduler":
		return "the scheduler"
	default:
		if node, ok := strings.CutPrefix(by, "system:node:"); ok {
			return "the node " + node
		}
		return by
	}
}

// surplus are the controllers that delete a pod only when there are too many, with the kind that asks for the number.
var surplus = map[string]string{"replicaset-controller": "ReplicaSet", "replication-controller": "ReplicationController"}

// because is why a pod was deleted, if the record says so.
func because(r timeline.Record) string {
	switch r.Cause {
	case "":
		if owner := surplus[r.Get("by")]; owner != "" {
			return ", since there were more pods than their " + owner + " asks for"
		}
		return ""
	case "EvictionByEvictionAPI":
		return " as an eviction, which is what a drain does"
	case v1.PodReasonPreemptionByScheduler:
		return ", to make room for a pod of higher priority"
	case "DeletionByTaintManager":
		return ", for a taint of its node that it does not tolerate"
	case "DeletionByPodGC":
		return ", since its node is gone"
	}
	return " (" + r.Cause + ")"
}
