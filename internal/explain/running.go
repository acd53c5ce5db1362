package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/timeline"
)

// preparing explains a pod whose containers are not created yet: volumes, sandbox, init containers.
func (f Facts) preparing() (Finding, bool) {
	p := f.Pod
	if out, ok := f.initializing(); ok {
		return out, true
	}
	if out, ok := f.begins(); ok {
		return out, true
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
		if r, ok := f.told(stage); ok && r.At.After(newest.At) {
			newest = r
		}
	}
	because := newest.Cause
	if m := newest.Get("message"); m != "" {
		because = strings.TrimPrefix(because+": "+m, ": ")
	}
	troubled := func(r timeline.Record) bool { return r.Cause != "" || r.To == "acquiring" || r.To == "creating" }
	switch {
	case newest.Stage == timeline.Volumes && because != "":
		out.State, out.Since, out.Why = "waits for its volumes", f.run(timeline.Volumes, "", troubled), because
		out.Do = f.mendVolume(because)
	case newest.Stage == timeline.Sandbox && because != "":
		out.State, out.Since, out.Why = "gets no sandbox", f.run(timeline.Sandbox, "", troubled), short(because)
		out.Do = mendSandbox(because)
	case newest.Stage == timeline.Image && newest.To == "pulling":
		out.State, out.Since, out.Why = "is pulling its image", newest.At, newest.Subject
	}
	return out, true
}

// begins explains a pod with a running container that is shown as waiting until its postStart hook has ended.
func (f Facts) begins() (Finding, bool) {
	for _, s := range f.statuses() {
		r, ok := f.last(timeline.Container, func(r timeline.Record) bool { return r.Subject == s.Name })
		l := f.container(s.Name).Lifecycle
		if s.State.Waiting == nil || !ok || r.To != "PostStart" || l == nil {
			continue
		}
		return Finding{
			State: "waits for the postStart hook of container " + s.Name, Since: r.At,
			Why: fmt.Sprintf("The container is told as running, and its output is shown, when its hook%s has ended", hookWords(l.PostStart)),
			Do:  fmt.Sprintf("If this lasts, the hook hangs: correct lifecycle.postStart of container %s", s.Name),
		}, true
	}
	return Finding{}, false
}

// told is the newest record of a stage that has a result: while something is tried again, that of the previous attempt.
func (f Facts) told(stage timeline.Stage) (timeline.Record, bool) {
	r, ok := f.last(stage, func(r timeline.Record) bool { return r.Cause != "" || r.To != "acquiring" && r.To != "creating" })
	if !ok {
		return f.last(stage, nil)
	}
	return r, true
}

// initializing explains a pod whose init containers are not done.
func (f Facts) initializing() (Finding, bool) {
	p := f.Pod
	for i, s := range p.Status.InitContainerStatuses {
		if s.State.Running == nil {
			continue
		}
		nth := fmt.Sprintf("%s (%d of %d)", s.Name, i+1, len(p.Status.InitContainerStatuses))
		since := s.State.Running.StartedAt.Time
		switch {
		case !restarts(p, s.Name):
			return Finding{
				State: "is running its init container " + nth, Since: since,
				Why: "The main containers start when it has ended well",
				Do:  fmt.Sprintf("See what it does: `podo kubectl logs -n %s %s -c %s`", p.Namespace, p.Name, s.Name),
				Log: &Log{Pod: p.Name, Container: s.Name},
			}, true
		case s.Started == nil || !*s.Started:
			why, do := f.notReady(s)
			return Finding{
				State: "waits for its sidecar " + nth, Since: since, Why: joined(why, "The containers after it start when it has started"), Do: do,
				Log: &Log{Pod: p.Name, Container: s.Name},
			}, true
		}
	}
	return Finding{}, false
}

// mendSandbox tells what to do about a sandbox that cannot be made.
func mendSandbox(words string) string {
	switch {
	case strings.Contains(words, "failed to construct FQDN"):
		return "Shorten hostname, subdomain or the namespace's name, or leave out setHostnameAsFQDN; make the pod anew with that"
	case strings.Contains(words, "cannot allocate memory"):
		return "The pod's memory limit has no room even for its first process: raise resources.limits.memory"
	case strings.Contains(words, "failed to write sysctl"):
		return "The kernel does not take that value: correct it in spec.securityContext.sysctls, and make the pod anew with that"
	}
	return "The runtime or the pod network refuses it; it is tried again by itself. `podo status` tells whether the runtime is well"
}

// mendVolume tells what to do about a volume that cannot be mounted.
func (f Facts) mendVolume(words string) string {
	switch {
	case strings.Contains(words, "hostPath type check failed"):
		return "The path of the hostPath volume is not there on the node, or something else: correct its path or type, or type: DirectoryOrCreate"
	case strings.Contains(words, "no space left on device"):
		return "Volumes of Secrets, tokens and the downward API are kept in memory, with room for what the pod's memory limit allows: raise resources.limits.memory. Of others the node's disk is full: see `podo why node`"
	case strings.Contains(words, "clustertrustbundle"):
		return "Create that ClusterTrustBundle, or correct its name in the volume. The pod then goes on by itself"
	case strings.Contains(words, "hugePages storage requested"):
		return "Give a container a limit of hugepages-SIZE, or the volume another emptyDir.medium, and make the pod anew with that"
	}
	if path := f.fileToMake(words); path != "" {
		return "Its folder is not there on the node: make it, or correct the path " + path + ". The pod then goes on by itself"
	}
	key, _, _ := strings.Cut(between(words+"\n", "non-existent config key: ", "\n"), ", ") // others may follow, all of it in brackets
	if key = strings.TrimSuffix(key, "]"); key != "" {
		words = f.named(words, key)
	}
	return joined(f.missing(words), "The pod then goes on by itself")
}

