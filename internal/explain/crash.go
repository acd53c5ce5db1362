package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/timeline"
)

// lately is how long a restart counts as trouble after the container runs again.
const lately = 10 * time.Minute

// crash explains a container that ends again and again.
func (f Facts) crash(s v1.ContainerStatus) Finding {
	out := Finding{State: fmt.Sprintf("restarts %s again and again (CrashLoopBackOff, %s)", f.called(s.Name), count(s.RestartCount, "restart"))}
	f.lastEnd(&out, s)
	if back := between(s.State.Waiting.Message, "back-off ", " restarting"); back != "" {
		out.Why = joined(out.Why, "It is started again after a back-off of "+back)
	}
	if f.initializes(s.Name) {
		out.Why = joined(out.Why, "The containers after it start when it has ended well")
	}
	return out
}

// restarting explains a container that runs, but has ended lately.
func (f Facts) restarting() (Finding, bool) {
	for _, s := range f.statuses() {
		t := s.LastTerminationState.Terminated
		if s.State.Running == nil || t == nil || f.Now.Sub(t.FinishedAt.Time) > lately {
			continue
		}
		is := "is running"
		if !s.Ready {
			is = "is running, but not ready"
		}
		out := Finding{State: fmt.Sprintf("%s; its container %s has been restarted %s, last %s,", is, s.Name, times(s.RestartCount), ago(f.Now.Sub(t.FinishedAt.Time)))}
		f.lastEnd(&out, s)
		return out, true
	}
	return Finding{}, false
}

// stopping explains a container that runs and is being ended, to start anew.
func (f Facts) stopping() (Finding, bool) {
	for _, s := range f.statuses() {
		r, ok := f.last(timeline.Container, func(r timeline.Record) bool { return r.Subject == s.Name })
		if s.State.Running == nil || !ok || r.To != "Stopping" && r.To != "PreStop" || r.Cause == "" {
			continue
		}
		spec := f.container(s.Name)
		out := Finding{State: "is running, but its container " + s.Name + " is being ended,", Since: r.At, Log: &Log{Pod: f.Pod.Name, Container: s.Name}}
		grace := f.Pod.Spec.TerminationGracePeriodSeconds
		switch {
		case strings.Contains(r.Cause, "failed liveness probe"):
			f.killedByProbe(&out, s.Name, "liveness", spec.LivenessProbe)
			grace = graceOf(spec.LivenessProbe, grace)
		case strings.Contains(r.Cause, "failed startup probe"):
			f.killedByProbe(&out, s.Name, "startup", spec.StartupProbe)
			grace = graceOf(spec.StartupProbe, grace)
		default:
			out.Why = "The kubelet ends it: " + r.Cause
		}
		out.Why = strings.Replace(out.Why, "The kubelet killed container", "The kubelet ends container", 1)
		if grace != nil {
			out.Why = joined(out.Why, fmt.Sprintf("It still runs, and has %d s for its end, of which %s have passed", *grace, long(f.Now.Sub(r.At))))
		}
		return out, true
	}
	return Finding{}, false
}

// graceOf is the time for the end of a container whose probe failed.
func graceOf(p *v1.Probe, pods *int64) *int64 {
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		return p.TerminationGracePeriodSeconds
	}
	return pods
}

// policy is whether a container is started again, rules for single exit codes aside.
func (f Facts) policy(c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	return cmp.Or(f.Pod.Spec.RestartPolicy, v1.RestartPolicyAlways)
}

