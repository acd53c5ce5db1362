package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/podlife"
)

// pullLimit ends a pull that never ends; the image manager ends one without progress long before.
const pullLimit = 2 * time.Hour

// prepare binds an effect to the state that asked for it. The returned function runs in a goroutine of its own and returns the
// effect's result.
func (n *pod) prepare(e podlife.Effect) func() podlife.Event {
	s := n.state
	c := &n.w.cfg
	pod := s.Given()
	call := func(limit time.Duration, slot bool, f func(context.Context) podlife.Event) func() podlife.Event {
		return func() podlife.Event { return n.bounded(n.w.ctx, limit, slot, f) }
	}
	switch x := e.(type) {
	case podlife.EnsureCgroup:
		return call(c.CallTimeout, false, func(ctx context.Context) podlife.Event {
			parent, err := c.Cgroups.Ensure(ctx, pod, x.Keep)
			return podlife.CgroupDone{Parent: parent, Fail: failure(err, "")}
		})
	case podlife.RemoveCgroup:
		return call(c.CallTimeout, false, func(ctx context.Context) podlife.Event {
			return podlife.CgroupDone{Fail: stuck(c.Cgroups.Remove(ctx, pod.UID), "RemoveCgroup", string(pod.UID))}
		})
	case podlife.ResizePod:
		box := s.SandboxID
		return call(c.CallTimeout, false, func(ctx context.Context) podlife.Event { return n.resize(ctx, pod, box, x) })
	case podlife.MountVolumes:
		until := n.untilStop()
		n.mounting = pod
		return func() podlife.Event {
			return n.bounded(until, c.CallTimeout, false, func(ctx context.Context) podlife.Event {
				return podlife.VolumesDone{Fail: failure(c.Volumes.Mount(ctx, pod), "FailedMount")}
			})
		}
	case podlife.UnmountVolumes:
		return call(c.CallTimeout, false, func(ctx context.Context) podlife.Event {
			return podlife.VolumesDone{Fail: failure(c.Volumes.Unmount(ctx, pod.UID), "FailedUnmount")}
		})
	case podlife.PullImage:
		return n.pull(&s, x)
	case podlife.CreateSandbox:
		return call(2*c.CallTimeout, true, func(ctx context.Context) podlife.Event { return n.createSandbox(ctx, &s, x) })
	case podlife.StopSandbox:
		return call(c.CallTimeout, false, func(ctx context.Context) podlife.Event {
			return podlife.Swept{ID: x.ID, Fail: stuck(c.Runtime.StopPodSandbox(ctx, x.ID), "KillPodSandbox", string(pod.UID))}
		})
	case podlife.RemoveSandbox:
		return call(c.CallTimeout, false, func(ctx context.Context) podlife.Event {
			return podlife.Swept{ID: x.ID, Fail: failure(c.Runtime.RemovePodSandbox(ctx, x.ID), "")}
		})
	case podlife.RemoveContainer:
		return call(c.CallTimeout, false, func(ctx context.Context) podlife.Event {
			return podlife.Swept{ID: x.ID, Fail: failure(c.Runtime.RemoveContainer(ctx, x.ID), "")}
		})
	case podlife.CreateContainer:
		create := call(c.CallTimeout, true, func(ctx context.Context) podlife.Event { return n.createContainer(ctx, &s, x) })
		if mountsImage(pod, s.Container(x.Container).Spec()) {
			return n.inTurn(&s, x, create)
		}
		return create
	case podlife.StartContainer:
		box := s.Container(x.Container).Cur.SandboxID
		return call(c.CallTimeout, true, func(ctx context.Context) podlife.Event {
			err := c.Runtime.StartContainer(ctx, x.ID)
			return podlife.ContainerStarted{Container: x.Container, ID: x.ID, Instance: n.look(ctx, x.ID, box), Fail: failure(err, "RunContainerError")}
		})
	case podlife.StopContainer:
		box := s.Container(x.Container).Cur.SandboxID
		return call(x.Grace+c.CallTimeout, false, func(ctx context.Context) podlife.Event {
			err := c.Runtime.StopContainer(ctx, x.ID, x.Grace)
			return podlife.ContainerStopped{
				Container: x.Container, ID: x.ID, Grace: x.Grace, Instance: n.look(ctx, x.ID, box), Fail: stuck(err, "KillContainer", x.Container),
			}
		})
	case podlife.RunHook:
		return n.hook(&s, x)
	case podlife.Observe:
		return call(c.CallTimeout, false, func(ctx context.Context) podlife.Event {
			o, err := c.Observer.Pod(ctx, pod.UID)
			return podlife.Observation{Observed: o, Asked: true, Fail: unseen(err)}
		})
	}
	panic("worker: unknown effect " + e.Key())
}

