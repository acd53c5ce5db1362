package resize

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// Cgroups (package cm) are pods' own.
type Cgroups interface {
	// Wanted are the limits that a pod's cgroup shall have, Limits those that it has.
	Wanted(pod *v1.Pod) cm.Limits
	Limits(pod *v1.Pod) (cm.Limits, error)
	// SetLimits sets those that are given.
	SetLimits(pod *v1.Pod, l cm.Limits) error
	// MemoryUsage is what the pod uses, in bytes.
	MemoryUsage(pod *v1.Pod) (uint64, error)
}

// Runtime changes containers and says what they use.
type Runtime interface {
	UpdateContainerResources(ctx context.Context, id string, r *runtimev1.ContainerResources) error
	ContainerStats(ctx context.Context, id string) (*runtimev1.ContainerStats, error)
}

// Specs (package spec) say what the runtime is told of a container's resources.
type Specs interface {
	Resources(pod *v1.Pod, c *v1.Container) *runtimev1.LinuxContainerResources
}

// Resizer implements worker.Resizer.
type Resizer struct {
	Cgroups Cgroups
	Runtime Runtime
	Specs   Specs
}

var _ worker.Resizer = Resizer{}

// Resize implements worker.Resizer. It returns the changes that were made, also when it fails.
func (r Resizer) Resize(ctx context.Context, pod *v1.Pod, changes []podlife.Change) ([]podlife.Change, error) {
	now, err := r.Cgroups.Limits(pod)
	if err != nil {
		return nil, fmt.Errorf("unable to get pod cgroup memory config for pod %q: %w", full(pod), err)
	}
	want := r.Cgroups.Wanted(pod)
	if err := r.fits(ctx, pod, now, want, changes); err != nil {
		return nil, err
	}
	var done []podlife.Change
	for _, s := range plan(now, want, changes) {
		if s.change == nil {
			if err := r.Cgroups.SetLimits(pod, s.cgroup); err != nil {
				return done, err
			}
			continue
		}
		c := container(pod, s.change.Container)
		if c == nil {
			continue // an ephemeral container has no resources
		}
		c.Resources = s.to
		if err := r.Runtime.UpdateContainerResources(ctx, s.change.ID, &runtimev1.ContainerResources{Linux: r.Specs.Resources(pod, c)}); err != nil {
			return done, err
		}
		got := *s.change
		got.To = s.to
		done = append(done, got)
	}
	return done, nil
}

// container is a copy of one of the pod's.
func container(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				c := list[i]
				return &c
			}
		}
	}
	return nil
}

func full(pod *v1.Pod) string { return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID) }

// fits tells why memory cannot be taken away: more is in use than would be allowed, and something would be killed. Usage may
// change right after; then the kernel refuses, or kills.
func (r Resizer) fits(ctx context.Context, pod *v1.Pod, now, want cm.Limits, changes []podlife.Change) error {
	podLess := grows(want.Memory, now.Memory)
	var less []podlife.Change
	for _, c := range changes {
		from, to := c.From.Limits.Memory(), c.To.Limits.Memory()
		if !to.IsZero() && (from.IsZero() || to.Cmp(*from) < 0) {
			less = append(less, c)
		}
	}
	if !podLess && len(less) == 0 {
		return nil
	}
	used, err := r.Cgroups.MemoryUsage(pod)
	if err != nil {
		return fmt.Errorf("unable to read memory usage for pod %q", full(pod))
	}
	var errs []error
	if podLess && used >= uint64(*want.Memory) {
		errs = append(errs, fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", *want.Memory, used))
	}
	for _, c := range less {
		st, err := r.Runtime.ContainerStats(ctx, c.ID)
		if err != nil || st.GetMemory().GetUsageBytes() == nil {
			errs = append(errs, fmt.Errorf("missing container %q memory usage", c.Container))
			continue
		}
		// Upstream's message has the pod's usage although the container's decides.
		if limit := c.To.Limits.Memory().Value(); st.GetMemory().GetUsageBytes().GetValue() >= uint64(limit) {
			errs = append(errs, fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", c.Container, limit, used))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errors.New("cannot decrease memory limits: " + utilerrors.NewAggregate(errs).Error())
}
