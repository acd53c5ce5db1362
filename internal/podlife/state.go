// Package podlife is the pod state machine: every decision that the kubelet takes about a pod, and nothing else. It is pure.
//
//	Step(state, event, now) -> (state, effects)    decide
//	Status(state)           -> v1.PodStatus        tell: a function of the state, never a second memory
//	Restore(pod, saved, observed, now) -> state    come back after a restart
//
// The shell (kubelet/worker) feeds events, runs effects and feeds their results back as events. Step first takes the event
// in, then moves everything forward that can move (advance), so that what is done depends on what is, not on the event that
// happened to come last: a lost event costs time, never correctness.
package podlife

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Stage is where a pod is in its life.
//
//	        verdict            sandbox up, init done, every main container started
//	New ─► Admitting ─► Starting ────────────────────────────────────► Running ◄─┐ a container restarts by policy
//	           │           │  ▲                                           │  │ └───┘
//	           │ rejected  │  └──── the sandbox is lost, or a rule ───────┘  │
//	           │           │        restarts all containers                  │
//	           │           │ deleted · removed · evicted · deadline · ...    │ every container ended, none restarts
//	           │           ▼                                                 ▼
//	           │        Stopping (why, deadline: only ever earlier) ◄────────┘
//	           │           │ nothing runs any more: the phase is now final
//	           │           ▼
//	           └───────► Releasing ─► Finished ─► Gone
//	                       │             │ the source no longer has the pod: containers and sandbox are removed
//	                       │ sandbox stopped, volumes, cgroup returned
type Stage uint8

// The stages, in the order in which they are passed.
const (
	New Stage = iota
	Admitting
	Starting
	Running
	Stopping
	Releasing
	Finished
	Gone
)

var stageNames = [...]string{"New", "Admitting", "Starting", "Running", "Stopping", "Releasing", "Finished", "Gone"}

func (s Stage) String() string { return stageNames[s] }

// Hold is the life of a thing that the pod holds on the node: its cgroup, its volumes.
//
//	Absent ─► Acquiring ─► Held ─► Returning ─► Returned
//	           ▲     │ failed                │    ▲
//	           │     ▼                 Held ◄┘    │ (from Absent too)
//	           Doubtful ─► Returning
//
// Doubtful is what a restart finds, and what a failure leaves: it may be held in part, so it is acquired again, after a failure not before
// retry, and returned at the end.
type Hold uint8

// The states of a held thing.
const (
	Absent Hold = iota
	Acquiring
	Held
	Returning
	Returned
	Doubtful
)

var holdNames = [...]string{"absent", "acquiring", "held", "returning", "returned", "doubtful"}

func (h Hold) wanted() bool { return h == Absent || h == Doubtful }

// owed tells whether there may be something to give back.
func (h Hold) owed() bool { return h == Held || h == Doubtful }

func (h Hold) String() string { return holdNames[h] }

// SandboxStage is the life of the pod's current sandbox.
//
//	None ─► Creating ─► Up ─► Lost (the runtime no longer has it ready)
//	  ▲         │ failed     │
//	  └─────────┴────────────┘ attempt + 1; what is left of the old one is swept
type SandboxStage uint8

// The states of the sandbox.
const (
	SandboxNone SandboxStage = iota
	SandboxCreating
	SandboxUp
	SandboxLost
)

var sandboxNames = [...]string{"none", "creating", "up", "lost"}

func (s SandboxStage) String() string { return sandboxNames[s] }

// Why says what made a pod stop. The first cause is kept.
type Why string

// The causes.
const (
	NotStopped   Why = ""
	Deleted      Why = "Deleted"          // deletionTimestamp set in the API
	SourceGone   Why = "Removed"          // the source no longer has it: deleted by force, or its manifest was removed
	Completed    Why = "Completed"        // every container ended and none restarts
	Deadline     Why = "DeadlineExceeded" // activeDeadlineSeconds
	Evicted      Why = "Evicted"          // the node runs short of something
	OverLimit    Why = "OverLimit"        // evicted for what it wrote itself, which is no disruption by others
	Preempting   Why = "Preempting"
	NodeShutdown Why = "NodeShutdown"
	Ended        Why = "Ended" // the API already said that its phase is final
)

// Rejection says why a pod may not run on this node, in upstream's words.
type Rejection struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Stop is how and why a pod is being stopped.
type Stop struct {
	Why     Why       `json:"why"`
	Reason  string    `json:"reason,omitempty"`  // of the pod's status, where the cause sets one
	Message string    `json:"message,omitempty"` // likewise
	At      time.Time `json:"at"`
	// Deadline is when the last container is killed. It only ever moves to an earlier time.
	Deadline time.Time `json:"deadline"`
}

// retry is when something that failed may be tried again, with the length of the next wait.
type retry struct {
	at   time.Time
	wait time.Duration
	fail *Failure
}

func (r *retry) failed(c *Config, f *Failure, now time.Time) {
	if r.wait == 0 {
		r.wait = c.RetryBase
	} else {
		r.wait = min(2*r.wait, c.RetryMax)
	}
	r.at, r.fail = now.Add(r.wait), f
	if f.Final {
		r.at = never
	}
}

