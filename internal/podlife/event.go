package podlife

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Event is something that was learnt. Results name the effect that they answer, so that a late one is recognised and dropped.
type Event interface{ event() }

type (
	// Desired is the pod as its source now wants it. A deletionTimestamp in it asks for the end.
	Desired struct{ Pod *v1.Pod }
	// SourceRemoved says that the source no longer has the pod.
	SourceRemoved struct{}
	// StopAsked is the node's request to end the pod (eviction, preemption, shutdown). A nil Grace means the pod's own.
	StopAsked struct {
		Why             Why
		Reason, Message string
		Grace           *time.Duration
	}
	// Admitted answers Admit; nil Reject is a yes.
	Admitted struct{ Reject *Rejection }
	// CgroupDone answers EnsureCgroup and RemoveCgroup.
	CgroupDone struct {
		Parent string
		Fail   *Failure
	}
	// VolumesDone answers MountVolumes and UnmountVolumes.
	VolumesDone struct{ Fail *Failure }
	// Allocated answers Allocate, as often as the verdict changes. Pod is the form that was judged; without a Reason its
	// resources are granted. Word names what the node lacks while the pod has to wait.
	Allocated struct {
		Pod                   *v1.Pod
		Reason, Message, Word string
	}
	// Resized answers the ResizePod of that grant. Done are the changes that were made, maybe not all; Instances are the
	// containers as the runtime has them afterwards.
	Resized struct {
		Granted   *Grant
		Done      []Change
		Instances []*Instance
		Fail      *Failure
	}
	// SandboxCreated answers CreateSandbox.
	SandboxCreated struct {
		Attempt uint32
		ID      string
		IPs     []string
		Fail    *Failure
	}
	// Swept answers StopSandbox, RemoveSandbox and RemoveContainer.
	Swept struct {
		ID   string
		Fail *Failure
	}
	// ImageReady answers PullImage.
	ImageReady struct {
		Container string
		Ref       string
		Fail      *Failure
	}
	// ContainerCreated answers CreateContainer.
	ContainerCreated struct {
		Container string
		Attempt   uint32
		Instance  *Instance
		Fail      *Failure
	}
	// ContainerStarted answers StartContainer; Instance is what the runtime says afterwards, also after a failure.
	ContainerStarted struct {
		Container, ID string
		Instance      *Instance
		Fail          *Failure
	}
	// ContainerStopped answers the StopContainer of that Grace.
	ContainerStopped struct {
		Container, ID string
		Grace         time.Duration
		Instance      *Instance
		Fail          *Failure
	}
	// HookDone answers RunHook.
	HookDone struct {
		Container, ID string
		Hook          Hook
		Fail          *Failure
	}
	// Observation is everything that the runtime has of this pod. It does not contradict what became known after At, when the
	// question was asked. With a zero At it is only a part, and what it does not name is not known to be gone. Asked says that it
	// answers an Observe; otherwise the runtime reported a change.
	Observation struct {
		Observed Observed
		Asked    bool
		Fail     *Failure
	}
	// ProbeTurned is a change of a probe's result.
	ProbeTurned struct {
		Container, ID string
		Probe         Probe
		OK            bool
	}
	// VolumesChanged says that what kept volumes from being mounted may have gone: the back-off ends.
	VolumesChanged struct{}
	// Tick lets due things happen.
	Tick struct{}
)

func (Desired) event()          {}
func (SourceRemoved) event()    {}
func (StopAsked) event()        {}
func (Admitted) event()         {}
func (CgroupDone) event()       {}
func (VolumesDone) event()      {}
func (Allocated) event()        {}
func (Resized) event()          {}
func (SandboxCreated) event()   {}
func (Swept) event()            {}
func (ImageReady) event()       {}
func (ContainerCreated) event() {}
func (ContainerStarted) event() {}
func (ContainerStopped) event() {}
func (HookDone) event()         {}
func (Observation) event()      {}
func (ProbeTurned) event()      {}
func (VolumesChanged) event()   {}
func (Tick) event()             {}

// Observed is what the runtime has of one pod.
type Observed struct {
	At         time.Time
	Sandboxes  []SandboxInfo
	Containers []Instance
	// Logged are, for Restore, the newest attempts, by container, that have a log.
	Logged map[string]uint32
}

// SandboxInfo is one sandbox of the runtime's.
type SandboxInfo struct {
	ID      string
	Attempt uint32
	Ready   bool
	IPs     []string
}

// Probe is a kind of probe.
type Probe string

// The probes.
const (
	Liveness  Probe = "liveness"
	Readiness Probe = "readiness"
	Startup   Probe = "startup"
)

// Hook is a kind of lifecycle hook.
type Hook string

// The hooks.
const (
	PostStart Hook = "PostStart"
	PreStop   Hook = "PreStop"
)
