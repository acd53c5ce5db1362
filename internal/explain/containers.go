package explain

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/timeline"
)

// statuses are all of the pod's, in the order in which containers start.
func (f Facts) statuses() []v1.ContainerStatus {
	s := &f.Pod.Status
	out := append([]v1.ContainerStatus{}, s.InitContainerStatuses...)
	return append(out, s.ContainerStatuses...)
}

// waiting explains a container that cannot start.
func (f Facts) waiting() (Finding, bool) {
	for _, s := range f.statuses() {
		w := s.State.Waiting
		if w == nil || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing" || w.Reason == "" {
			continue
		}
		out := Finding{State: fmt.Sprintf("cannot start container %s (%s)", s.Name, w.Reason), Since: f.since(s.Name), Why: w.Message}
		switch w.Reason {
		case "ImagePullBackOff", "ErrImagePull", "RegistryUnavailable":
			f.image(&out, s)
		case "ErrImageNeverPull":
			out.Do = fmt.Sprintf("The pull policy is Never and the node has no image %s: import it with `podo image import`, or change imagePullPolicy", s.Image)
		case "InvalidImageName":
			out.Do = fmt.Sprintf("Correct the image name %q in the pod", s.Image)
		case "ImageInspectError":
			out.Do = "The node's image store does not answer for this image: pull or import it anew"
		case "CrashLoopBackOff":
			f.crash(&out, s)
		case "CreateContainerConfigError":
			out.Do = missing(w.Message, f.Pod.Namespace)
		case "CreateContainerError", "RunContainerError":
			out.Do = "The runtime refuses it: check command, working directory, mounts and security context"
		case "PostStartHookError":
			out.Do = "Its postStart hook fails, so that the container is ended each time: correct lifecycle.postStart"
		}
		return out, true
	}
	return Finding{}, false
}

// since is the time of a container's newest record.
func (f Facts) since(container string) time.Time {
	for _, stage := range []timeline.Stage{timeline.Container, timeline.Image} {
		if r, ok := f.last(stage, func(r timeline.Record) bool { return r.Subject == container }); ok {
			return r.At
		}
	}
	return time.Time{}
}

func (f Facts) image(out *Finding, s v1.ContainerStatus) {
	// Back-off hides the registry's own words; the last failed pull has them.
	if r, ok := f.last(timeline.Image, func(r timeline.Record) bool {
		return (r.Subject == s.Name || r.Subject == s.Image) && r.To == "failed"
	}); ok && r.Cause != "" {
		out.Why = strings.TrimSpace(out.Why + ". The last pull failed: " + r.Cause)
		if m := r.Get("message"); m != "" {
			out.Why += ": " + m
		}
	}
	words := strings.ToLower(out.Why)
	contains := func(any ...string) bool {
		for _, w := range any {
			if strings.Contains(words, w) {
				return true
			}
		}
		return false
	}
	switch {
	case contains("not found", "manifest unknown", "name unknown", "404"):
		out.Do = fmt.Sprintf("The registry has no such image: check name and tag of %s", s.Image)
	case contains("unauthorized", "denied", "forbidden", "401", "403"):
		out.Do = fmt.Sprintf("The registry wants credentials for %s: add imagePullSecrets, or check the name", s.Image)
	case contains("no such host", "connection refused", "timeout", "network is unreachable", "i/o timeout"):
		out.Do = "The registry cannot be reached from the node: check its name, the network, or import the image with `podo image import`"
	case contains("x509", "certificate"):
		out.Do = "The registry's certificate is not trusted by the node"
	default:
		out.Do = fmt.Sprintf("Check that %s can be pulled from the node, or import it with `podo image import`", s.Image)
	}
	out.Do += ". It is tried again by itself, up to 5 minutes apart"
}

func (f Facts) crash(out *Finding, s v1.ContainerStatus) {
	out.State = fmt.Sprintf("restarts container %s again and again (CrashLoopBackOff, %d restarts)", s.Name, s.RestartCount)
	logs := fmt.Sprintf("Read its last words: `podo kubectl logs -n %s %s -c %s --previous`", f.Pod.Namespace, f.Pod.Name, s.Name)
	if t := s.LastTerminationState.Terminated; t != nil {
		if out.Since.IsZero() {
			out.Since = t.FinishedAt.Time
		}
		out.Why = "It last ended with " + exit(t) + lived(t)
		if t.Reason == "OOMKilled" {
			out.Do = "Raise its memory limit, or find what needs so much. " + logs
			return
		}
		if t.ExitCode == 0 {
			out.Do = "A container that ends well is started again because restartPolicy is Always: let it run on, or use OnFailure or a Job. " + logs
			return
		}
	}
	out.Do = logs
}

func lived(t *v1.ContainerStateTerminated) string {
	if t.StartedAt.IsZero() || t.FinishedAt.Before(&t.StartedAt) {
		return ""
	}
	return fmt.Sprintf(", %s after it had started", t.FinishedAt.Sub(t.StartedAt.Time).Round(time.Second))
}