// neverRan is what kept a container from its start until its pod had ended; "" when it had started, or nothing is recorded.
func (f Facts) neverRan(container string, t *v1.ContainerStateTerminated) string {
	if t.Reason != "ContainerStatusUnknown" {
		return ""
	}
	why := ""
	for _, r := range f.Records {
		if r.Stage != timeline.Container || r.Subject != container {
			continue
		}
		if r.To == "Starting" || r.To == "Running" {
			return ""
		}
		if r.Cause != "" {
			why = r.Cause
		}
	}
	if why == "" {
		return ""
	}
	if strings.Contains(why, "Image") {
		out := Finding{Why: why}
		f.image(&out, container, pulled{name: f.container(container).Image})
		return fmt.Sprintf("Container %s never ran. %s", container, out.Why)
	}
	return fmt.Sprintf("Container %s never ran: %s", container, why)
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// lastEnd tells how a container's last run ended, who ended it, and what to do.
func (f Facts) lastEnd(out *Finding, s v1.ContainerStatus) {
	out.Since = f.ending(s.Name)
	t := s.LastTerminationState.Terminated
	if t == nil {
		out.Log = &Log{Pod: f.Pod.Name, Container: s.Name, Previous: true}
		out.Do = f.readLog(s.Name, true)
		return
	}
	if out.Since.IsZero() {
		out.Since = t.FinishedAt.Time
	}
	f.end(out, s.Name, t, s.RestartCount > 0)
}

// end tells how a run ended and what to do about it.
func (f Facts) end(out *Finding, container string, t *v1.ContainerStateTerminated, again bool) {
	if why := f.neverRan(container, t); why != "" {
		out.Why = why
		return
	}
	out.Why = fmt.Sprintf("Container %s ended with %s", container, exit(t))
	if t.Reason == "StartError" || t.Reason == "ContainerCannotRun" {
		out.Why = fmt.Sprintf("Container %s never ran: %s", container, short(t.Message))
		out.Do = f.start(container, t.Message)
		return
	}
	out.Why += lived(t)
	logs := f.readLog(container, again)
	out.Log = &Log{Pod: f.Pod.Name, Container: container, Previous: again}
	by := f.killedFor(container)
	spec := f.container(container)
	switch {
	case t.Reason == "OOMKilled":
		limit, of := "It has no memory limit of its own, so that the pod's or the node's was reached", "container "+container
		if q, ok := spec.Resources.Limits[v1.ResourceMemory]; ok {
			limit = "Its memory limit is " + q.String()
		} else if whole := f.Pod.Spec.Resources; whole != nil && !whole.Limits.Memory().IsZero() {
			limit, of = "It has no memory limit of its own; its pod's is "+whole.Limits.Memory().String(), "the pod"
		}
		out.Why = joined(out.Why, limit)
		out.Do = joined(fmt.Sprintf("Raise resources.limits.memory of %s, or find what needs so much", of), logs)
		return
	case strings.Contains(by, "failed liveness probe"):
		f.killedByProbe(out, container, "liveness", spec.LivenessProbe)
		return
	case strings.Contains(by, "failed startup probe"):
		f.killedByProbe(out, container, "startup", spec.StartupProbe)
		return
	case by == "FailedPostStartHook":
		f.hookFailed(out, container)
		out.Do = joined(out.Do, logs)
		return
	case t.ExitCode == 0:
		switch policy := f.policy(spec); {
		case policy == v1.RestartPolicyAlways:
			out.Do = "A container that ends well is started again because restartPolicy is Always: let it run on, use OnFailure, or make it a Job"
		case again:
			out.Do = fmt.Sprintf("The restartPolicyRules of container %s have it started again: correct them, or let it run on", container)
		default:
			out.Why = joined(out.Why, fmt.Sprintf("With restartPolicy %s it is not started again", policy))
			out.Do = fmt.Sprintf("A pod is ready while all of its containers run: let container %s run on if this one is to be ready", container)
		}
		return
	case by != "" && t.ExitCode > 128:
		if !strings.HasPrefix(by, "Stopping container ") { // the whole pod stopped, which explains itself
			out.Why = joined(out.Why, "The kubelet had stopped it: "+by)
		}
	case t.ExitCode == 128+int32(syscall.SIGKILL) && f.hasEnded(container):
		out.Why = joined(out.Why, "Neither the kubelet nor its memory limit ended it: a process of its own did, or the machine ran out of memory")
		out.Do = joined("`podo kubectl get events -A --field-selector reason=SystemOOM` tells of the latter", logs)
		return
	}
	out.Do = logs
}

// hookFailed explains that the kubelet ended a container since its postStart hook failed.
func (f Facts) hookFailed(out *Finding, container string) {
	var hook *v1.LifecycleHandler
	if l := f.container(container).Lifecycle; l != nil {
		hook = l.PostStart
	}
	said := hookSaid(out.Why)
	out.Why = fmt.Sprintf("The kubelet ended container %s because its postStart hook%s failed", container, hookWords(hook))
	if said != "" {
		out.Why += ": " + said
	}
	if hook != nil && hook.TCPSocket != nil {
		out.Do = fmt.Sprintf("Hooks cannot open sockets: use exec, httpGet or sleep in lifecycle.postStart of container %s", container)
		return
	}
	out.Do = fmt.Sprintf("Correct lifecycle.postStart of container %s: try what it does with `podo kubectl exec -n %s %s -c %s -- …` while the container runs", container, f.Pod.Namespace, f.Pod.Name, container)
}

// hookSaid is the outcome of a hook, taken from the kubelet's message.
func hookSaid(message string) string {
	_, said, _ := strings.Cut(message, " failed - error: ")
	return short(strings.TrimSuffix(strings.TrimSuffix(said, `, message: ""`), ": "))
}

func hookWords(h *v1.LifecycleHandler) string {
	switch {
	case h == nil:
	case h.Exec != nil:
		return fmt.Sprintf(" (exec %s)", shell(h.Exec.Command))
	case h.HTTPGet != nil:
		return fmt.Sprintf(" (GET :%s%s)", h.HTTPGet.Port.String(), h.HTTPGet.Path)
	}
	return ""
}

func (f Facts) readLog(container string, previous bool) string {
	flag := ""
	if previous {
		flag = " --previous"
	}
	return fmt.Sprintf("Its log: `podo kubectl logs -n %s %s -c %s%s`", f.Pod.Namespace, f.Pod.Name, container, flag)
}

// ending is since when a container ends again and again: the first of a row of ends with less than ten minutes between them.
func (f Facts) ending(container string) (since time.Time) {
	for _, r := range slices.Backward(f.Records) {
		if r.Stage != timeline.Container || r.Subject != container || r.To != "Exited" {
			continue
		}
		if !since.IsZero() && since.Sub(r.At) > lately {
			break
		}
		since = r.At
	}
	return since
}

// hasEnded tells whether a container's end is recorded, and so whether the kubelet had stopped it.
func (f Facts) hasEnded(container string) bool {
	_, ok := f.last(timeline.Container, func(r timeline.Record) bool { return r.Subject == container && r.To == "Exited" })
	return ok
}

// killedFor is why the kubelet stopped a container's last ended run, "" when it ended by itself.
func (f Facts) killedFor(container string) string {
	ended := false
	for _, r := range slices.Backward(f.Records) {
		if r.Stage != timeline.Container || r.Subject != container {
			continue
		}
		switch {
		case !ended:
			ended = r.To == "Exited"
		case r.To == "Stopping":
			return r.Cause
		case r.To == "Running" || r.To == "Exited":
			return ""
		}
	}
	return ""
}

func lived(t *v1.ContainerStateTerminated) string {
	if t.StartedAt.IsZero() || t.FinishedAt.Before(&t.StartedAt) {
		return ""
	}
	after := t.FinishedAt.Sub(t.StartedAt.Time)
	if after < time.Second { // the API's times are whole seconds
		return ", right after it had started"
	}
	return fmt.Sprintf(", %s after it had started", long(after))
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
		out += fmt.Sprintf(", saying %q", short(t.Message))
	}
	return out
}
