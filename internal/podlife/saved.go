package podlife

import (
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Saved is what a restarted kubelet cannot learn from the runtime and the API. It is small on purpose, and JSON.
type Saved struct {
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	UID       types.UID   `json:"uid"`
	Admitted  bool        `json:"admitted,omitempty"`
	Reject    *Rejection  `json:"reject,omitempty"`
	Start     time.Time   `json:"start"`
	Stop      Stop        `json:"stop,omitzero"`
	Final     v1.PodPhase `json:"final,omitempty"`
	Released  bool        `json:"released,omitempty"`
	// Initialized says that users were told so; RestartAll, that the containers are being removed to start again.
	Initialized bool             `json:"initialized,omitempty"`
	RestartAll  bool             `json:"restartAll,omitempty"`
	Containers  []SavedContainer `json:"containers,omitempty"` // those with something to say
	// What the pod was granted and runs with, and its resize conditions.
	Granted  *Grant   `json:"granted,omitempty"`
	Applied  *Grant   `json:"applied,omitempty"`
	InDoubt  []string `json:"inDoubt,omitempty"`
	Pending  *Resize  `json:"pending,omitempty"`
	Progress *Resize  `json:"progress,omitempty"`
	// Cgroup is what the pod's cgroup is set to, if that is not what was granted.
	Cgroup *Grant `json:"cgroup,omitempty"`
}

// SavedContainer is the waiting of one container.
type SavedContainer struct {
	Name    string    `json:"name"`
	Attempt uint32    `json:"attempt,omitempty"` // of the instance to create next, or of the newest
	BackOff bool      `json:"backOff,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Notice  time.Time `json:"notice,omitzero"`
	Restart backoff   `json:"restart,omitzero"`
	Pull    backoff   `json:"pull,omitzero"`
	Mounts  string    `json:"mounts,omitempty"` // the image of a volume that this is about
	// StopWhy, Stopping and Deadline say that the instance Stopping was being stopped; PreStop, that its hook had not ended;
	// Sent, when TERM was sent, from which the minimum grace counts. For an instance that ended for a resize they are kept, since
	// that was no crash.
	StopWhy  string    `json:"stopWhy,omitempty"`
	Stopping string    `json:"stopping,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	PreStop  bool      `json:"preStop,omitempty"`
	Sent     time.Time `json:"sent,omitzero"`
	Again    bool      `json:"again,omitempty"`
	// Hooked is the instance whose postStart hook has ended well; another instance still needs its hook.
	Hooked string `json:"hooked,omitempty"`
	// Reset says that the instance before the newest, or before the next, was removed because all containers restart.
	Reset bool `json:"reset,omitempty"`
}

// Saved is what has to survive of s.
func (s *State) Saved() Saved {
	out := Saved{
		Namespace: s.Pod.Namespace, Name: s.Pod.Name, UID: s.Pod.UID,
		Admitted: s.Stage > Admitting && s.Reject == nil, Reject: s.Reject, Start: s.Start, Stop: s.Stop, Final: s.Final,
		Released: s.Stage >= Finished, Initialized: s.Initialized, RestartAll: s.RestartAll,
		Granted: s.Granted, Applied: s.Applied, InDoubt: s.InDoubt, Pending: s.Pending, Progress: s.Progress,
	}
	if s.cgroupOf != s.Granted {
		out.Cgroup = s.cgroupOf
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		sc := SavedContainer{Name: c.Name, Attempt: c.Attempt, Reason: c.Reason, Message: c.Message, Restart: c.restart, Pull: c.pull, Mounts: c.mounts}
		if sc.BackOff = c.Stage == BackOff; sc.BackOff {
			sc.Until, sc.Notice = c.until, c.notice
		}
		if c.stopping() || c.Stage == Exited && (c.Again || c.StopWhy == resized(c)) {
			sc.StopWhy, sc.Stopping = c.StopWhy, c.Cur.ID
		}
		if c.stopping() {
			sc.Deadline, sc.PreStop, sc.Sent = c.deadline, c.Stage == PreStopping, c.sent
		}
		sc.Again, sc.Reset, sc.Hooked = c.Again, c.Prev.isReset(), c.hooked
		if sc != (SavedContainer{Name: c.Name}) {
			out.Containers = append(out.Containers, sc)
		}
	}
	return out
}

func (s Saved) equal(o Saved) bool { return reflect.DeepEqual(s, o) }

func (s Stop) same(o Stop) bool { return s == o }

// Restore is the state of a pod that an earlier kubelet had, from what was saved (nil when nothing was), what the runtime has,
// and what the API says. Effects that were in flight are requested again unless the runtime shows that they happened. The first
// Step after it looks at the runtime once more, since a call may still have been under way.
func Restore(cfg *Config, pod *v1.Pod, saved *Saved, o Observed, now time.Time) State {
	s := Begin(cfg, pod, now)
	ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	if saved == nil && len(o.Sandboxes) == 0 && len(o.Containers) == 0 && !Ran(pod) {
		return s
	}
	s.Stage, s.Cgroup, s.Volumes = Starting, Doubtful, Doubtful
	s.observeAfter = now
	s.Initialized = slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { // what was saved may have been lost with the machine
		return c.Type == v1.PodInitialized && c.Status == v1.ConditionTrue
	})
	if saved != nil {
		s.restoreSaved(saved, now)
	}
	s.restoreGrant(saved)
	if saved != nil {
		s.restoreWaits(saved, now) // after the grant, since other resources would end a back-off
	}
	if ended && s.Stage < Stopping {
		s.Stage = Stopping
		s.Stop = Stop{Why: Ended, At: now, Deadline: now.Add(s.ownGrace())}
	}
	s.restoreSandboxes(o, now)
	used := map[string]bool{}
	for i := range s.Containers {
		c := &s.Containers[i]
		s.restoreContainer(c, o, used, now)
		if saved == nil || c.Stage != Up && c.Stage != Hooking && c.Stage != Exited {
			continue
		}
		for _, sc := range saved.Containers {
			switch {
			case sc.Name != c.Name:
			case sc.Stopping != c.Cur.ID: // that was about an earlier one: what was saved since was lost
				c.Again = c.Again && c.Stage == Hooking // which still begins
			case c.Stage == Exited:
				c.StopWhy = sc.StopWhy
			default: // Asked again with what is left. A hook that had not ended runs again: it may have ended with its caller.
				c.StopWhy, c.deadline, c.sent = sc.StopWhy, sc.Deadline, earlier(sc.Sent, now)
				if s.Stage < Stopping {
					c.deadline = earlier(c.deadline, now.Add(s.longestGrace(c))) // the clock may have been set back
				}
				c.Stage = either(!c.sent.IsZero(), TermSent, either(sc.PreStop, PreStopping, InLine))
			}
		}
	}
	for i := range o.Containers {
		if !used[o.Containers[i].ID] {
			s.sweeps = append(s.sweeps, sweep{id: o.Containers[i].ID})
		}
	}
	if s.Stage == Starting && s.allMains(func(c *Container) bool {
		return s.here(c) && (c.Cur.State == InstanceRunning || c.Cur.State == InstanceExited)
	}) {
		s.Stage = Running
	}
	return s
}

