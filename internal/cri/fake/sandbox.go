package fake

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type sandbox struct {
	id      string
	config  *runtimev1.PodSandboxConfig
	handler string
	ready   bool
	ip      string
	created time.Time
}

func sandboxName(m *runtimev1.PodSandboxMetadata) string {
	return fmt.Sprintf("%s_%s_%s_%d", m.GetName(), m.GetNamespace(), m.GetUid(), m.GetAttempt())
}

// RunPodSandbox makes a sandbox; its name with its attempt is reserved until it is removed.
func (r *Runtime) RunPodSandbox(ctx context.Context, config *runtimev1.PodSandboxConfig, handler string) (string, error) {
	after, err := r.enter(ctx, "RunPodSandbox", config.GetMetadata().GetName())
	if r.later(err, sandboxName(config.GetMetadata()), func() { r.runPodSandbox(config, handler) }) || err != nil { //nolint:errcheck // nobody listens
		return "", err
	}
	id, err := r.runPodSandbox(config, handler)
	if err := after(err); err != nil {
		return "", err
	}
	return id, nil
}

func (r *Runtime) runPodSandbox(config *runtimev1.PodSandboxConfig, handler string) (string, error) {
	r.mu.Lock()
	name := sandboxName(config.GetMetadata())
	if r.reserved[name] {
		r.mu.Unlock()
		return "", isReserved("sandbox", name, "one that is being made")
	}
	for _, s := range r.sandboxes {
		if sandboxName(s.config.GetMetadata()) == name {
			r.mu.Unlock()
			return "", isReserved("sandbox", name, s.id)
		}
	}
	s := &sandbox{id: r.id("sb"), config: config, handler: handler, ready: true, created: time.Now()}
	if config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() != runtimev1.NamespaceMode_NODE {
		s.ip = r.address(name)
	}
	r.sandboxes[s.id] = s
	r.mu.Unlock()
	if d := config.GetLogDirectory(); d != "" {
		os.MkdirAll(d, 0o755) //nolint:errcheck // logs are best effort here
	}
	r.publish(s.id, s.id, runtimev1.ContainerEventType_CONTAINER_CREATED_EVENT)
	r.publish(s.id, s.id, runtimev1.ContainerEventType_CONTAINER_STARTED_EVENT)
	return s.id, nil
}

// address is one that no other sandbox has, and that depends on the sandbox's name rather than on the order of calls.
func (r *Runtime) address(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name)) //nolint:errcheck // a hash never fails
	for n := h.Sum32() % 60000; ; n = (n + 1) % 60000 {
		ip := fmt.Sprintf("10.88.%d.%d", n/250, 2+n%250)
		taken := false
		for _, s := range r.sandboxes {
			taken = taken || (s.ready && s.ip == ip)
		}
		if !taken {
			return ip
		}
	}
}

// StopPodSandbox kills what runs in it and takes its network down.
func (r *Runtime) StopPodSandbox(ctx context.Context, id string) error {
	after, err := r.enter(ctx, "StopPodSandbox", id)
	if err != nil {
		return err
	}
	r.haltSandbox(id)
	return after(nil)
}

func (r *Runtime) haltSandbox(id string) {
	r.mu.Lock()
	s := r.sandboxes[id]
	var inside []*container
	for _, c := range r.containers {
		if c.sandbox == id {
			inside = append(inside, c)
		}
	}
	r.mu.Unlock()
	if s == nil {
		return
	}
	// The sandbox first: who sees its containers end sees why.
	r.mu.Lock()
	was := s.ready
	s.ready = false
	r.mu.Unlock()
	for _, c := range inside {
		r.kill(c)
	}
	if was {
		r.publish(id, id, runtimev1.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
}

// RemovePodSandbox removes it and its containers.
func (r *Runtime) RemovePodSandbox(ctx context.Context, id string) error {
	after, err := r.enter(ctx, "RemovePodSandbox", id)
	if err != nil {
		return err
	}
	r.haltSandbox(id)
	r.mu.Lock()
	for cid, c := range r.containers {
		if c.sandbox == id {
			delete(r.containers, cid)
		}
	}
	_, there := r.sandboxes[id]
	delete(r.sandboxes, id)
	r.mu.Unlock()
	if there {
		r.publish(id, id, runtimev1.ContainerEventType_CONTAINER_DELETED_EVENT)
	}
	return after(nil)
}

// PodSandboxStatus tells one sandbox.
func (r *Runtime) PodSandboxStatus(ctx context.Context, id string) (*runtimev1.PodSandboxStatusResponse, error) {
	after, err := r.enter(ctx, "PodSandboxStatus", id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[id]
	if s == nil {
		return nil, notFound("sandbox", id)
	}
	return &runtimev1.PodSandboxStatusResponse{Status: s.status()}, after(nil)
}

func (s *sandbox) state() runtimev1.PodSandboxState {
	if s.ready {
		return runtimev1.PodSandboxState_SANDBOX_READY
	}
	return runtimev1.PodSandboxState_SANDBOX_NOTREADY
}

func (s *sandbox) status() *runtimev1.PodSandboxStatus {
	return &runtimev1.PodSandboxStatus{
		Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created.UnixNano(),
		Network: &runtimev1.PodSandboxNetworkStatus{Ip: s.ip}, Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(),
		RuntimeHandler: s.handler,
	}
}

// ListPodSandbox lists by id, state and labels.
func (r *Runtime) ListPodSandbox(ctx context.Context, f *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error) {
	after, err := r.enter(ctx, "ListPodSandbox", "")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runtimev1.PodSandbox
	for _, id := range sortedKeys(r.sandboxes) {
		s := r.sandboxes[id]
		if (f.GetId() != "" && f.GetId() != id) || (f.GetState() != nil && f.GetState().GetState() != s.state()) ||
			!selects(f.GetLabelSelector(), s.config.GetLabels()) {
			continue
		}
		out = append(out, &runtimev1.PodSandbox{
			Id: id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created.UnixNano(),
			Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
		})
	}
	return out, after(nil)
}

// PortForward has nowhere to forward to.
func (r *Runtime) PortForward(ctx context.Context, req *runtimev1.PortForwardRequest) (string, error) {
	return r.stream(ctx, "PortForward", req.GetPodSandboxId(), func() bool { return r.sandboxes[req.GetPodSandboxId()] != nil })
}

func (r *Runtime) stream(ctx context.Context, op Op, id string, there func() bool) (string, error) {
	after, err := r.enter(ctx, op, id)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !there() {
		return "", notFound("container or sandbox", id)
	}
	return "http://127.0.0.1:0/" + string(op), after(nil)
}

func selects(want, have map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}
