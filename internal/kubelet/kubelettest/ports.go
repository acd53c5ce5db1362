package kubelettest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/kubelet/state"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// Volumes are a fake: they succeed at once, unless Fail says otherwise.
type Volumes struct {
	mu      sync.Mutex
	mounted map[types.UID]*v1.Pod // as it was mounted, or replaced since
	shown   map[types.UID]*v1.Pod // the form of each that its volumes show
	// Mounting, where set, is called before every mount; Fail, where set, is asked at every mount.
	Mounting func(uid types.UID)
	Fail     func(pod *v1.Pod) error
	// Removing, where set, is called before every unmount.
	Removing func(uid types.UID)
}

// Mount implements worker.Volumes.
func (f *Volumes) Mount(_ context.Context, pod *v1.Pod) error {
	if f.Mounting != nil {
		f.Mounting(pod.UID)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fail != nil {
		if err := f.Fail(pod); err != nil {
			return err
		}
	}
	if f.mounted == nil {
		f.mounted, f.shown = map[types.UID]*v1.Pod{}, map[types.UID]*v1.Pod{}
	}
	f.mounted[pod.UID], f.shown[pod.UID] = pod, pod
	return nil
}

// Replace implements worker.Volumes.
func (f *Volumes) Replace(pod *v1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mounted[pod.UID] != nil {
		f.mounted[pod.UID] = pod
	}
}

// Refresh implements worker.Volumes.
func (f *Volumes) Refresh(_ context.Context, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if pod := f.mounted[uid]; pod != nil {
		f.shown[uid] = pod
	}
}

// Shown is the form of a pod that its volumes show, nil when they show none.
func (f *Volumes) Shown(uid types.UID) *v1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown[uid]
}

// Unmount implements worker.Volumes.
func (f *Volumes) Unmount(_ context.Context, uid types.UID) error {
	if f.Removing != nil {
		f.Removing(uid)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mounted, uid)
	delete(f.shown, uid)
	return nil
}

// OnDisk implements worker.Volumes.
func (f *Volumes) OnDisk() ([]types.UID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.mounted)), nil
}

// Mounted is how many pods have volumes.
func (f *Volumes) Mounted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mounted)
}

// Cgroups are names, nothing more.
type Cgroups struct {
	mu   sync.Mutex
	have map[types.UID]bool
	// Removing, where set, is called before every removal.
	Removing func(uid types.UID)
}

// Ensure implements worker.Cgroups.
func (f *Cgroups) Ensure(_ context.Context, pod *v1.Pod, _ bool) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.have == nil {
		f.have = map[types.UID]bool{}
	}
	f.have[pod.UID] = true
	return "/kubepods/pod" + string(pod.UID), nil
}

// Remove implements worker.Cgroups.
func (f *Cgroups) Remove(_ context.Context, uid types.UID) error {
	if f.Removing != nil {
		f.Removing(uid)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.have, uid)
	return nil
}

// Pods implements worker.Cgroups.
func (f *Cgroups) Pods() ([]types.UID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.have)), nil
}

// Leave is a cgroup that a pod left behind.
func (f *Cgroups) Leave(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.have == nil {
		f.have = map[types.UID]bool{}
	}
	f.have[uid] = true
}

// Count is how many pods have a cgroup.
func (f *Cgroups) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.have)
}

// Images pulls by policy, one image a call, with the errors of package images.
type Images struct{ Runtime cri.Images }

// Ensure implements worker.Images.
func (f Images) Ensure(ctx context.Context, _ *v1.Pod, c *v1.Container, sandbox *runtimev1.PodSandboxConfig) (string, error) {
	spec := &runtimev1.ImageSpec{Image: c.Image}
	have, err := f.Runtime.ImageStatus(ctx, spec)
	switch {
	case err != nil:
		return "", &podlife.Failure{Reason: "ImageInspectError", Message: fmt.Sprintf("Failed to inspect image %q: %v", c.Image, err)}
	case have != nil && c.ImagePullPolicy != v1.PullAlways:
		return have.GetId(), nil
	case c.ImagePullPolicy == v1.PullNever:
		return "", &podlife.Failure{Reason: "ErrImageNeverPull", Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)}
	}
	ref, err := f.Runtime.PullImage(ctx, spec, nil, sandbox)
	if err != nil {
		return "", &podlife.Failure{Reason: "ErrImagePull", Message: err.Error()}
	}
	return ref, nil
}

