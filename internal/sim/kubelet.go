package sim

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/admit"
	"podo.dev/podo/internal/kubelet/containergc"
	"podo.dev/podo/internal/kubelet/hook"
	"podo.dev/podo/internal/kubelet/images"
	"podo.dev/podo/internal/kubelet/kubelettest"
	"podo.dev/podo/internal/kubelet/node"
	"podo.dev/podo/internal/kubelet/objects"
	"podo.dev/podo/internal/kubelet/source"
	"podo.dev/podo/internal/kubelet/status"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/release"
)

// Kubelet is the real one over the machine's fake runtime: source, sync loop, workers, PLEG, status, node status, images, admission
// and container collector are the product's; volumes, cgroups and container specs are fakes, checkpoints are in the machine's memory.
func Kubelet(d KubeletDeps) (component.Component, error) {
	return component.Func("kubelet-"+d.Node, func(ctx context.Context, ready func()) error {
		a, err := newAgent(d)
		if err != nil {
			return err
		}
		return a.run(ctx, ready)
	}), nil
}

// agent is one run of a kubelet.
type agent struct {
	d       KubeletDeps
	node    *node.Manager
	status  *status.Reporter
	gc      *containergc.Collector
	kubelet *kubelet.Kubelet
}

func newAgent(d KubeletDeps) (a *agent, err error) {
	a = &agent{d: d}
	log := slog.New(slog.DiscardHandler)
	if a.status, err = status.New(status.Config{Client: d.Client, Append: d.Append, Log: log}); err != nil {
		return nil, err
	}
	a.node, err = node.New(node.Config{
		Client: d.Client, Runtime: d.Machine.Runtime, Log: log, Name: d.Node, IPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Port: 10250,
		Version: release.Kubernetes, PodCIDR: netip.MustParsePrefix("10.42.0.0/24"), Facts: node.Facts{MachineID: d.Node, BootID: d.Node, Kernel: "6.18", OSImage: "sim"},
		Capacity: Allocatable(), Allocatable: Allocatable(),
		Problems: func() []string {
			if err := a.kubelet.Healthy(); err != nil {
				return []string{err.Error()}
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	event := func(*v1.Pod, string, string, string, string) {}
	imgs, err := images.New(images.Config{Runtime: d.Machine.Runtime, Secrets: objects.New(d.World.View), Event: event, Append: d.Append, Logger: log})
	if err != nil {
		return nil, err
	}
	a.kubelet, err = kubelet.New(kubelet.Config{
		Node: d.Node, Sources: []kubelet.Source{source.API{View: d.World.View, Node: d.Node, Log: log}},
		Checkpoints: &d.Machine.checkpoints, Reporter: a.status,
		Config: worker.Config{
			Life: podlife.Defaults(), Runtime: d.Machine.Runtime,
			Admission: admit.Checker{Node: a.thisNode, Rules: admit.Rules{OS: "linux"}},
			Volumes:   &d.Machine.volumes, Images: imgs, Cgroups: &d.Machine.cgroups, Specs: kubelettest.Specs{Node: d.Node},
			Hooks: hook.New(d.Machine.Runtime, event), Event: event, Gone: func(*v1.Pod) { a.gc.Poke() }, Append: d.Append, Log: log,
		},
	})
	if err != nil {
		return nil, err
	}
	a.gc, err = containergc.New(containergc.Config{
		Runtime: d.Machine.Runtime, Log: log, Node: d.Node, Pods: a.kubelet.Collectable, LogRoot: d.Dir, Policy: containergc.DefaultPolicy(),
	})
	return a, err
}

func (a *agent) thisNode() *v1.Node {
	if e := a.d.World.View.Snapshot().Get(nodeKind, "", a.d.Node); e != nil {
		return e.Object.(*v1.Node)
	}
	return nil
}

// run is the kubelet's part of the composition root: all modules until ctx ends or one of them fails.
func (a *agent) run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	ended := make(chan error, 4)
	start := func(name string, run func(context.Context, func()) error, ready func()) {
		wg.Go(func() {
			if err := run(ctx, ready); err != nil {
				ended <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	start("node status", a.node.Run, func() {})
	start("status manager", a.status.Run, func() {})
	start("kubelet", a.kubelet.Run, ready)
	start("container collector", a.gc.Run, func() {})
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}
