package fake

import (
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func now() int64 { return time.Now().UnixNano() }

// Info is a container or sandbox as tests see it.
type Info struct {
	ID, Pod, Name, Sandbox string
	Attempt                uint32
	Running                bool
	ExitCode               int32
}

// Containers lists all containers, oldest first.
func (r *Runtime) Containers() []Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Info
	for _, id := range sortedKeys(r.containers) {
		c := r.containers[id]
		i := Info{ID: id, Name: c.config.GetMetadata().GetName(), Attempt: c.config.GetMetadata().GetAttempt(), Sandbox: c.sandbox, ExitCode: c.code}
		i.Running = c.state == runtimev1.ContainerState_CONTAINER_RUNNING
		if s := r.sandboxes[c.sandbox]; s != nil {
			i.Pod = s.config.GetMetadata().GetName()
		}
		out = append(out, i)
	}
	return out
}

// Sandboxes lists all sandboxes, oldest first; Running says ready.
func (r *Runtime) Sandboxes() []Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Info
	for _, id := range sortedKeys(r.sandboxes) {
		s := r.sandboxes[id]
		out = append(out, Info{ID: id, Pod: s.config.GetMetadata().GetName(), Attempt: s.config.GetMetadata().GetAttempt(), Running: s.ready})
	}
	return out
}

func (r *Runtime) running(pod, name string) *container {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range sortedKeys(r.containers) {
		c := r.containers[id]
		s := r.sandboxes[c.sandbox]
		if s != nil && s.config.GetMetadata().GetName() == pod && c.config.GetMetadata().GetName() == name &&
			c.state == runtimev1.ContainerState_CONTAINER_RUNNING {
			return c
		}
	}
	return nil
}

// Kill ends a pod's running container with a code, as from outside; oom marks it as the kernel's doing.
func (r *Runtime) Kill(pod, name string, code int32, oom bool) bool {
	c := r.running(pod, name)
	if c == nil {
		return false
	}
	r.mu.Lock()
	c.forced, c.oom = &code, oom
	r.mu.Unlock()
	r.kill(c)
	return true
}

// KillSandbox ends a pod's sandboxes and all in them, as from outside.
func (r *Runtime) KillSandbox(pod string) {
	for _, s := range r.Sandboxes() {
		if s.Pod == pod {
			r.haltSandbox(s.ID)
		}
	}
}

// Vanish makes the runtime forget a pod's containers and sandboxes without a word, as when its data is lost.
func (r *Runtime) Vanish(pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.sandboxes {
		if s.config.GetMetadata().GetName() != pod {
			continue
		}
		for cid, c := range r.containers {
			if c.sandbox == id {
				delete(r.containers, cid)
				select {
				case <-c.killed:
				default:
					close(c.killed)
				}
			}
		}
		delete(r.sandboxes, id)
	}
}
