package spec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/expand"
	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/kubelet/worker"
)

// Container implements worker.Specs.
func (b *Builder) Container(ctx context.Context, in worker.ContainerInput) (*runtimev1.ContainerConfig, error) {
	cfg, err := b.container(ctx, in)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, configError(err)
	}
	return cfg, nil
}

func (b *Builder) container(ctx context.Context, in worker.ContainerInput) (*runtimev1.ContainerConfig, error) {
	pod, c := in.Pod, in.Container
	env, err := b.environment(pod, c, in.PodIPs)
	if err != nil {
		return nil, err
	}
	security, err := b.security(ctx, pod, c, in.ImageRef)
	if err != nil {
		return nil, err
	}
	if ns := security.NamespaceOptions; in.Target != "" && ns.Pid == runtimev1.NamespaceMode_CONTAINER {
		ns.Pid, ns.TargetId = runtimev1.NamespaceMode_TARGET, in.Target
	}
	mounts, err := b.mounts(ctx, in, env)
	if err != nil {
		return nil, err
	}
	devices, err := b.devices(pod, c)
	if err != nil {
		return nil, err
	}
	message, err := b.messageFile(pod, c, in.Attempt)
	if err != nil {
		return nil, err
	}
	if message != "" {
		mounts = append(mounts, &runtimev1.Mount{HostPath: message, ContainerPath: absolute(c.TerminationMessagePath)})
	}
	if err := b.nest(pod, c, mounts); err != nil {
		return nil, err
	}
	if users := security.NamespaceOptions.UsernsOptions; users != nil {
		for _, m := range mounts { // a mount of the host's root is taken for the container's root
			m.UidMappings, m.GidMappings = users.Uids, users.Gids
		}
	}
	if err := os.MkdirAll(filepath.Join(b.podLogs(pod), c.Name), 0o755); err != nil {
		return nil, fmt.Errorf("create container log directory for container %s failed: %w", c.Name, err)
	}
	return &runtimev1.ContainerConfig{
		Metadata:    &runtimev1.ContainerMetadata{Name: c.Name, Attempt: in.Attempt},
		Image:       &runtimev1.ImageSpec{Image: in.ImageRef, UserSpecifiedImage: c.Image},
		Command:     expandAll(c.Command, env),
		Args:        expandAll(c.Args, env),
		WorkingDir:  c.WorkingDir,
		Envs:        env.list(),
		Labels:      labels.Container(pod, c.Name, b.c.Node),
		Annotations: labels.ContainerAnnotations(pod, c, in.Attempt, message),
		Mounts:      mounts,
		Devices:     devices,
		LogPath:     filepath.Join(c.Name, fmt.Sprintf("%d.log", in.Attempt)),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  stopSignal(c),
		Linux:       &runtimev1.LinuxContainerConfig{Resources: b.Resources(pod, c), SecurityContext: security},
	}, nil
}

func expandAll(list []string, env *environment) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = expand.Refs(s, env.lookup)
	}
	return out
}

// messageFile makes the file for the container's termination message. Each instance has its own, named by its attempt; an
// instance whose creation failed and is tried again starts with an empty one.
func (b *Builder) messageFile(pod *v1.Pod, c *v1.Container, attempt uint32) (string, error) {
	if c.TerminationMessagePath == "" {
		return "", nil
	}
	path := filepath.Join(b.c.Volumes.Layout().Container(pod.UID, c.Name), fmt.Sprintf("%08x", attempt))
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o666)
	if err != nil {
		return "", err
	}
	// Whoever the container runs as may write, whatever the umask.
	return path, errors.Join(f.Chmod(0o666), f.Close())
}