// fileToMake is the path of a hostPath volume of which a message says that its file cannot be made.
func (f Facts) fileToMake(words string) string {
	for _, v := range f.Pod.Spec.Volumes {
		if h := v.HostPath; h != nil && h.Type != nil && *h.Type == v1.HostPathFileOrCreate && strings.Contains(words, "open "+h.Path+": no such file or directory") {
			return h.Path
		}
	}
	return ""
}

// named adds the name of the object that should have a key to a message about the missing key.
func (f Facts) named(words, key string) string {
	name := between(words, `volume "`, `"`)
	for _, v := range f.Pod.Spec.Volumes {
		switch {
		case v.Name != name:
		case v.ConfigMap != nil:
			return "couldn't find key " + key + " in ConfigMap " + f.Pod.Namespace + "/" + v.ConfigMap.Name
		case v.Secret != nil:
			return "couldn't find key " + key + " in Secret " + f.Pod.Namespace + "/" + v.Secret.SecretName
		}
	}
	return words
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
	for _, s := range f.statuses() {
		switch {
		case s.State.Terminated != nil && !f.initializes(s.Name):
			end := Finding{}
			f.end(&end, s.Name, s.State.Terminated, false)
			notReady = append(notReady, end.Why)
			out.Do = joined(out.Do, end.Do)
			if out.Log == nil {
				out.Log = end.Log
			}
		case s.State.Running != nil && !s.Ready:
			why, do := f.notReady(s)
			notReady = append(notReady, why)
			out.Do = joined(out.Do, do)
			if out.Log == nil {
				out.Log = &Log{Pod: p.Name, Container: s.Name}
			}
		case s.RestartCount > 0 && s.LastTerminationState.Terminated != nil:
			t := s.LastTerminationState.Terminated
			ended := "it last ended " + ago(f.Now.Sub(t.FinishedAt.Time)) + " with " + exit(t)
			if t.FinishedAt.IsZero() { // the kubelet removed it
				ended = "of its last end is known: " + t.Message
			}
			out.Why = joined(out.Why, fmt.Sprintf("Container %s has been restarted %s; %s", s.Name, times(s.RestartCount), ended))
		}
	}
	if len(notReady) > 0 {
		out.State = "is running, but not ready,"
		if !slices.ContainsFunc(p.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.State.Running != nil }) {
			out.State = "runs no container at the moment,"
		}
		out.Why = joined(strings.Join(notReady, ". "), out.Why)
		out.Do = joined(out.Do, "Services lead no traffic to it until it is ready")
		return out
	}
	if c := f.condition(v1.PodResizePending); c != nil && c.Status == v1.ConditionTrue {
		out.State, out.Since = out.State+", and has waited for its new resources", c.LastTransitionTime.Time
		out.Why = joined(fmt.Sprintf("Its new resources wait (%s): %s", c.Reason, c.Message), out.Why)
		out.Do = "They come by themselves when other pods leave it the room"
		if c.Reason == v1.PodReasonInfeasible {
			out.Do = fmt.Sprintf("The node can never give them: ask for less (`podo kubectl edit pod -n %s %s --subresource=resize`), or let a new pod go to a larger node", p.Namespace, p.Name)
		}
	} else if c := f.condition(v1.PodResizeInProgress); c != nil && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonError {
		out.State, out.Since = out.State+", and has waited for its new resources", c.LastTransitionTime.Time
		out.Why, out.Do = joined("Its new resources could not be set: "+c.Message, out.Why), "It is tried again by itself; ask for other resources if this lasts"
	}
	for _, g := range p.Spec.ReadinessGates {
		if c := f.condition(g.ConditionType); c == nil || c.Status != v1.ConditionTrue {
			out.State, out.Why = "is running, but not ready,", "Its readiness gate "+string(g.ConditionType)+" is not True"
			out.Do = "Whoever sets the condition " + string(g.ConditionType) + " in the pod's status has to set it to True"
			if c != nil && c.Message != "" {
				out.Why += ": " + c.Message
			}
		}
	}
	f.debugging(&out)
	return out
}

// debugging adds to a pod that runs the ephemeral containers that cannot start: who made one waits for it.
func (f Facts) debugging(out *Finding) {
	for _, s := range f.Pod.Status.EphemeralContainerStatuses {
		if found, ok := f.cannotStart(s); ok {
			out.State += ", but " + found.State
			out.Why, out.Do = joined(out.Why, found.Why), joined(out.Do, found.Do)
			return
		}
	}
}

// initializes tells whether a container is one that runs to its end before the others start.
func (f Facts) initializes(name string) bool {
	for _, c := range f.Pod.Spec.InitContainers {
		if c.Name == name {
			return !restarts(f.Pod, name)
		}
	}
	return false
}
