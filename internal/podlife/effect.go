package podlife

import (
	"fmt"
	"strings"
	"time"
)

// Effect is what to do. Each is safe to repeat. Key names what the effect works on and how: no two effects of one key are
// in flight at once.
type Effect interface{ Key() string }

type (
	// Admit asks whether the pod may run on this node.
	Admit struct{}
	// EnsureCgroup makes the pod's cgroup. With Keep an existing cgroup keeps its limits, since a resize under way sets them in
	// order.
	EnsureCgroup struct{ Keep bool }
	// RemoveCgroup removes it.
	RemoveCgroup struct{}
	// MountVolumes makes every volume available.
	MountVolumes struct{}
	// UnmountVolumes undoes it and removes the pod's directory.
	UnmountVolumes struct{}
	// Allocate asks the node for the resources in the pod's spec. Where there is no room, it is judged again when there may be.
	Allocate struct{ Generation int64 }
	// ResizePod sets the pod's cgroup to what it was granted, and changes containers that run.
	ResizePod struct {
		Changes []Change
		Granted *Grant
	}
	// CreateSandbox runs a new sandbox.
	CreateSandbox struct{ Attempt uint32 }
	// StopSandbox stops a sandbox and with it the pod's network.
	StopSandbox struct{ ID string }
	// RemoveSandbox removes a stopped sandbox and what is in it.
	RemoveSandbox struct{ ID string }
	// PullImage makes a container's image present by its pull policy.
	PullImage struct{ Container string }
	// CreateContainer creates the next instance.
	CreateContainer struct {
		Container string
		Attempt   uint32
		ImageRef  string
	}
	// StartContainer starts a created instance.
	StartContainer struct{ Container, ID string }
	// StopContainer sends the stop signal and kills after Grace. A second one with a shorter grace overtakes the first.
	StopContainer struct {
		Container, ID string
		Grace         time.Duration
	}
	// RemoveContainer removes an instance that nobody needs.
	RemoveContainer struct{ ID string }
	// RunHook runs a lifecycle hook, for at most Limit (0: no limit).
	RunHook struct {
		Container, ID string
		Hook          Hook
		Limit         time.Duration
	}
	// SetProbes says which probes of an instance run from now on.
	SetProbes struct {
		Container, ID string
		Set           ProbeSet
	}
	// Observe asks the runtime for everything it has of this pod.
	Observe struct{}
	// Save persists what the runtime cannot tell us again. Durable ones must be on disk before later effects of the same
	// step are begun.
	Save struct {
		Saved   Saved
		Durable bool
	}
	// Tell is an event for users.
	Tell struct {
		Container       string // empty for the pod's own
		Type            string // Normal or Warning
		Reason, Message string
	}
	// WakeAt asks for a Tick; it replaces the one before. Zero cancels.
	WakeAt struct{ At time.Time }
)

// Effects is one of each kind. Tests that end the process at every boundary of an effect take their list from here.
var Effects = []Effect{
	Admit{},
	EnsureCgroup{},
	RemoveCgroup{},
	MountVolumes{},
	UnmountVolumes{},
	Allocate{},
	ResizePod{},
	CreateSandbox{},
	StopSandbox{},
	RemoveSandbox{},
	PullImage{},
	CreateContainer{},
	StartContainer{},
	StopContainer{},
	RemoveContainer{},
	RunHook{},
	SetProbes{},
	Observe{},
	Save{},
	Tell{},
	WakeAt{},
}

// Name is what an effect's kind is called.
func Name(e Effect) string { return strings.TrimPrefix(fmt.Sprintf("%T", e), "podlife.") }

// ProbeSet says which probes run.
type ProbeSet uint8

// The sets. While a pod terminates, only readiness goes on: traffic must stop, but nothing may be restarted.
const (
	NoProbes ProbeSet = iota
	AllProbes
	ReadinessOnly
)

func (Admit) Key() string             { return "admit" }
func (EnsureCgroup) Key() string      { return "cgroup" }
func (RemoveCgroup) Key() string      { return "cgroup" }
func (MountVolumes) Key() string      { return "volumes" }
func (UnmountVolumes) Key() string    { return "volumes" }
func (e Allocate) Key() string        { return fmt.Sprintf("allocate/%d", e.Generation) }
func (ResizePod) Key() string         { return "resize" }
func (CreateSandbox) Key() string     { return "sandbox" }
func (e StopSandbox) Key() string     { return "sweep/" + e.ID }
func (e RemoveSandbox) Key() string   { return "sweep/" + e.ID }
func (e RemoveContainer) Key() string { return "sweep/" + e.ID }
func (e PullImage) Key() string       { return "container/" + e.Container }
func (e CreateContainer) Key() string { return "container/" + e.Container }
func (e StartContainer) Key() string  { return "container/" + e.Container }
func (e StopContainer) Key() string   { return fmt.Sprintf("stop/%s/%s", e.ID, e.Grace) }
func (e RunHook) Key() string         { return "hook/" + e.ID + "/" + string(e.Hook) }
func (e SetProbes) Key() string       { return "probes/" + e.ID }
func (Observe) Key() string           { return "observe" }
func (Save) Key() string              { return "save" }
func (Tell) Key() string              { return "tell" }
func (WakeAt) Key() string            { return "wake" }
