package fake

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type container struct {
	id       string
	sandbox  string
	config   *runtimev1.ContainerConfig
	state    runtimev1.ContainerState
	imageID  string
	created  time.Time
	started  time.Time
	finished time.Time
	code     int32
	reason   string
	message  string
	logPath  string
	term     chan struct{} // closed by the first TERM
	killed   chan struct{} // closed by the first KILL
	ended    chan struct{} // closed when it is over
	oom      bool
	forced   *int32 // the exit code that a test wants
}

// CreateContainer makes a container; its name with its attempt is reserved in its pod until it is removed.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, config *runtimev1.ContainerConfig, _ *runtimev1.PodSandboxConfig) (string, error) {
	if slices.ContainsFunc(config.GetMounts(), func(m *runtimev1.Mount) bool { return m.GetImage() != nil }) {
		done, ok := r.mountImages(sandboxID)
		if !ok {
			return "", status.Error(codes.Unknown, "failed to mount image volume: ImageVolumeMountFailed: invalid argument")
		}
		defer done()
	}
	after, err := r.enter(ctx, "CreateContainer", config.GetMetadata().GetName())
	if r.later(err, containerName(sandboxID, config.GetMetadata()), func() { r.createContainer(sandboxID, config) }) || err != nil { //nolint:errcheck // nobody listens
		return "", err
	}
	id, err := r.createContainer(sandboxID, config)
	if err := after(err); err != nil {
		return "", err
	}
	return id, nil
}

// mountImages begins to mount images for a container. As containerd, it cannot for two of one sandbox at once, and then for none any more.
func (r *Runtime) mountImages(sandboxID string) (done func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mounting[sandboxID]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.mounting[sandboxID] == 1 {
			delete(r.mounting, sandboxID)
		}
	}, r.mounting[sandboxID] == 1
}

func containerName(sandboxID string, m *runtimev1.ContainerMetadata) string {
	return fmt.Sprintf("%s_%s_%d", sandboxID, m.GetName(), m.GetAttempt())
}

func (r *Runtime) createContainer(sandboxID string, config *runtimev1.ContainerConfig) (string, error) {
	r.mu.Lock()
	s := r.sandboxes[sandboxID]
	if s == nil {
		r.mu.Unlock()
		return "", notFound("sandbox", sandboxID)
	}
	if !s.ready {
		r.mu.Unlock()
		return "", status.Errorf(codes.Unknown, "sandbox %q is not running", sandboxID)
	}
	img := r.findImage(config.GetImage().GetImage())
	if img == nil {
		r.mu.Unlock()
		return "", notFound("image", config.GetImage().GetImage())
	}
	m := config.GetMetadata()
	uid := s.config.GetMetadata().GetUid()
	for _, c := range r.containers {
		if o := r.sandboxes[c.sandbox]; o != nil && o.config.GetMetadata().GetUid() == uid &&
			c.config.GetMetadata().GetName() == m.GetName() && c.config.GetMetadata().GetAttempt() == m.GetAttempt() {
			r.mu.Unlock()
			return "", isReserved("container", m.GetName(), c.id)
		}
	}
	if r.reserved[containerName(sandboxID, m)] {
		r.mu.Unlock()
		return "", isReserved("container", m.GetName(), "one that is being made")
	}
	c := &container{
		id: r.id("c"), sandbox: sandboxID, config: proto.Clone(config).(*runtimev1.ContainerConfig), state: runtimev1.ContainerState_CONTAINER_CREATED,
		created: time.Now(), imageID: img.id, term: make(chan struct{}), killed: make(chan struct{}), ended: make(chan struct{}),
	}
	if d, p := s.config.GetLogDirectory(), config.GetLogPath(); d != "" && p != "" {
		c.logPath = filepath.Join(d, p)
		os.MkdirAll(filepath.Dir(c.logPath), 0o755) //nolint:errcheck // logs are best effort here
	}
	r.containers[c.id] = c
	r.mu.Unlock()
	r.publish(sandboxID, c.id, runtimev1.ContainerEventType_CONTAINER_CREATED_EVENT)
	return c.id, nil
}

// StartContainer begins the program. A command that does not exist ends the container with 128 and StartError.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	r.mu.Lock()
	subject := id
	if c := r.containers[id]; c != nil {
		subject = c.config.GetMetadata().GetName()
	}
	r.mu.Unlock()
	after, err := r.enter(ctx, "StartContainer", subject)
	if err != nil {
		return err
	}
	r.mu.Lock()
	c := r.containers[id]
	switch {
	case c == nil:
		r.mu.Unlock()
		return notFound("container", id)
	case c.state != runtimev1.ContainerState_CONTAINER_CREATED:
		r.mu.Unlock()
		return after(status.Errorf(codes.Unknown, "container %q is in %s state", id, c.state))
	case !r.sandboxes[c.sandbox].ready:
		r.mu.Unlock()
		return after(status.Errorf(codes.Unknown, "sandbox container %q is not running", c.sandbox))
	}
	argv := slices.Concat(c.config.GetCommand(), c.config.GetArgs())
	if img := r.findImage(c.config.GetImage().GetImage()); len(argv) == 0 && img != nil {
		argv = img.cmd
	}
	prog, perr := parse(argv)
	if perr != nil {
		c.state, c.code, c.reason, c.message = runtimev1.ContainerState_CONTAINER_EXITED, 128, "StartError", perr.Error()
		c.finished = time.Now()
		close(c.ended)
		r.mu.Unlock()
		r.publish(c.sandbox, id, runtimev1.ContainerEventType_CONTAINER_STOPPED_EVENT)
		return after(status.Error(codes.Unknown, perr.Error()))
	}
	c.state, c.started = runtimev1.ContainerState_CONTAINER_RUNNING, time.Now()
	r.mu.Unlock()
	r.publish(c.sandbox, id, runtimev1.ContainerEventType_CONTAINER_STARTED_EVENT)
	go r.live(c, prog)
	return after(nil)
}