// pull binds a pull, which ends when the pod stops.
func (n *pod) pull(s *podlife.State, x podlife.PullImage) func() podlife.Event {
	pod, spec, conf := s.Given(), s.Container(x.Container).Spec(), n.config(s, s.SandboxAttempt)
	until := n.untilStop()
	return func() podlife.Event {
		return n.bounded(until, pullLimit, false, func(ctx context.Context) podlife.Event {
			sandbox, err := conf.get()
			if err != nil {
				return podlife.ImageReady{Container: x.Container, Fail: failure(err, "")} // the sandbox tells of it
			}
			ref, err := n.w.cfg.Images.Ensure(ctx, pod, spec, sandbox)
			return podlife.ImageReady{Container: x.Container, Ref: ref, Fail: failure(err, "ErrImagePull")}
		})
	}
}

// inTurn lets create wait for its turn among the containers with image volumes (sandboxConfig.images), or for the end of the pod.
func (n *pod) inTurn(s *podlife.State, x podlife.CreateContainer, create func() podlife.Event) func() podlife.Event {
	turn, until := n.config(s, s.SandboxAttempt).images, n.untilStop()
	return func() podlife.Event {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			return create()
		case <-until.Done(): // nothing was asked for
			return podlife.ContainerCreated{
				Container: x.Container, Attempt: x.Attempt, Fail: &podlife.Failure{Reason: "CreateContainerError", Message: "the pod ends"},
			}
		}
	}
}

// mountsImage tells whether a container has an image as a volume.
func mountsImage(pod *v1.Pod, c *v1.Container) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool {
		return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name && v.Image != nil })
	})
}

