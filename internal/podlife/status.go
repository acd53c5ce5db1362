package podlife

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status is what users are told. It is a function of the state alone. Transition times of conditions are left empty, since the
// reporter knows what was reported before. Conditions of other owners are passed on as the pod has them.
func Status(s State) v1.PodStatus {
	out := v1.PodStatus{
		Phase: s.phase(), ObservedGeneration: s.observed, QOSClass: QOS(s.Pod), StartTime: timeOf(s.Start),
		NominatedNodeName: s.Pod.Status.NominatedNodeName, ResourceClaimStatuses: s.Pod.Status.ResourceClaimStatuses,
	}
	if s.Reject != nil {
		out.Reason, out.Message = s.Reject.Reason, "Pod was rejected: "+s.Reject.Message
		out.Conditions = s.foreign()
		return out
	}
	switch {
	case s.Final != "" && s.Stop.Reason != "":
		out.Reason, out.Message = s.Stop.Reason, s.Stop.Message
	case s.Stop.Why == Ended:
		out.Reason, out.Message = s.Pod.Status.Reason, s.Pod.Status.Message
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		st := s.containerStatus(c)
		switch c.Kind {
		case Init, Sidecar:
			out.InitContainerStatuses = append(out.InitContainerStatuses, st)
		case Main:
			out.ContainerStatuses = append(out.ContainerStatuses, st)
		case Ephemeral:
			out.EphemeralContainerStatuses = append(out.EphemeralContainerStatuses, st)
		}
	}
	byName := func(a, b v1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) }
	if s.Stage >= Releasing {
		unlocated(out.InitContainerStatuses, out.ContainerStatuses, s.Initialized)
	}
	slices.SortFunc(out.ContainerStatuses, byName)
	slices.SortFunc(out.EphemeralContainerStatuses, byName)
	s.addresses(&out)
	out.Resources, out.AllocatedResources = s.podResources(out.Phase)
	out.Conditions = s.conditions()
	return out
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	// The API keeps whole seconds; so does the report, to compare as equal.
	m := metav1.NewTime(t.Truncate(time.Second))
	return &m
}

func (s *State) addresses(out *v1.PodStatus) {
	for i, ip := range s.cfg.HostIPs {
		out.HostIPs = append(out.HostIPs, v1.HostIP{IP: ip})
		if i == 0 {
			out.HostIP = ip
		}
	}
	ips := s.IPs
	if s.Pod.Spec.HostNetwork {
		ips = s.cfg.HostIPs
	}
	// One address a family, the node's primary family first.
	want6 := len(s.cfg.HostIPs) > 0 && is6(s.cfg.HostIPs[0])
	for _, six := range []bool{want6, !want6} {
		if i := slices.IndexFunc(ips, func(ip string) bool { return ip != "" && is6(ip) == six }); i >= 0 {
			out.PodIPs = append(out.PodIPs, v1.PodIP{IP: ips[i]})
		}
	}
	if len(out.PodIPs) > 0 {
		out.PodIP = out.PodIPs[0].IP
	}
}

// PodIPs are the pod's addresses in the order of its status.
func (s *State) PodIPs() []string {
	var st v1.PodStatus
	s.addresses(&st)
	out := make([]string, 0, len(st.PodIPs))
	for _, ip := range st.PodIPs {
		out = append(out, ip.IP)
	}
	return out
}

func is6(ip string) bool {
	a, err := netip.ParseAddr(ip)
	return err == nil && a.Is6() && !a.Is4In6()
}

// shown picks the instance that a container's status is about, and the one before it. An instance that was created but has not
// run is not shown, so that a start causes no status of its own; nor is one that still begins.
func (c *Container) shown() (now, last *Instance) {
	now, last = c.Cur, c.Prev
	if now != nil && now.State != InstanceRunning && now.State != InstanceExited || c.begins() {
		now, last = c.Prev, nil
	}
	if now.isReset() {
		return nil, now // it waits for a new one
	}
	return now, last
}

func (s *State) containerStatus(c *Container) v1.ContainerStatus {
	no := false
	out := v1.ContainerStatus{Name: c.Name, Image: c.spec.Image, Started: &no, VolumeMounts: s.mountStatuses(c.spec)}
	in, last := c.shown()
	held := s.lastWord(c, in, last)
	if held != nil && held == last {
		in, last = last, nil
	}
	if in == nil {
		out.RestartCount = int32(c.Attempt)
	} else {
		out.RestartCount = int32(in.Attempt)
		out.ImageID = in.ImageRef
		out.Image = either(in.Image != "", in.Image, out.Image)
		out.ContainerID = s.fullID(in)
		out.AllocatedResources = c.spec.Resources.Requests
		out.Resources = s.runsWith(c, in)
		out.User = in.User
	}
	out.Ready = c.ready()
	switch {
	case c.Kind == Ephemeral:
		out.Started = nil // nothing waits for it
	case c.started():
		yes := true
		out.Started = &yes
	}
	switch {
	case in == nil && last == nil && c.Kind == Init && s.initialized():
		out.State.Terminated = &v1.ContainerStateTerminated{
			Reason:  "Completed",
			Message: "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
		}
		out.Ready = true
		return out
	case in == nil:
		out.State.Waiting = s.waiting(c)
	case in.State == InstanceRunning:
		out.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(in.StartedAt.Truncate(time.Second))}
	case held == nil && s.awaited(c, in):
		out.State.Waiting = s.waiting(c)
		last = in
	default:
		out.State.Terminated = s.terminated(in, messageUnlocated)
	}
	if last != nil && last.State == InstanceExited {
		out.LastTerminationState.Terminated = s.terminated(last, messageLost)
	}
	return out
}

