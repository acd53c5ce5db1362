// Package worker keeps a worker for each pod. It feeds podlife.Step with what happened, executes the effects that Step asks for
// through the ports below, and feeds their results back. It decides nothing.
package worker

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/podlife"
)

// The ports of the worker: what it needs of the kubelet's other modules, each 1 to 3 methods. Errors are *podlife.Failure
// where users see them.

// Rejection says why a pod may not run here, in upstream's words (reason OutOfcpu, NodeAffinity, ...).
type Rejection struct {
	Reason, Message string
	// Victims, if any, turn the rejection around: the pod may run once these pods have ended, which are therefore to end. Lacks
	// is the first resource that is short.
	Victims []*v1.Pod
	Lacks   v1.ResourceName
	// Detail is upstream's metric label for why a resize is infeasible.
	Detail string
}

// Admission (package admit) checks a pod against the node. active are the pods already admitted and not yet ended.
type Admission interface {
	Admit(pod *v1.Pod, active []*v1.Pod) *Rejection // nil admits
	// Resize checks a running pod that asks for other resources than it was granted. Reason Infeasible means that they will never
	// be granted here; any other reason, that there is no room now.
	Resize(pod, granted *v1.Pod, active []*v1.Pod) *Rejection
}

// Metrics (package metrics) receives what cannot be read elsewhere. Its methods do not block.
type Metrics interface {
	// Moved is told of each step of a pod.
	Moved(old, now podlife.State, at time.Time)
	// Taken reports a pod that is new, Orphan a pod that runs and that no source has.
	Taken(pod *v1.Pod, seen time.Time)
	Orphan()
	// Restarted reports a pod that begins again under the same UID.
	Restarted(pod *v1.Pod)
	// Worked reports how long a pod's effects were under way without a pause, and what began the first of them.
	Worked(on Operation, took time.Duration)
	// Preempted reports each pod that ends because a critical one lacks a resource.
	Preempted(lacks string)
	// ResizeAccepted reports a resize that had to wait, with the trigger that ended the wait.
	ResizeAccepted(trigger string)
	ResizeInfeasible(detail string)
	ResizeTried(took time.Duration, err error)
}

// Operation is the cause of a worker's work, in upstream's words.
type Operation string

// The operations.
const (
	Create Operation = "create" // the pod is new to this process
	Change Operation = "update" // its source changed it
	Sync   Operation = "sync"   // something happened to it
	Kill   Operation = "kill"   // it is to end
)

type noMetrics struct{}

func (noMetrics) Moved(_, _ podlife.State, _ time.Time) {}
func (noMetrics) Taken(*v1.Pod, time.Time)              {}
func (noMetrics) Orphan()                               {}
func (noMetrics) Restarted(*v1.Pod)                     {}
func (noMetrics) Worked(Operation, time.Duration)       {}
func (noMetrics) Preempted(string)                      {}
func (noMetrics) ResizeAccepted(string)                 {}
func (noMetrics) ResizeInfeasible(string)               {}
func (noMetrics) ResizeTried(time.Duration, error)      {}

// Resizer (package resize) changes what a pod's cgroup and its running containers are limited to, and says what it has done.
type Resizer interface {
	Resize(ctx context.Context, pod *v1.Pod, changes []podlife.Change) (done []podlife.Change, err error)
}

// Volumes (package volume) mounts and unmounts a pod's volumes, all in parallel, idempotently.
type Volumes interface {
	// Mount returns when every volume is mounted; a *podlife.Failure names the volumes that failed and why. Until Unmount, later
	// changes of ConfigMaps and Secrets reach mounted volumes by themselves.
	Mount(ctx context.Context, pod *v1.Pod) error
	// Replace takes a newer form of a mounted pod. It does not block, and writes nothing.
	Replace(pod *v1.Pod)
	// Refresh writes what has changed of the pod itself (labels, annotations, resources) into its mounted volumes, if there are
	// any.
	Refresh(ctx context.Context, uid types.UID)
	// Unmount never deletes through a live mount; it returns once nothing of the pod is mounted and its directory is gone.
	Unmount(ctx context.Context, uid types.UID) error
	// OnDisk are the pods that have anything on the disk, known or not.
	OnDisk() ([]types.UID, error)
}

// Images (package images) makes an image present by the container's pull policy.
type Images interface {
	// Ensure returns the reference that containers are created with. Failures have reasons ErrImagePull,
	// ErrImageNeverPull, InvalidImageName, ImageInspectError, RegistryUnavailable; back-off is podlife's.
	Ensure(ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimev1.PodSandboxConfig) (ref string, err error)
}

// Cgroups (package cm) owns the pod's cgroup.
type Cgroups interface {
	// Ensure makes it; with keep, an existing cgroup keeps its limits.
	Ensure(ctx context.Context, pod *v1.Pod, keep bool) (parent string, err error)
	Remove(ctx context.Context, uid types.UID) error
	// Pods are the pods that have a cgroup, known or not.
	Pods() ([]types.UID, error)
}

// Specs (package spec) turns a pod into what the runtime is asked for.
type Specs interface {
	Sandbox(pod *v1.Pod, attempt uint32, cgroupParent string) (*runtimev1.PodSandboxConfig, error)
	// Handler is the runtime's handler of the pod's RuntimeClass; "" is the default one.
	Handler(pod *v1.Pod) (string, error)
	// Container's failures have reason CreateContainerConfigError and name what is missing.
	Container(ctx context.Context, in ContainerInput) (*runtimev1.ContainerConfig, error)
}

// ContainerInput is what a container's configuration depends on.
type ContainerInput struct {
	Pod       *v1.Pod
	Container *v1.Container // an init, main, sidecar or ephemeral one of Pod
	Attempt   uint32        // restart count
	ImageRef  string
	PodIPs    []string
	Target    string // the ID of the container whose process namespace it joins; "" is none
	Sandbox   *runtimev1.PodSandboxConfig
}

// Reporter (package status) receives every new status and patches the API at once, with the changed fields only.
type Reporter interface {
	// The status is shared and not to be changed.
	Report(pod *v1.Pod, status v1.PodStatus)
	// Finished says that the pod has ended and holds no resource any more: a deleted pod may leave the API.
	Finished(pod *v1.Pod)
}