// exit tells an end in words.
func exit(t *v1.ContainerStateTerminated) string {
	out := fmt.Sprintf("exit code %d", t.ExitCode)
	switch {
	case t.Reason == "OOMKilled":
		out += ", killed because it was out of memory"
	case t.ExitCode == 126:
		out += ", which means that its command cannot be executed"
	case t.ExitCode == 127:
		out += ", which means that its command was not found"
	case t.ExitCode == 128 && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun"):
		out += ", before its command ran at all"
	case t.ExitCode > 128 && t.ExitCode < 128+65:
		out += fmt.Sprintf(" (signal %d, %v)", t.ExitCode-128, syscall.Signal(t.ExitCode-128))
	}
	if t.Message != "" {
		out += fmt.Sprintf(", saying %q", strings.TrimSpace(t.Message))
	}
	return out
}

// missing reads what a configuration error lacks.
func missing(message, namespace string) string {
	for _, kind := range []string{"configmap", "secret"} {
		if strings.Contains(strings.ToLower(message), kind) {
			return fmt.Sprintf("Create that %s, or the key in it, in namespace %s; the container then starts by itself", kind, namespace)
		}
	}
	return "Correct the container's environment, mounts or security context"
}

// preparing explains a pod whose containers are not created yet: volumes, sandbox, init containers.
func (f Facts) preparing() (Finding, bool) {
	p := f.Pod
	for _, s := range p.Status.InitContainerStatuses {
		if s.State.Running != nil && !restarts(p, s.Name) {
			return Finding{
				State: "is running its init container " + s.Name, Since: s.State.Running.StartedAt.Time,
				Why: "The main containers start when it has ended well",
				Do:  fmt.Sprintf("See what it does: `podo kubectl logs -n %s %s -c %s`", p.Namespace, p.Name, s.Name),
			}, true
		}
	}
	creating := len(p.Status.ContainerStatuses) == 0
	for _, s := range p.Status.ContainerStatuses {
		creating = creating || s.State.Waiting != nil
	}
	if !creating {
		return Finding{}, false
	}
	out := Finding{State: "is being prepared on node " + p.Spec.NodeName}
	if p.Status.StartTime != nil {
		out.Since = p.Status.StartTime.Time
	}
	newest := timeline.Record{}
	for _, stage := range []timeline.Stage{timeline.Volumes, timeline.Sandbox, timeline.Image} {
		if r, ok := f.last(stage, nil); ok && r.At.After(newest.At) {
			newest = r
		}
	}
	because := newest.Cause
	if m := newest.Get("message"); m != "" {
		because = strings.TrimPrefix(because+": "+m, ": ")
	}
	switch {
	case newest.Stage == timeline.Volumes && because != "":
		out.State, out.Since, out.Why = "waits for its volumes", newest.At, because
		out.Do = missing(because, p.Namespace)
	case newest.Stage == timeline.Sandbox && because != "":
		out.State, out.Since, out.Why = "gets no sandbox", newest.At, because
		out.Do = "The runtime or the pod network refuses it; it is tried again by itself. `podo status` tells whether the runtime is well"
	case newest.Stage == timeline.Image && newest.To == "pulling":
		out.State, out.Since, out.Why = "is pulling its image", newest.At, newest.Subject
	}
	return out, true
}

// restarts tells whether an init container is a sidecar.
func restarts(p *v1.Pod, name string) bool {
	for _, c := range p.Spec.InitContainers {
		if c.Name == name {
			return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// running explains a pod whose containers run.
func (f Facts) running() Finding {
	p := f.Pod
	out := Finding{State: "is running"}
	if c := f.condition(v1.PodReady); c != nil {
		out.Since = c.LastTransitionTime.Time
		if c.Status == v1.ConditionTrue {
			out.State = "is running and ready"
		}
	}
	var notReady []string
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Terminated != nil:
			notReady = append(notReady, fmt.Sprintf("container %s has ended with %s", s.Name, exit(s.State.Terminated)))
		case !s.Ready:
			words := "container " + s.Name + " is not ready"
			if r, ok := f.last(timeline.Probe, func(r timeline.Record) bool { return r.Subject == s.Name || strings.HasPrefix(r.Subject, s.Name+"/") }); ok && r.Cause != "" {
				words += ": its probe says " + r.Cause
			}
			notReady = append(notReady, words)
		case s.RestartCount > 0 && s.LastTerminationState.Terminated != nil:
			out.Why += fmt.Sprintf("Container %s has been restarted %d times; it last ended with %s. ", s.Name, s.RestartCount, exit(s.LastTerminationState.Terminated))
		}
	}
	if len(notReady) > 0 {
		out.State = "is running, but not ready,"
		out.Why = strings.Join(notReady, "; ")
		out.Do = "Traffic is kept away from it until its readiness probes succeed"
		return out
	}
	for _, g := range p.Spec.ReadinessGates {
		if c := f.condition(g.ConditionType); c == nil || c.Status != v1.ConditionTrue {
			out.State, out.Why = "is running, but not ready,", "Its readiness gate "+string(g.ConditionType)+" is not True"
		}
	}
	return out
}