// awaited tells whether an ended container is shown as waiting for its next instance. Once it was shown as ended, the API rejects
// a status in which it runs again, unless the policy allows that.
func (s *State) awaited(c *Container, in *Instance) bool {
	if s.Stage > Running { // there will be no next one, but upstream drops the waiting state only when the pod is deleted
		if c.Again && c.busy() {
			return true // except this one: it may be found running, which the API would reject after an end
		}
		waits := c.Reason != "" && (c.Stage != Exited || c.Kind == Ephemeral) && s.Pod.DeletionTimestamp == nil
		if c.Kind == Sidecar { // a sidecar that ended well is shown as ended, as any init container
			return waits && in.ExitCode != 0
		}
		return waits && s.byPolicy(c.spec, in.ExitCode, in.ExitCode != 0)
	}
	if c.Kind == Ephemeral { // it never runs again, but upstream shows one that could not be started by its pod's policy
		return c.Reason != "" && s.byPolicy(c.spec, in.ExitCode, in.ExitCode != 0)
	}
	return (c.Reason != "" || c.Again || s.lasts(c, in)) && (c.Stage != Exited || s.restarts(c))
}

// lastWord is the end with which an init container is shown whatever it does now; nil for most. It ended well, and its policy
// would not run it again, but it has to run in a new sandbox. A status that showed that would be rejected as a whole. If it fails
// there, the failure has to be shown before the container can be shown as waiting.
func (s *State) lastWord(c *Container, in, last *Instance) *Instance {
	stays := func(x *Instance) bool {
		return x != nil && x.State == InstanceExited && (s.Sandbox != SandboxUp || x.SandboxID != s.SandboxID) && s.lasts(c, x)
	}
	switch {
	case in != nil && in.State == InstanceExited && (stays(in) || stays(last)):
		return in
	case stays(last):
		return last
	}
	return nil
}

// lasts tells whether this end of an init container is final for the API, which then rejects a status in which it runs again.
func (s *State) lasts(c *Container, in *Instance) bool {
	return c.Kind == Init && in.ExitCode == 0 && !s.mayRestartAll() && !s.byPolicy(c.spec, in.ExitCode, false)
}

// unlocated shows containers of an ended pod as ended that have not ended, or still waited to run again: all main ones if the pod
// was initialized, and the init ones up to the last that has begun, at least the first.
func unlocated(init, main []v1.ContainerStatus, initialized bool) {
	end := func(list []v1.ContainerStatus) {
		for i := range list {
			if list[i].State.Terminated == nil {
				list[i].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
					ExitCode: 137, Reason: reasonUnknown, Message: messageUnlocated,
				}}
			}
		}
	}
	begun := func(c v1.ContainerStatus) bool {
		return c.State.Waiting == nil || c.LastTerminationState.Terminated != nil
	}
	if initialized {
		end(main)
	}
	for i := len(init); i > 0; i-- {
		if begun(init[i-1]) || i == 1 {
			end(init[:i])
			return
		}
	}
}

// waiting is why a container waits. In a pod that is being deleted no container will be started, so reasons no longer matter.
func (s *State) waiting(c *Container) *v1.ContainerStateWaiting {
	if c.Reason != "" && s.Pod.DeletionTimestamp == nil {
		return &v1.ContainerStateWaiting{Reason: c.Reason, Message: c.Message}
	}
	if len(s.Pod.Spec.InitContainers) > 0 {
		return &v1.ContainerStateWaiting{Reason: "PodInitializing"}
	}
	return &v1.ContainerStateWaiting{Reason: "ContainerCreating"}
}

// What users are told of an end that nobody saw: as a container's state, and as its last state, with which it goes on.
const (
	messageUnlocated = "The container could not be located when the pod was terminated"
	messageLost      = "The container could not be located when the pod was deleted.  The container used to be Running"
)

// terminated shows an end; unseen is the message of one that nobody saw.
func (s *State) terminated(in *Instance, unseen string) *v1.ContainerStateTerminated {
	reason := in.Reason
	if reason == "" {
		reason = either(in.ExitCode == 0, "Completed", "Error")
	}
	t := &v1.ContainerStateTerminated{
		ExitCode: in.ExitCode, Reason: reason, Message: bounded(in.Message, len(s.Containers)), ContainerID: s.fullID(in),
	}
	if reason == reasonUnknown {
		t.Message = unseen
	}
	switch {
	case !in.StartedAt.IsZero():
		t.StartedAt = metav1.NewTime(in.StartedAt.Truncate(time.Second))
	case in.ID != "" && in.Reason != reasonUnknown: // the runtime reports a start that failed this way, and it is shown as reported
		t.StartedAt = metav1.Unix(0, 0)
	}
	if !in.FinishedAt.IsZero() {
		t.FinishedAt = metav1.NewTime(in.FinishedAt.Truncate(time.Second))
	}
	return t
}

func (s *State) fullID(in *Instance) string {
	if in.ID == "" {
		return ""
	}
	return s.cfg.RuntimeName + "://" + in.ID
}

// mountStatuses are the statuses of mounts; an optional request is shown as granted or not.
func (s *State) mountStatuses(c *v1.Container) []v1.VolumeMountStatus {
	var out []v1.VolumeMountStatus
	for _, m := range c.VolumeMounts {
		st := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := v1.RecursiveReadOnlyDisabled
			if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != v1.RecursiveReadOnlyDisabled && s.cfg.RecursiveReadOnly {
				mode = v1.RecursiveReadOnlyEnabled
			}
			st.RecursiveReadOnly = &mode
		}
		out = append(out, st)
	}
	return out
}
