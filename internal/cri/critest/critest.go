// Package critest is the suite that every adapter of the cri port passes: what the kubelet relies on, no more. It drives
// real commands of a small shell (sh -c with sleep, echo, exit, trap), so that the fake and a real runtime do the same.
package critest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
)

// Env is one adapter under test.
type Env struct {
	Runtime cri.Runtime
	Image   string // present, has a shell and sleep
	Absent  string // an image that is nowhere
	LogRoot string // an empty folder for logs, which the runtime can write
	// HostNetwork makes sandboxes without a network of their own: where no CNI is configured.
	HostNetwork bool
	// CgroupParent of the sandboxes; empty leaves the choice to the runtime.
	CgroupParent string
	// Adjust may change a container's configuration to what the machine allows (oom_score_adj without the capability).
	Adjust func(*runtimev1.ContainerConfig)
}

// Run runs the suite. fresh is called once per test; what it returns is cleaned up by the suite.
func Run(t *testing.T, fresh func(t *testing.T) Env) {
	for _, x := range []struct {
		name string
		f    func(*testing.T, *pod)
	}{
		{"Lifecycle", lifecycle},
		{"ExitCodes", exitCodes},
		{"StopIgnoringTerm", stopIgnoringTerm},
		{"CannotStart", cannotStart},
		{"Idempotence", idempotence},
		{"NotFound", notFound},
		{"Filters", filters},
		{"Logs", logs},
		{"ExecSync", execSync},
		{"Events", events},
		{"Images", images},
		{"Deadline", deadline},
		{"NamesAreReserved", namesAreReserved},
	} {
		t.Run(x.name, func(t *testing.T) {
			env := fresh(t)
			p := &pod{t: t, env: env, rt: env.Runtime}
			p.uid = fmt.Sprintf("critest-%d", time.Now().UnixNano())
			t.Cleanup(p.cleanup)
			x.f(t, p)
		})
	}
}

// pod is a test's sandbox and what it makes in it.
type pod struct {
	t       *testing.T
	env     Env
	rt      cri.Runtime
	uid     string
	config  *runtimev1.PodSandboxConfig
	sandbox string
}

func (p *pod) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	p.t.Cleanup(cancel)
	return ctx
}

func (p *pod) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pod) cleanup() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all, err := p.rt.ListPodSandbox(ctx, &runtimev1.PodSandboxFilter{LabelSelector: map[string]string{"critest": p.uid}})
	if err != nil {
		p.t.Errorf("cannot list what to clean up: %v", err)
	}
	for _, s := range all {
		if err := p.rt.StopPodSandbox(ctx, s.GetId()); err != nil {
			p.t.Errorf("cannot stop sandbox: %v", err)
		}
		if err := p.rt.RemovePodSandbox(ctx, s.GetId()); err != nil {
			p.t.Errorf("cannot remove sandbox: %v", err)
		}
	}
}

func (p *pod) sandboxConfig(attempt uint32) *runtimev1.PodSandboxConfig {
	net := runtimev1.NamespaceMode_POD
	if p.env.HostNetwork {
		net = runtimev1.NamespaceMode_NODE
	}
	return &runtimev1.PodSandboxConfig{
		Metadata:     &runtimev1.PodSandboxMetadata{Name: "p-" + p.uid, Namespace: "critest", Uid: p.uid, Attempt: attempt},
		LogDirectory: filepath.Join(p.env.LogRoot, p.uid),
		Labels:       map[string]string{"critest": p.uid},
		Annotations:  map[string]string{"note": "kept"},
		Linux: &runtimev1.LinuxPodSandboxConfig{
			CgroupParent: p.env.CgroupParent,
			SecurityContext: &runtimev1.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimev1.NamespaceOption{Network: net, Pid: runtimev1.NamespaceMode_CONTAINER},
			},
		},
	}
}

func (p *pod) run() {
	p.t.Helper()
	p.config = p.sandboxConfig(0)
	p.must(os.MkdirAll(p.config.LogDirectory, 0o755))
	id, err := p.rt.RunPodSandbox(p.ctx(), p.config, "")
	p.must(err)
	p.sandbox = id
}

func (p *pod) containerConfig(name string, attempt uint32, cmd ...string) *runtimev1.ContainerConfig {
	c := &runtimev1.ContainerConfig{
		Metadata:    &runtimev1.ContainerMetadata{Name: name, Attempt: attempt},
		Image:       &runtimev1.ImageSpec{Image: p.env.Image},
		Command:     cmd,
		Labels:      map[string]string{"critest": p.uid, "name": name},
		Annotations: map[string]string{"note": "kept"},
		LogPath:     fmt.Sprintf("%s_%d.log", name, attempt),
		Linux:       &runtimev1.LinuxContainerConfig{},
	}
	if p.env.Adjust != nil {
		p.env.Adjust(c)
	}
	return c
}

func (p *pod) create(name string, attempt uint32, cmd ...string) string {
	p.t.Helper()
	id, err := p.rt.CreateContainer(p.ctx(), p.sandbox, p.containerConfig(name, attempt, cmd...), p.config)
	p.must(err)
	return id
}

func (p *pod) start(name string, cmd ...string) string {
	p.t.Helper()
	id := p.create(name, 0, cmd...)
	p.must(p.rt.StartContainer(p.ctx(), id))
	return id
}

func (p *pod) status(id string) *runtimev1.ContainerStatus {
	p.t.Helper()
	st, err := p.rt.ContainerStatus(p.ctx(), id)
	p.must(err)
	return st
}

// ended waits until the container has exited. It asks again and again: events are what another test is about.
func (p *pod) ended(id string) *runtimev1.ContainerStatus {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if st := p.status(id); st.GetState() == runtimev1.ContainerState_CONTAINER_EXITED {
			return st
		}
	}
	p.t.Fatalf("container %s did not end", id)
	return nil
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func logText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