// bounded runs an effect with a deadline. With slot, it first waits for one of the slots that bound how hard the runtime works.
func (n *pod) bounded(parent context.Context, limit time.Duration, slot bool, f func(context.Context) podlife.Event) podlife.Event {
	if slot {
		select {
		case n.w.slots <- struct{}{}:
			defer func() { <-n.w.slots }()
		case <-n.w.ctx.Done():
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	return f(ctx)
}

func (n *pod) createSandbox(ctx context.Context, s *podlife.State, x podlife.CreateSandbox) podlife.Event {
	conf, err := n.config(s, x.Attempt).get()
	if err != nil {
		return podlife.SandboxCreated{Attempt: x.Attempt, Fail: failure(err, "")}
	}
	handler, err := n.w.cfg.Specs.Handler(s.Pod)
	if err != nil {
		return podlife.SandboxCreated{Attempt: x.Attempt, Fail: failure(err, "")}
	}
	id, err := n.w.cfg.Runtime.RunPodSandbox(ctx, conf, handler)
	if err != nil {
		f := failure(err, "")
		f.Message = whole(err)
		if why := n.w.cfg.NetworkProblem(); why != "" && !s.Pod.Spec.HostNetwork {
			f.Reason, f.Message = "NetworkNotReady", "network is not ready: "+why
		}
		return podlife.SandboxCreated{Attempt: x.Attempt, Fail: f}
	}
	info, err := n.w.cfg.Observer.Sandbox(ctx, id)
	if err != nil || !info.Ready {
		f := failure(err, "")
		if f == nil {
			f = &podlife.Failure{Message: "the sandbox ended as soon as it was made"}
		} else {
			f.Reason, f.Message = "FailedPodSandBoxStatus", "Unable to get pod sandbox status: "+whole(err)
		}
		f.Unsure = true // it exists, and will be found and swept
		return podlife.SandboxCreated{Attempt: x.Attempt, Fail: f}
	}
	return podlife.SandboxCreated{Attempt: x.Attempt, ID: id, IPs: info.IPs}
}

func (n *pod) createContainer(ctx context.Context, s *podlife.State, x podlife.CreateContainer) podlife.Event {
	fail := func(err error, reason string) podlife.Event {
		return podlife.ContainerCreated{Container: x.Container, Attempt: x.Attempt, Fail: failure(err, reason)}
	}
	box := n.config(s, s.SandboxAttempt)
	config := box.get
	if s.Container(x.Container).Kind == podlife.Ephemeral { // the sandbox's configuration was made without it
		config = func() (*runtimev1.PodSandboxConfig, error) {
			return n.w.cfg.Specs.Sandbox(s.Given(), s.SandboxAttempt, s.CgroupParent)
		}
	}
	sandbox, err := config()
	if err != nil {
		return fail(err, "CreateContainerConfigError")
	}
	spec, target := s.Container(x.Container).Spec(), ""
	if name := s.Container(x.Container).Target; name != "" {
		c := s.Container(name)
		if c == nil || c.Cur == nil {
			return fail(fmt.Errorf("unable to find target container %v", name), "CreateContainerConfigError")
		}
		target = c.Cur.ID
	}
	if s.Container(x.Container).Kind == podlife.Ephemeral && len(spec.VolumeMounts)+len(spec.VolumeDevices) > 0 {
		// Volumes that no other container mounts are not mounted yet.
		if err := n.w.cfg.Volumes.Mount(ctx, s.Given()); err != nil {
			return fail(errors.New(err.Error()), "CreateContainerConfigError")
		}
	}
	conf, err := n.w.cfg.Specs.Container(ctx, ContainerInput{
		Pod: s.Given(), Container: spec, Attempt: x.Attempt, ImageRef: x.ImageRef, PodIPs: s.PodIPs(), Target: target, Sandbox: sandbox,
	})
	if err != nil {
		return fail(err, "CreateContainerConfigError")
	}
	id, err := n.w.cfg.Runtime.CreateContainer(ctx, s.SandboxID, conf, sandbox)
	if err != nil {
		return fail(err, "CreateContainerError")
	}
	return podlife.ContainerCreated{Container: x.Container, Attempt: x.Attempt, Instance: &podlife.Instance{
		ID: id, SandboxID: s.SandboxID, Name: x.Container, Attempt: x.Attempt, Hash: podlife.SpecHash(spec),
		State: podlife.InstanceCreated, CreatedAt: time.Now(), Image: spec.Image,
	}}
}

// resize changes what it can, and then looks at the containers that it changed.
func (n *pod) resize(ctx context.Context, pod *v1.Pod, box string, x podlife.ResizePod) podlife.Event {
	out := podlife.Resized{Granted: x.Granted, Done: x.Changes}
	if n.w.cfg.Resizer == nil {
		return out
	}
	began := time.Now()
	var err error
	out.Done, err = n.w.cfg.Resizer.Resize(ctx, pod, x.Changes)
	n.w.cfg.Metrics.ResizeTried(time.Since(began), err)
	if out.Fail = failure(err, ""); err != nil {
		out.Fail.Message = whole(err)
	}
	seen := map[string]bool{}
	for _, ch := range out.Done {
		if seen[ch.ID] {
			continue
		}
		seen[ch.ID] = true
		if in := n.look(ctx, ch.ID, box); in != nil {
			out.Instances = append(out.Instances, in)
		}
	}
	return out
}

// look asks what has become of a container; nil when the runtime does not say.
func (n *pod) look(ctx context.Context, id, sandbox string) *podlife.Instance {
	in, err := n.w.cfg.Observer.Container(ctx, id, sandbox)
	if err != nil {
		return nil
	}
	return in
}

func (n *pod) hook(s *podlife.State, x podlife.RunHook) func() podlife.Event {
	c := s.Container(x.Container).Spec()
	h := c.Lifecycle.PostStart
	limit := pullLimit
	if x.Hook == podlife.PreStop {
		h, limit = c.Lifecycle.PreStop, x.Limit
	}
	pod, ip := s.Pod, first(s.PodIPs())
	return func() podlife.Event {
		return n.bounded(n.w.ctx, limit, false, func(ctx context.Context) podlife.Event {
			var err error
			if n.w.cfg.Hooks != nil {
				err = n.w.cfg.Hooks.RunHook(ctx, pod, c, x.ID, h, ip)
			}
			if err != nil {
				n.w.cfg.Log.Warn("a lifecycle hook failed", "pod", fullName(pod), "container", c.Name, "hook", x.Hook, "err", err)
			}
			return podlife.HookDone{Container: x.Container, ID: x.ID, Hook: x.Hook, Fail: failedHook(err)}
		})
	}
}

// failure says an error in podlife's words. reason is for errors that bring none of their own. Its message is text, since it gets into the
// pod's status: what a hook's command wrote and names of files may be any bytes, and many clients refuse a pod with a string that is no text.
func failure(err error, reason string) *podlife.Failure {
	if err == nil {
		return nil
	}
	var out podlife.Failure
	if f := (*podlife.Failure)(nil); errors.As(err, &f) {
		out = *f
		out.Reason = cmp.Or(out.Reason, reason)
	} else {
		code := status.Code(err)
		out = podlife.Failure{
			Reason: reason, Message: text(err),
			Unsure: cri.IsUnavailable(err) || cri.IsTaken(err) || code == codes.Canceled || code == codes.NotFound ||
				errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded),
		}
	}
	out.Message = legible(out.Message)
	return &out
}

// failedHook is the failure of a hook. Its message names the hook also where the runtime has a message of its own.
func failedHook(err error) *podlife.Failure {
	f := failure(err, "")
	if f != nil {
		f.Message = legible(err.Error())
	}
	return f
}

// legible has U+FFFD in the place of what is no text.
func legible(s string) string { return string([]rune(s)) }

// stuck is a failure that keeps a pod from its end, in upstream's words. A container or sandbox that the runtime does not know
// has ended.
func stuck(err error, action, target string) *podlife.Failure {
	f := failure(err, "")
	if f != nil && !cri.IsNotFound(err) {
		f.Reason = "FailedKillPod"
		f.Message = fmt.Sprintf("error killing pod: failed to %q for %q with %sError: %q", action, target, action, whole(err))
	}
	return f
}

// unseen is the failure of looking at a pod, in upstream's words. When the runtime is away it has no reason, so that users are
// not told: the node reports that.
func unseen(err error) *podlife.Failure {
	f := failure(err, "")
	if f != nil && !cri.IsUnavailable(err) && !errors.Is(err, context.Canceled) {
		f.Reason, f.Message = "FailedSync", "error determining status: "+whole(err)
	}
	return f
}

// grpcStatus is the runtime's own answer inside an error, or nil.
func grpcStatus(err error) *status.Status {
	var g interface{ GRPCStatus() *status.Status }
	if errors.As(err, &g) {
		return g.GRPCStatus()
	}
	return nil
}

// text is what users are told: the runtime's own message, without what adapters put before it.
func text(err error) string {
	if st := grpcStatus(err); st != nil {
		return st.Message()
	}
	return err.Error()
}

// whole is the runtime's answer including its code, which upstream shows in some messages; otherwise the error's text.
func whole(err error) string {
	if st := grpcStatus(err); st != nil {
		return st.Err().Error()
	}
	return err.Error()
}