// Specs make the configurations that matter to a fake runtime.
type Specs struct {
	Node    string
	LogRoot string // "" for no logs
	// MessageRoot holds termination message files; "" for none.
	MessageRoot string
}

// Sandbox implements worker.Specs.
func (f Specs) Sandbox(pod *v1.Pod, attempt uint32, parent string) (*runtimev1.PodSandboxConfig, error) {
	cfg := &runtimev1.PodSandboxConfig{
		Metadata: &runtimev1.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt},
		Labels:   labels.Sandbox(pod, f.Node), Linux: &runtimev1.LinuxPodSandboxConfig{CgroupParent: parent},
	}
	if f.LogRoot != "" {
		cfg.LogDirectory = filepath.Join(f.LogRoot, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
	}
	return cfg, nil
}

// Container implements worker.Specs.
// Handler implements worker.Specs.
func (f Specs) Handler(*v1.Pod) (string, error) { return "", nil }

func (f Specs) Container(_ context.Context, in worker.ContainerInput) (*runtimev1.ContainerConfig, error) {
	c := in.Container
	cfg := &runtimev1.ContainerConfig{
		Metadata: &runtimev1.ContainerMetadata{Name: c.Name, Attempt: in.Attempt}, Image: &runtimev1.ImageSpec{Image: in.ImageRef},
		Command: c.Command, Args: c.Args, LogPath: fmt.Sprintf("%s/%d.log", c.Name, in.Attempt), Labels: labels.Container(in.Pod, c.Name, f.Node),
	}
	host := ""
	if f.MessageRoot != "" {
		host = filepath.Join(f.MessageRoot, fmt.Sprintf("%s-%s-%d", in.Pod.UID, c.Name, in.Attempt))
		path := c.TerminationMessagePath
		if path == "" {
			path = v1.TerminationMessagePathDefault
		}
		cfg.Mounts = append(cfg.Mounts, &runtimev1.Mount{ContainerPath: path, HostPath: host})
	}
	for _, m := range c.VolumeMounts {
		for _, v := range in.Pod.Spec.Volumes {
			if v.Name == m.Name && v.Image != nil {
				cfg.Mounts = append(cfg.Mounts, &runtimev1.Mount{ContainerPath: m.MountPath, Image: &runtimev1.ImageSpec{Image: v.Image.Reference}})
			}
		}
	}
	cfg.Annotations = labels.ContainerAnnotations(in.Pod, c, in.Attempt, host)
	return cfg, nil
}

// Admission admits everybody, unless Reject says otherwise.
type Admission struct {
	Reject func(pod *v1.Pod, active []*v1.Pod) *worker.Rejection
}

// Admit implements worker.Admission.
func (f Admission) Admit(pod *v1.Pod, active []*v1.Pod) *worker.Rejection {
	if f.Reject == nil {
		return nil
	}
	return f.Reject(pod, active)
}

// Resize implements worker.Admission: by the same judgement.
func (f Admission) Resize(pod, _ *v1.Pod, active []*v1.Pod) *worker.Rejection {
	return f.Admit(pod, active)
}

// Checkpoints are in memory, as JSON so that nothing survives that a file would not keep.
type Checkpoints struct {
	mu    sync.Mutex
	saved map[types.UID][]byte
	// Durable is how many saves had to be on disk.
	Saves, Durable int
	full           error
}

// Full has all saves fail with err until it is nil.
func (f *Checkpoints) Full(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = err
}

// Save implements worker.Checkpoints.
func (f *Checkpoints) Save(s podlife.Saved, durable bool) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full != nil {
		return f.full
	}
	if f.saved == nil {
		f.saved = map[types.UID][]byte{}
	}
	f.saved[s.UID] = b
	f.Saves++
	if durable {
		f.Durable++
	}
	return nil
}

// Remove implements worker.Checkpoints.
func (f *Checkpoints) Remove(uid types.UID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.saved, uid)
	return nil
}

// Load implements kubelet.Checkpoints.
func (f *Checkpoints) Load() (map[types.UID]*podlife.Saved, []state.Damaged, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[types.UID]*podlife.Saved{}
	for uid, b := range f.saved {
		s := &podlife.Saved{}
		if err := json.Unmarshal(b, s); err != nil {
			return nil, nil, err
		}
		out[uid] = s
	}
	return out, nil, nil
}

// Len is how many pods are remembered.
func (f *Checkpoints) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.saved)
}