func (r *retry) due(now time.Time) bool { return !now.Before(r.at) }

// never is a due time that no clock reaches.
var never = time.Unix(1<<40, 0)

// sweep is something in the runtime that has to go: a sandbox that is not the current one, or an instance that nobody needs any
// more.
type sweep struct {
	id      string
	sandbox bool
	stage   sweepStage
	retry   retry
}

type sweepStage uint8

const (
	sweepDue sweepStage = iota
	sweepStopping
	sweepStopped
	sweepRemoving
)

// State is everything that is known and decided about one pod. It is a value: Step never changes the one that it was given.
// Exported fields are for reading.
type State struct {
	cfg *Config

	Pod     *v1.Pod // desired; never changed in place
	Stage   Stage
	Removed bool // the source no longer has the pod
	Reject  *Rejection
	Start   time.Time // when the kubelet took the pod
	Stop    Stop

	Cgroup       Hold
	CgroupParent string
	Volumes      Hold

	Sandbox        SandboxStage
	SandboxID      string
	SandboxAttempt uint32
	IPs            []string // of the last sandbox; they stay in the status until there are others

	RestartAll  bool // a rule restarts every container: they are being stopped and removed, see resetAll
	Initialized bool // users were told that the pod is initialized; that stays

	Containers []Container // init ones in order, then main, then ephemeral ones
	Final      v1.PodPhase // once nothing runs any more

	Granted, Applied  *Grant   // see resize.go; nil until there is something to say
	InDoubt           []string // containers for which Applied may be wrong: a ResizePod was begun, and its success not reported
	Pending, Progress *Resize  // the conditions PodResizePending and PodResizeInProgress

	given       *v1.Pod // Pod with Granted over it
	observed    int64   // the observed generation: while a pod asks for other resources, it advances with the verdict
	asked       int64   // the generation for which Allocate was last asked
	cgroupAsked *Grant  // the grant for which the cgroup is being made
	cgroupOf    *Grant  // what it is set to
	resizing    bool    // a ResizePod is in flight
	resizeRetry retry

	cgroupRetry, volumesRetry, sandboxRetry retry
	sweeps                                  []sweep
	unsureSandbox                           bool      // a sandbox may exist of which nothing was reported
	lostUntold                              bool      // the sandbox was lost while nobody looked, and users have yet to be told
	overdueTold                             bool      // users were told that the pod did not end in time
	observing                               bool      // an Observe is in flight
	observeRetry                            retry     // after a failed one
	observeAfter                            time.Time // when the last reason for an observation arose; zero: none is wanted
	knownAt                                 time.Time // when the current sandbox became known
	wake                                    time.Time // the last requested WakeAt
}

// Config has the times that decisions depend on, and the node's facts that statuses show.
type Config struct {
	BackoffBase  time.Duration // first restart and pull back-off
	BackoffMax   time.Duration // the ceiling of restarts'
	PullMax      time.Duration // the ceiling of pulls'
	BackoffReset time.Duration // a container that ran this long starts over
	RetryBase    time.Duration // first wait after a failed effect
	RetryMax     time.Duration // its ceiling
	PullNotice   time.Duration // how long ErrImagePull shows before it turns into ImagePullBackOff
	MinGrace     time.Duration // the least time between TERM and KILL for every container
	NoCPUQuota   bool          // cpu limits are not set
	RuntimeName  string        // scheme of container IDs in statuses
	HostIPs      []string      // of the node, at most one a family, primary first

	// RecursiveReadOnly says that the runtime can make what is mounted below a read-only mount read-only too.
	RecursiveReadOnly bool
}

// Defaults returns upstream's times.
func Defaults() *Config {
	return &Config{
		BackoffBase: 10 * time.Second, BackoffMax: 5 * time.Minute, PullMax: 5 * time.Minute, BackoffReset: 10 * time.Minute,
		RetryBase: 500 * time.Millisecond, RetryMax: 15 * time.Second,
		PullNotice: 2 * time.Second, MinGrace: 2 * time.Second, RuntimeName: "containerd",
	}
}

// Begin returns the state of a pod that was never seen before.
func Begin(cfg *Config, pod *v1.Pod, now time.Time) State {
	s := State{cfg: cfg, Pod: pod, Start: now}
	if t := pod.Status.StartTime; t != nil {
		s.Start = t.Time
	}
	s.takePod(pod)
	return s
}

// BeginAgain is Begin for a pod that had ended as before and comes back under its UID, as a static pod does whose manifest was removed and put
// back. As with upstream's kubelet its containers go on counting where their policy lets them run after such an end: users see that they ran
// before.
func BeginAgain(cfg *Config, pod *v1.Pod, before *State, now time.Time) State {
	s := Begin(cfg, pod, now)
	for i := range s.Containers {
		c := &s.Containers[i]
		was := before.Container(c.Name)
		if was == nil || was.Cur == nil || was.Cur.State != InstanceExited {
			continue
		}
		if c.Kind == Sidecar || c.Kind == Main && s.byPolicy(c.spec, was.Cur.ExitCode, was.Cur.ExitCode != 0) {
			c.Cur, c.Attempt, c.knownAt = was.Cur, was.Cur.Attempt+1, now
		}
	}
	return s
}