// Ran tells whether, by the API, a kubelet has already run something of the pod: then it is restored, even if nothing of it is
// left and nothing was saved.
func Ran(p *v1.Pod) bool {
	has := func(c v1.ContainerStatus) bool { return c.ContainerID != "" || c.RestartCount > 0 }
	st := &p.Status
	return st.Phase == v1.PodSucceeded || st.Phase == v1.PodFailed || slices.ContainsFunc(st.ContainerStatuses, has) ||
		slices.ContainsFunc(st.InitContainerStatuses, has) || slices.ContainsFunc(st.EphemeralContainerStatuses, has)
}

func (s *State) restoreSaved(saved *Saved, now time.Time) {
	s.Start, s.Reject, s.Stop, s.Final, s.RestartAll = saved.Start, saved.Reject, saved.Stop, saved.Final, saved.RestartAll
	s.Initialized = s.Initialized || saved.Initialized
	if s.Stop.At.After(now) { // the clock was set back
		s.Stop.At, s.Stop.Deadline = now, now.Add(s.Stop.Deadline.Sub(s.Stop.At))
	}
	switch {
	case saved.Released:
		s.Stage, s.Cgroup, s.Volumes, s.observeAfter = Finished, Returned, Returned, time.Time{}
	case saved.Final != "":
		s.Stage = Releasing
	case saved.Stop.Why != NotStopped:
		s.Stage = Stopping
	case !saved.Admitted:
		s.Stage, s.Cgroup, s.Volumes = New, Absent, Absent
	}
}