func (r *Runtime) live(c *container, prog *program) {
	code := prog.run(func(line, file string) {
		if file == "" {
			appendLog(c.logPath, line)
			return
		}
		for _, m := range c.config.GetMounts() {
			if m.GetContainerPath() == file {
				os.WriteFile(m.GetHostPath(), []byte(line+"\n"), 0o644) //nolint:errcheck // as a shell would
			}
		}
	}, c.term, c.killed)
	r.mu.Lock()
	c.state, c.finished, c.code = runtimev1.ContainerState_CONTAINER_EXITED, time.Now(), code
	if c.forced != nil {
		c.code = *c.forced
	}
	switch {
	case c.oom:
		c.reason = "OOMKilled"
	case c.code == 0:
		c.reason = "Completed"
	default:
		c.reason = "Error"
	}
	close(c.ended)
	_, there := r.containers[c.id]
	r.mu.Unlock()
	if there {
		r.publish(c.sandbox, c.id, runtimev1.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
}

// signal closes ch once.
func (r *Runtime) signal(ch chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-ch:
	default:
		close(ch)
	}
}

// kill ends a running container and waits for it.
func (r *Runtime) kill(c *container) {
	r.mu.Lock()
	running := c.state == runtimev1.ContainerState_CONTAINER_RUNNING
	r.mu.Unlock()
	if running {
		r.signal(c.killed)
		<-c.ended
	}
}

// StopContainer sends TERM and kills after grace. When its caller gives up first nothing is killed.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	after, err := r.enter(ctx, "StopContainer", id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	c := r.containers[id]
	running := c != nil && c.state == runtimev1.ContainerState_CONTAINER_RUNNING
	r.mu.Unlock()
	if !running {
		return after(nil)
	}
	if grace > 0 {
		r.signal(c.term)
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-c.ended:
			return after(nil)
		case <-t.C:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	r.kill(c)
	return after(nil)
}

// RemoveContainer kills it if need be.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	after, err := r.enter(ctx, "RemoveContainer", id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	c := r.containers[id]
	r.mu.Unlock()
	if c == nil {
		return after(nil)
	}
	r.kill(c)
	r.mu.Lock()
	delete(r.containers, id)
	r.mu.Unlock()
	r.publish(c.sandbox, id, runtimev1.ContainerEventType_CONTAINER_DELETED_EVENT)
	return after(nil)
}

// ListContainers lists by id, state, sandbox and labels.
func (r *Runtime) ListContainers(ctx context.Context, f *runtimev1.ContainerFilter) ([]*runtimev1.Container, error) {
	after, err := r.enter(ctx, "ListContainers", "")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runtimev1.Container
	for _, id := range sortedKeys(r.containers) {
		c := r.containers[id]
		if (f.GetId() != "" && f.GetId() != id) || (f.GetState() != nil && f.GetState().GetState() != c.state) ||
			(f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.sandbox) || !selects(f.GetLabelSelector(), c.config.GetLabels()) {
			continue
		}
		out = append(out, &runtimev1.Container{
			Id: id, PodSandboxId: c.sandbox, Metadata: c.config.GetMetadata(), Image: c.config.GetImage(), ImageRef: c.imageID, State: c.state,
			CreatedAt: c.created.UnixNano(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), ImageId: c.imageID,
		})
	}
	return out, after(nil)
}

// ContainerStatus tells one container.
func (r *Runtime) ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error) {
	after, err := r.enter(ctx, "ContainerStatus", id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return nil, notFound("container", id)
	}
	return r.status(c), after(nil)
}

func (r *Runtime) status(c *container) *runtimev1.ContainerStatus {
	name := c.config.GetImage().GetImage()
	if img := r.findImage(name); img != nil {
		name = img.name
	}
	return &runtimev1.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state, CreatedAt: c.created.UnixNano(), StartedAt: nano(c.started),
		FinishedAt: nano(c.finished), ExitCode: c.code, Image: &runtimev1.ImageSpec{Image: name}, ImageRef: name + "@" + c.imageID, Reason: c.reason,
		Message: c.message, Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(),
		LogPath: c.logPath, ImageId: c.imageID,
	}
}

func nano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// UpdateContainerResources keeps the numbers.
func (r *Runtime) UpdateContainerResources(ctx context.Context, id string, res *runtimev1.ContainerResources) error {
	return r.about(ctx, "UpdateContainerResources", id, func(c *container) error {
		if c.config.Linux == nil {
			c.config.Linux = &runtimev1.LinuxContainerConfig{}
		}
		c.config.Linux.Resources = res.GetLinux()
		return nil
	})
}

// ReopenContainerLog needs a running container; lines go to whatever file has the path.
func (r *Runtime) ReopenContainerLog(ctx context.Context, id string) error {
	return r.about(ctx, "ReopenContainerLog", id, func(c *container) error {
		if c.state != runtimev1.ContainerState_CONTAINER_RUNNING {
			return status.Error(codes.FailedPrecondition, "container is not running")
		}
		return nil
	})
}

func (r *Runtime) about(ctx context.Context, op Op, id string, do func(*container) error) error {
	after, err := r.enter(ctx, op, id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return notFound("container", id)
	}
	return after(do(c))
}
