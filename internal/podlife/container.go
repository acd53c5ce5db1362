package podlife

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Kind tells containers apart by who waits for whom.
type Kind uint8

// The kinds.
const (
	Init      Kind = iota // one after another, each to its end
	Sidecar               // an init container with restartPolicy Always: the others wait only until it has started
	Main                  // together, after every init container
	Ephemeral             // whenever there is a sandbox; never again
)

var kindNames = [...]string{"init", "sidecar", "main", "ephemeral"}

func (k Kind) String() string { return kindNames[k] }

// CStage is where a container is in its life.
//
//	           image there        created         started        hook ended
//	Waiting ─► Pulling ─► Pulled ─► Creating ─► Created ─► Starting ─► Hooking ─► Running
//	  ▲  ▲        │                    │  │                   │  │        │          │
//	  │  └────────┴──── failed ────────┘  └─── unsure ────────┘  │        │ stop(grace, why)
//	  │     (reason; not before retry)            │              │        ▼          ▼
//	  │                                           ▼       failed │   PreStopping ─► InLine ─► TermSent
//	  │                                        Unsure            │                    │
//	  │                            looked at the runtime:        ▼                    ▼
//	  │                            what it says                Exited ◄───────────────┘ (and from Hooking, Running by itself)
//	  │                                                          │
//	  │        policy, rules                                     │
//	  └──────────────────────────── BackOff(until) ◄─────────────┘
type CStage uint8

// The steps.
const (
	Waiting CStage = iota
	Pulling
	Pulled
	Creating
	Created
	Launching
	Unsure
	Hooking
	Up
	PreStopping
	InLine // its hook has ended; it waits for containers that stop before it, as a sidecar for those that it serves
	TermSent
	Exited
	BackOff
)

var cstageNames = [...]string{
	"Waiting", "Pulling", "Pulled", "Creating", "Created", "Starting", "Unsure", "PostStart", "Running", "PreStop", "InLine", "Stopping",
	"Exited", "BackOff",
}

func (c CStage) String() string { return cstageNames[c] }

// InstanceState is the runtime's state of a container.
type InstanceState uint8

// The runtime's states.
const (
	InstanceUnknown InstanceState = iota
	InstanceCreated
	InstanceRunning
	InstanceExited
)

// Instance is one container of the runtime's. It is a value that is replaced, never edited.
type Instance struct {
	ID        string
	SandboxID string
	Name      string
	Attempt   uint32
	Hash      string // of the spec it was made from
	State     InstanceState

	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	Reason                           string
	Message                          string // by the termination message policy, see TerminationMessage

	Image, ImageRef string
	User            *v1.ContainerUser
	Resources       *InstanceResources
}

// endedWell tells whether an init container has done its work. It has not if one of its processes was killed for memory, whatever
// its exit code.
func (in *Instance) endedWell() bool { return in.ExitCode == 0 && in.Reason != reasonOOM }

const reasonOOM = "OOMKilled" // of an instance of which a process was killed for memory

// reasonUnknown is the reason of an instance whose end nobody saw.
const reasonUnknown = "ContainerStatusUnknown"

// Verdict of a probe.
type Verdict uint8

// Verdicts.
const (
	ProbeUnknown Verdict = iota
	ProbeOK
	ProbeFailed
)

// Container is one container of the pod's spec.
type Container struct {
	Name  string
	Kind  Kind
	Stage CStage
	// Cur is the newest instance, nil before the first one; Prev is the one before it, while the runtime has it.
	Cur, Prev *Instance

	Reason, Message string // why it waits, in upstream's words; empty when upstream's default applies
	ImageRef        string
	Attempt         uint32 // of the instance to create next, or of Cur

	Startup, Readiness Verdict
	StopWhy            string // why this instance is stopped although the pod goes on
	Again              bool   // it is stopped to run anew, whatever its exit code; until it does

	Target string // of an ephemeral one: whose processes it is to see

	spec       *v1.Container
	seen       *Instance     // while Launching: what an observation said meanwhile
	retry      retry         // of pull (other than back-off), create and start
	until      time.Time     // end of BackOff, for restarts and for pulls
	notice     time.Time     // when ErrImagePull becomes ImagePullBackOff
	restart    backoff       // of restarts
	pull       backoff       // of pulls
	mounts     string        // the image of a volume that could not be pulled, until there is an instance; reason and retry are about it
	knownAt    time.Time     // when Cur became known
	deadline   time.Time     // while stopping: when it is killed
	asked      time.Time     // while TermSent: the deadline that the runtime was last given; zero when it must be asked
	askedGrace time.Duration // the grace of the last StopContainer
	hooked     string        // the instance whose postStart hook ended well
	postStart  bool          // while Hooking: the hook has been asked for
	sent       time.Time     // while TermSent: when TERM was first asked for
	preStop    bool          // while PreStopping: the hook has been asked for
	probes     ProbeSet      // which probes run
	stale      bool          // while Pulling: the image is no longer the container's
	forgiven   bool          // one cut-off start was not counted as a crash (abandoned)
}