// longestGrace is the longest time that a container gets to end while its pod goes on.
func (s *State) longestGrace(c *Container) time.Duration {
	grace := s.ownGrace()
	for _, p := range []*v1.Probe{c.spec.LivenessProbe, c.spec.StartupProbe} {
		if p != nil {
			grace = max(grace, graceOf(p.TerminationGracePeriodSeconds, 0))
		}
	}
	return max(grace, s.cfg.MinGrace)
}

func earlier(a, b time.Time) time.Time { return either(b.Before(a), b, a) }

func (s *State) restoreWaits(saved *Saved, now time.Time) {
	for _, sc := range saved.Containers {
		c := s.Container(sc.Name)
		if c == nil {
			continue
		}
		c.Attempt, c.Reason, c.Message, c.restart, c.pull, c.Again = sc.Attempt, sc.Reason, sc.Message, sc.Restart, sc.Pull, sc.Again
		c.hooked, c.mounts = sc.Hooked, sc.Mounts
		c.restart.Wait, c.pull.Wait = min(c.restart.Wait, s.cfg.BackoffMax), min(c.pull.Wait, s.cfg.PullMax) // the ceilings may be lower than before
		if sc.Reset {
			c.Prev = resetInstance(c.Name, c.Attempt-1)
		}
		if sc.BackOff {
			c.Stage, c.until, c.notice = BackOff, sc.Until, sc.Notice
			if longest := now.Add(max(c.restart.Wait, c.pull.Wait)); longest.Before(c.until) { // holds also after the clock was set back
				c.until = longest
			}
		}
	}
}

func (s *State) restoreSandboxes(o Observed, now time.Time) {
	for _, ip := range s.Pod.Status.PodIPs {
		s.IPs = append(s.IPs, ip.IP)
	}
	if len(o.Sandboxes) == 0 {
		return
	}
	newest := slices.MaxFunc(o.Sandboxes, func(a, b SandboxInfo) int { return int(a.Attempt) - int(b.Attempt) })
	s.Sandbox, s.SandboxID, s.SandboxAttempt, s.knownAt = SandboxUp, newest.ID, newest.Attempt, now
	if len(newest.IPs) > 0 {
		s.IPs = newest.IPs
	}
	if !newest.Ready {
		s.Sandbox, s.lostUntold = SandboxLost, true
	}
	for _, sb := range o.Sandboxes {
		if sb.ID != newest.ID || s.Stage >= Finished {
			s.sweeps = append(s.sweeps, sweep{id: sb.ID, sandbox: true, stage: either(s.Stage >= Finished && !sb.Ready, sweepStopped, sweepDue)})
		}
	}
}

// restoreContainer brings a container back: its instances, and then its stage.
func (s *State) restoreContainer(c *Container, o Observed, used map[string]bool, now time.Time) {
	mine := s.instances(c, o)
	if len(mine) == 0 {
		if n, ok := o.Logged[c.Name]; ok { // it has run, and nothing else is known of that instance
			c.Attempt = max(c.Attempt, n+1)
		}
		if c.Stage == BackOff && c.Reason == crashLoop { // nobody knows any more what the back-off was for
			c.Stage, c.Reason, c.Message = Waiting, "", ""
		}
		return
	}
	c.Cur, c.knownAt = &mine[0], now
	used[c.Cur.ID] = true
	if len(mine) > 1 {
		c.Prev = &mine[1]
		used[c.Prev.ID] = true
	}
	s.restoreStage(c)
}

