// Package worker keeps a worker for each pod. It feeds podlife.Step what happened, executes the effects that Step asks for through
// the ports below, and feeds back their results. It decides nothing.
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
	// Victims, when there are any, say otherwise: the pod may run once these have ended, and they are to end for it. Lacks is the first
	// resource of which it has not enough.
	Victims []*v1.Pod
	Lacks   v1.ResourceName
	// Detail says of a resize that is infeasible why, in upstream's word for metrics.
	Detail string
}

// Admission (package admit) checks a pod against the node. active are the pods already admitted and not yet ended.
type Admission interface {
	Admit(pod *v1.Pod, active []*v1.Pod) *Rejection // nil admits
	// Resize checks a pod that runs and asks for other resources than it was granted. Infeasible is one that will never be
	// granted here; any other reason is why there is no room now.
	Resize(pod, granted *v1.Pod, active []*v1.Pod) *Rejection
}

// Metrics (package metrics) are told what cannot be read elsewhere. Their methods do not block.
type Metrics interface {
	// Moved is told of each step of a pod.
	Moved(old, now podlife.State, at time.Time)
	// Taken is told of a pod that is new, Orphan of one that runs and that nobody knows.
	Taken(pod *v1.Pod, seen time.Time)
	Orphan()
	// Restarted is told of a pod that begins anew under the same UID.
	Restarted(pod *v1.Pod)
	// Worked is told how long a pod's effects were under way without a pause, and what began the first of them.
	Worked(on Operation, took time.Duration)
	// Preempted is told of each pod that ends for want of a resource.
	Preempted(lacks string)
	// ResizeAccepted is told of a resize that had to wait, and what happened that it need not any more.
	ResizeAccepted(trigger string)
	ResizeInfeasible(detail string)
	ResizeTried(took time.Duration, err error)
}

// Operation is what makes a worker work, in upstream's words.
type Operation string

// The operations.
const (
	Create Operation = "create" // the pod is new to this process
	Change Operation = "update" // its source wants it otherwise
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
	// Mount returns when every volume is there; a *podlife.Failure names the volumes that are not and why. Later
	// changes of ConfigMaps and Secrets reach mounted volumes by themselves until Unmount.
	Mount(ctx context.Context, pod *v1.Pod) error
	// Replace takes a newer form of a pod that has been mounted, in place of the one before. It does not block, and writes nothing.
	Replace(pod *v1.Pod)
	// Refresh brings what has changed of a pod itself (labels, annotations, resources) into its mounted volumes. Without volumes it does
	// nothing.
	Refresh(ctx context.Context, uid types.UID)
	// Unmount never deletes through a live mount; it returns once nothing of the pod is mounted and its directory is gone.
	Unmount(ctx context.Context, uid types.UID) error
	// OnDisk are the pods of which there is something, known or not.
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
	// Ensure makes it; keep leaves the limits of one that is there as they are.
	Ensure(ctx context.Context, pod *v1.Pod, keep bool) (parent string, err error)
	Remove(ctx context.Context, uid types.UID) error
	// Pods are the pods that have one, known or not.
	Pods() ([]types.UID, error)
}

// Specs (package spec) turns a pod into what the runtime is asked for.
type Specs interface {
	Sandbox(pod *v1.Pod, attempt uint32, cgroupParent string) (*runtimev1.PodSandboxConfig, error)
	// Handler is what the runtime calls the pod's RuntimeClass; "" is its default.
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

// Reporter (package status) is told every new status. It patches the API at once, what changed only.
type Reporter interface {
	// The status is shared and not to be changed.
	Report(pod *v1.Pod, status v1.PodStatus)
	// Finished says that the pod has ended and holds no resource any more: a deleted pod may leave the API.
	Finished(pod *v1.Pod)
}