// mounts are the container's volumes and its /etc/hosts.
func (b *Builder) mounts(ctx context.Context, in worker.ContainerInput, env *environment) ([]*runtimev1.Mount, error) {
	pod, c, podIPs := in.Pod, in.Container, in.PodIPs
	var out []*runtimev1.Mount
	hosts := len(podIPs) > 0 || pod.Spec.HostNetwork
	for i := range c.VolumeMounts {
		vm := &c.VolumeMounts[i]
		hosts = hosts && vm.MountPath != etcHosts
		var m *runtimev1.Mount
		var err error
		if v := imageVolume(pod, vm.Name); v != nil {
			m, err = b.imageMount(ctx, in, vm, v, env)
		} else {
			m, err = b.mount(pod, c, i, env)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if hosts {
		path, err := b.hostsFile(pod, podIPs)
		if err != nil {
			return nil, err
		}
		out = append(out, &runtimev1.Mount{ContainerPath: etcHosts, HostPath: path})
	}
	return out, nil
}

func (b *Builder) mount(pod *v1.Pod, c *v1.Container, i int, env *environment) (*runtimev1.Mount, error) {
	vm := &c.VolumeMounts[i]
	path, readOnly, err := b.c.Volumes.Path(pod, vm.Name)
	if err != nil {
		return nil, fmt.Errorf("cannot find volume %q to mount into container %q", vm.Name, c.Name)
	}
	sub, err := subPath(vm, env)
	if err != nil {
		return nil, err
	}
	if sub != "" {
		if path, err = b.c.Volumes.SubPath(pod, c.Name, i, vm.Name, sub); err != nil {
			return nil, err
		}
	}
	propagation, err := propagationOf(vm.MountPropagation)
	if err != nil {
		return nil, err
	}
	recursive, err := b.recursiveReadOnly(vm)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
	}
	return &runtimev1.Mount{
		HostPath: path, ContainerPath: absolute(vm.MountPath), Readonly: vm.ReadOnly || readOnly,
		RecursiveReadOnly: recursive, Propagation: propagation,
	}, nil
}

// nest makes mount points inside volumes that podo fills and that containers mount read-only, since the runtime cannot make them
// there. The first mounts are those of the container's volumes, in their order.
func (b *Builder) nest(pod *v1.Pod, c *v1.Container, mounts []*runtimev1.Mount) error {
	for i := range c.VolumeMounts {
		outer := &c.VolumeMounts[i]
		if outer.SubPath != "" || outer.SubPathExpr != "" {
			continue
		}
		at := filepath.Clean(mounts[i].ContainerPath) + "/"
		for _, m := range mounts {
			path := filepath.Clean(m.ContainerPath)
			place, below := strings.CutPrefix(path, at)
			between := func(o *runtimev1.Mount) bool {
				over := filepath.Clean(o.ContainerPath) + "/"
				return over != at && strings.HasPrefix(over, at) && strings.HasPrefix(path, over)
			}
			if !below || slices.ContainsFunc(mounts, between) {
				continue
			}
			if err := b.c.Volumes.MakePlace(pod, outer.Name, place, m.HostPath); err != nil {
				return fmt.Errorf("unable to create nested volume mountpoints: %w", err)
			}
		}
	}
	return nil
}

// devices are the block devices that the container is given.
func (b *Builder) devices(pod *v1.Pod, c *v1.Container) ([]*runtimev1.Device, error) {
	var out []*runtimev1.Device
	for _, d := range c.VolumeDevices {
		path, readOnly, err := b.c.Volumes.Device(pod, d.Name)
		if err != nil {
			return nil, fmt.Errorf("cannot find volume %q to pass into container %q", d.Name, c.Name)
		}
		permissions := "mrw"
		if readOnly {
			permissions = "r"
		}
		out = append(out, &runtimev1.Device{HostPath: path, ContainerPath: absolute(d.DevicePath), Permissions: permissions})
	}
	return out, nil
}

// imageVolume is the image that a volume is; nil when it is something else.
func imageVolume(pod *v1.Pod, name string) *v1.ImageVolumeSource {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return v.Image
		}
	}
	return nil
}

// imageMount has the runtime mount an image, or a folder of it, read-only. The image is pulled as a container's is, but events of the pull
// concern the pod, whose volume it is. What prevents it keeps the container that mounts it from its start.
func (b *Builder) imageMount(ctx context.Context, in worker.ContainerInput, vm *v1.VolumeMount, v *v1.ImageVolumeSource, env *environment) (*runtimev1.Mount, error) {
	if b.c.Volume == nil {
		return nil, errors.New("volumes of type image are not supported")
	}
	sub, err := subPath(vm, env)
	if err != nil {
		return nil, err
	}
	as := &v1.Container{Image: v.Reference, ImagePullPolicy: v.PullPolicy}
	ref, err := b.c.Volume(ctx, in.Pod, as, in.Sandbox)
	if err != nil {
		return nil, err
	}
	return &runtimev1.Mount{
		ContainerPath: absolute(vm.MountPath), Readonly: true, ImageSubPath: sub,
		Image: &runtimev1.ImageSpec{Image: ref, UserSpecifiedImage: v.Reference},
	}, nil
}

// subPath is the path inside the volume that a mount is for; "" is the whole volume.
func subPath(vm *v1.VolumeMount, env *environment) (sub string, err error) {
	sub = vm.SubPath
	if vm.SubPathExpr != "" {
		if sub, err = expandSubPath(vm.SubPathExpr, env); err != nil {
			return "", err
		}
	}
	if filepath.IsAbs(sub) {
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", sub)
	}
	if slices.Contains(strings.Split(sub, "/"), "..") {
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", sub)
	}
	return sub, nil
}

// expandSubPath expands the expression, and fails when a variable is not set: a path with a hole in it would be another path.
func expandSubPath(expr string, env *environment) (string, error) {
	missing := map[string]bool{}
	path := expand.Refs(expr, func(name string) (string, bool) {
		v, ok := env.lookup(name)
		if v == "" {
			missing[name] = true
		}
		return v, ok
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("missing value for %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return path, nil
}

func absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("/", path)
}

func propagationOf(m *v1.MountPropagationMode) (runtimev1.MountPropagation, error) {
	if m == nil {
		return runtimev1.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *m {
	case v1.MountPropagationNone:
		return runtimev1.MountPropagation_PROPAGATION_PRIVATE, nil
	case v1.MountPropagationHostToContainer:
		return runtimev1.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case v1.MountPropagationBidirectional:
		return runtimev1.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	}
	return 0, fmt.Errorf("invalid MountPropagation mode: %q", *m)
}

// recursiveReadOnly says whether what is mounted below shall be read-only too.
func (b *Builder) recursiveReadOnly(vm *v1.VolumeMount) (bool, error) {
	if vm.RecursiveReadOnly == nil || *vm.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	if !vm.ReadOnly {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", vm.Name)
	}
	if p := vm.MountPropagation; p != nil && *p != v1.MountPropagationNone {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q", vm.Name, *p)
	}
	switch {
	case *vm.RecursiveReadOnly == v1.RecursiveReadOnlyIfPossible:
		return b.c.RecursiveReadOnly, nil
	case *vm.RecursiveReadOnly != v1.RecursiveReadOnlyEnabled:
		return false, fmt.Errorf("unknown recursive read-only mode %q", *vm.RecursiveReadOnly)
	case !b.c.RecursiveReadOnly:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", vm.Name)
	}
	return true, nil
}