// instances are the known instances of a container, the newest first: those of the runtime and, where the runtime lacks one of the
// last two, those that the API was told of.
func (s *State) instances(c *Container, o Observed) (mine []Instance) {
	for _, in := range o.Containers {
		if in.Name == c.Name {
			mine = append(mine, in)
		}
	}
	slices.SortFunc(mine, func(a, b Instance) int { return int(b.Attempt) - int(a.Attempt) })
	if len(mine) > 1 { // an older one that never ran was given up before the newest was made
		mine = append(mine[:1], slices.DeleteFunc(mine[1:], func(in Instance) bool { return in.State == InstanceCreated })...)
	}
	var told *Instance
	if st := s.toldStatus(c); st != nil {
		told, c.Attempt = c.told(st), max(c.Attempt, uint32(st.RestartCount)) // an instance that never ran is counted too
		for i := range mine {
			mine[i].Message = s.lastWords(&mine[i], st)
		}
	}
	if told.isReset() && c.Prev == nil {
		c.Prev, c.Attempt = told, max(c.Attempt, told.Attempt+1)
	}
	if c.Prev.isReset() { // remains of the reset that could not be removed
		mine = slices.DeleteFunc(mine, func(in Instance) bool { return in.Attempt <= c.Prev.Attempt })
	}
	if told != nil && !told.isReset() {
		mine = s.withTold(c, mine, *told)
	}
	if len(mine) == 0 {
		return nil
	}
	if c.Prev.isReset() {
		mine = append(mine, *c.Prev)
	}
	if before := s.toldBefore(&mine[0]); before != nil && len(mine) == 1 {
		mine = append(mine, *before)
	}
	return mine
}

// lastWords is the message of an instance, as users were told it: what the instance wrote is removed with its pod's folder when the pod has ended.
func (s *State) lastWords(in *Instance, st *v1.ContainerStatus) string {
	for _, t := range []*v1.ContainerStateTerminated{st.State.Terminated, st.LastTerminationState.Terminated} {
		if t != nil && t.Message != "" && bareID(t.ContainerID) == in.ID && in.State == InstanceExited && t.Reason == s.terminated(in, "").Reason {
			return t.Message
		}
	}
	return in.Message
}

// withTold adds the newest instance that the API was told of to those of the runtime, when the runtime no longer has it.
func (s *State) withTold(c *Container, mine []Instance, told Instance) []Instance {
	switch {
	case len(mine) == 0:
		return []Instance{told}
	case told.Attempt > mine[0].Attempt && mine[0].State == InstanceExited:
		told.SandboxID = mine[0].SandboxID // it is newer, and was in the same sandbox if that is the pod's
		return slices.Insert(mine, 0, told)
	case !c.Prev.isReset() && !told.FinishedAt.IsZero() && told.Attempt < mine[0].Attempt && (len(mine) == 1 || told.Attempt > mine[1].Attempt):
		return slices.Insert(mine, 1, told)
	case s.Stage > Stopping && mine[0].State == InstanceUnknown && mine[0].ID == told.ID: // nothing of the pod runs: the reported end stays
		told.SandboxID = mine[0].SandboxID
		mine[0] = told
	}
	return mine
}

// restoreStage finds a container's stage from its newest instance and what was saved.
func (s *State) restoreStage(c *Container) {
	begun := c.Attempt > c.Cur.Attempt // the next instance was decided on, but does not exist
	if !begun {
		// What is saved may be older than the instance: the machine went down, and what was saved since is lost. Then it no longer waits for
		// what kept it from being made.
		switch {
		case c.Stage == BackOff && (c.Reason != crashLoop || c.Attempt < c.Cur.Attempt):
			c.Stage, c.Reason, c.Message, c.until, c.notice = Waiting, "", "", time.Time{}, time.Time{}
		case !c.Cur.StartedAt.IsZero() && c.Reason != crashLoop && c.Reason != reasonHook && c.Reason != reasonReset:
			c.Reason, c.Message = "", ""
		}
		c.Attempt = c.Cur.Attempt
	}
	switch c.Cur.State {
	case InstanceRunning:
		c.Stage, c.Attempt = Up, c.Cur.Attempt
		s.restoreProbes(c)
		switch {
		case !c.hasPostStart() || c.hooked == c.Cur.ID:
		case c.Startup == ProbeOK: // users were told that it has started
			c.hooked = c.Cur.ID
		case s.Stage <= Running: // the hook may have ended with the earlier kubelet, or never run
			c.Stage = Hooking
		}
	case InstanceCreated:
		if begun { // it was given up, but still exists
			s.dropInstance(c)
			return
		}
		c.Stage = Created
	case InstanceExited:
		switch {
		case c.Cur.abandoned() && c.Stage != BackOff && s.Stage <= Stopping: // otherwise it was counted
			c.Attempt = max(c.Attempt, c.Cur.Attempt+1)
			s.dropInstance(c)
		case !begun && c.Stage != BackOff:
			c.Stage = Exited
		}
	default: // it may run, whatever was decided
		c.Stage, c.Attempt = Unsure, c.Cur.Attempt
	}
}