// backoff is the doubling wait of something that keeps failing.
type backoff struct {
	Wait time.Duration `json:"wait,omitempty"`
	Last time.Time     `json:"last,omitzero"` // when it was last tried
}

// next takes one more try into account. failedAt is when the last one failed; no wait is longer than ceiling.
func (b *backoff) next(c *Config, ceiling time.Duration, failedAt, now time.Time) {
	if b.Wait == 0 || failedAt.Sub(b.Last) > c.BackoffReset {
		b.Wait = c.BackoffBase
	} else {
		b.Wait *= 2
	}
	b.Wait, b.Last = min(b.Wait, ceiling), now
}

// until is when the next try is due; zero when it is due at once.
func (b *backoff) until(c *Config, failedAt time.Time) time.Time {
	if b.Wait == 0 || failedAt.Sub(b.Last) > c.BackoffReset {
		return time.Time{}
	}
	return failedAt.Add(b.Wait)
}

// Runs tells whether the runtime may have a process of this container.
func (c *Container) Runs() bool {
	switch c.Stage {
	case Launching, Unsure, Hooking, Up, PreStopping, InLine, TermSent:
		return true
	}
	return false
}

// begins tells whether the running instance does not count as started for users: its postStart hook has not ended, or has failed,
// so that it is stopped. Its status still shows what it waited for before.
func (c *Container) begins() bool {
	return c.Stage == Hooking || c.stopping() && c.StopWhy == hookFailed
}

// busy tells whether an effect is in flight that may make the container run.
func (c *Container) busy() bool {
	return c.Stage == Creating || c.Stage == Launching || c.Stage == Unsure
}

// stopping tells whether the running instance is on its way to its end.
func (c *Container) stopping() bool {
	return c.Stage == PreStopping || c.Stage == InLine || c.Stage == TermSent
}

// started is upstream's "started": the process runs, its hook ended and its startup probe succeeded.
func (c *Container) started() bool {
	if c.Stage != Up && !c.stopping() {
		return false
	}
	if c.Stage != Up && c.hasPostStart() && c.hooked != c.Cur.ID {
		return false
	}
	return c.spec.StartupProbe == nil || c.Startup == ProbeOK
}

func (c *Container) hasPostStart() bool {
	return c.spec.Lifecycle != nil && c.spec.Lifecycle.PostStart != nil
}

func (c *Container) ready() bool {
	if c.Kind == Init {
		return c.Stage == Exited && c.Cur.endedWell()
	}
	return c.started() && c.Kind != Ephemeral && (c.spec.ReadinessProbe == nil || c.Readiness == ProbeOK)
}

// Spec is the container's specification; an ephemeral one's is converted.
func (c *Container) Spec() *v1.Container { return c.spec }

// syncContainers makes the containers follow the pod's spec: ephemeral ones may be added, images and resources may change.
func (s *State) syncContainers() {
	old := s.Containers
	s.Containers = make([]Container, 0, len(s.given.Spec.InitContainers)+len(s.given.Spec.Containers)+len(s.Pod.Spec.EphemeralContainers))
	add := func(spec *v1.Container, k Kind) {
		i := slices.IndexFunc(old, func(c Container) bool { return c.Name == spec.Name })
		if i < 0 {
			s.Containers = append(s.Containers, Container{Name: spec.Name, Kind: k, spec: spec})
			return
		}
		c := old[i]
		if c.spec.Image != spec.Image {
			c.forgetImage()
		} else if !equality.Semantic.DeepEqual(c.spec.Resources, spec.Resources) {
			c.forgetCrashes()
		}
		c.spec = spec
		s.Containers = append(s.Containers, c)
	}
	for i := range s.given.Spec.InitContainers {
		c := &s.given.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c, Sidecar)
		} else {
			add(c, Init)
		}
	}
	for i := range s.given.Spec.Containers {
		add(&s.given.Spec.Containers[i], Main)
	}
	for i := range s.Pod.Spec.EphemeralContainers {
		c := v1.Container(s.Pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		add(&c, Ephemeral)
		s.Containers[len(s.Containers)-1].Target = s.Pod.Spec.EphemeralContainers[i].TargetContainerName
	}
}

// forgetImage drops everything that concerns an image that is no longer the container's, so that the new one is tried at once.
func (c *Container) forgetImage() {
	c.pull, c.retry, c.restart, c.mounts = backoff{}, retry{}, backoff{}, ""
	switch {
	case c.Stage == Pulling:
		c.stale = true
	case c.Stage == BackOff && c.Reason == crashLoop:
		c.until = time.Time{}
	case c.Stage == Waiting, c.Stage == Pulled, c.Stage == BackOff:
		c.Stage, c.Reason, c.Message, c.until, c.notice = Waiting, "", "", time.Time{}, time.Time{}
	}
}

// forgetCrashes lets a container that crashed with other resources run at once with its new ones.
func (c *Container) forgetCrashes() {
	c.restart = backoff{}
	if c.Stage == BackOff && c.Reason == crashLoop {
		c.until = time.Time{}
	}
}

// Container is the container of that name, or nil. It is not to be changed.
func (s *State) Container(name string) *Container {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}