// dropInstance has the newest instance swept: the one before it is the newest then.
func (s *State) dropInstance(c *Container) {
	s.sweeps = append(s.sweeps, sweep{id: c.Cur.ID})
	c.Cur, c.Prev = c.Prev, nil
}

// toldStatus is the container's status in the API; nil when there is none.
func (s *State) toldStatus(c *Container) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{
		s.Pod.Status.InitContainerStatuses, s.Pod.Status.ContainerStatuses, s.Pod.Status.EphemeralContainerStatuses,
	} {
		if i := slices.IndexFunc(list, func(st v1.ContainerStatus) bool { return st.Name == c.Name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// told is the container's last instance by its status, for when the runtime has none.
func (c *Container) told(st *v1.ContainerStatus) *Instance {
	in := &Instance{Name: c.Name, Attempt: uint32(st.RestartCount), State: InstanceExited, Image: st.Image, ImageRef: st.ImageID, User: st.User}
	t, last := st.State.Terminated, st.LastTerminationState.Terminated
	if t == nil && st.State.Waiting != nil && last != nil && last.Reason == reasonReset {
		return resetInstance(c.Name, in.Attempt-1)
	}
	switch {
	case t == nil && st.State.Running != nil:
		in.ID, in.StartedAt = bareID(st.ContainerID), st.State.Running.StartedAt.Time
		in.ExitCode, in.Reason = 137, reasonUnknown
		return in
	case t == nil, t.ContainerID == "" && last != nil: // it waited for its next instance, maybe when its pod ended
		t = last
	}
	if t == nil || st.ContainerID == "" && t.ContainerID == "" { // the latter: at the pod's end it was reported as ended, but had never run
		return nil
	}
	in.ID, in.ExitCode, in.Reason, in.Message = bareID(t.ContainerID), t.ExitCode, t.Reason, t.Message
	in.StartedAt, in.FinishedAt = startOf(t), t.FinishedAt.Time
	return in
}

// startOf is when a reported instance started; zero when it never did.
func startOf(t *v1.ContainerStateTerminated) time.Time {
	if t.StartedAt.Unix() == 0 {
		return time.Time{}
	}
	return t.StartedAt.Time
}

// toldBefore is what the API knows of the instance before the newest one, for when the runtime has only the newest.
func (s *State) toldBefore(newest *Instance) *Instance {
	for _, list := range [][]v1.ContainerStatus{s.Pod.Status.InitContainerStatuses, s.Pod.Status.ContainerStatuses} {
		for i := range list {
			t := list[i].LastTerminationState.Terminated
			if t == nil || t.ContainerID == "" || newest.Attempt == 0 || bareID(list[i].ContainerID) != newest.ID || bareID(t.ContainerID) == newest.ID {
				continue
			}
			return &Instance{
				Name: newest.Name, ID: bareID(t.ContainerID), Attempt: newest.Attempt - 1, State: InstanceExited, ExitCode: t.ExitCode,
				Reason: t.Reason, Message: t.Message, StartedAt: startOf(t), FinishedAt: t.FinishedAt.Time,
			}
		}
	}
	return nil
}

func (s *State) restoreProbes(c *Container) {
	told := s.Pod.Status.ContainerStatuses
	if c.Kind == Sidecar {
		told = s.Pod.Status.InitContainerStatuses
	}
	for i := range told {
		st := &told[i]
		if st.Name == c.Name && bareID(st.ContainerID) == c.Cur.ID {
			c.Readiness = either(st.Ready, ProbeOK, ProbeUnknown)
			c.Startup = either(st.Started != nil && *st.Started, ProbeOK, ProbeUnknown)
		}
	}
}
