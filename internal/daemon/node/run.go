package node

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/containergc"
	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/kubelet/imagegc"
	"podo.dev/podo/internal/kubelet/images"
	"podo.dev/podo/internal/kubelet/images/pulled"
	"podo.dev/podo/internal/kubelet/logs"
	"podo.dev/podo/internal/kubelet/metrics"
	"podo.dev/podo/internal/kubelet/mirror"
	nodestatus "podo.dev/podo/internal/kubelet/node"
	"podo.dev/podo/internal/kubelet/oom"
	"podo.dev/podo/internal/kubelet/podcert"
	"podo.dev/podo/internal/kubelet/probe"
	kubeletserver "podo.dev/podo/internal/kubelet/server"
	"podo.dev/podo/internal/kubelet/shutdown"
	"podo.dev/podo/internal/kubelet/spec"
	"podo.dev/podo/internal/kubelet/status"
	"podo.dev/podo/internal/kubelet/token"
	"podo.dev/podo/internal/kubelet/userns"
	"podo.dev/podo/internal/kubelet/volume"
)

// run is one run of the kubelet: its modules, which are made anew each time, and what they share.
type run struct {
	c       Config
	cluster Cluster
	client  client.Client
	bell    kubeletserver.Bell // rings whenever something has happened to a container

	recorder record.EventRecorder
	counts   *metrics.Metrics
	capacity v1.ResourceList
	allocate v1.ResourceList
	machine  cm.Machine

	node    *nodestatus.Manager
	status  *status.Reporter
	cgroups *cm.Manager
	tokens  *token.Manager
	certs   *podcert.Manager
	volumes *volume.Manager
	users   *userns.Manager
	noUsers error // why no pod can have a user namespace
	specs   *spec.Builder
	images  *images.Manager
	pulled  *pulled.Records
	probes  *probe.Manager
	mirrors *mirror.Keeper
	evict   *eviction.Manager
	down    *shutdown.Manager
	gc      *containergc.Collector
	imageGC *imagegc.Collector
	rotator *logs.Rotator
	server  *kubeletserver.Server
	kubelet *kubelet.Kubelet
}

// Run runs the kubelet and its modules until ctx ends or one of them fails. It calls ready when the node is Ready and every pod
// has its worker.
func Run(ctx context.Context, c Config, cl Cluster, ready func() error) error {
	if err := c.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &run{c: c, cluster: cl, client: cl.Client}
	k.recorder = events.New(ctx, k.client, "kubelet", c.Name, c.Log)
	nodeReady := make(chan struct{})
	if err := k.build(ctx, sync.OnceFunc(func() { close(nodeReady) })); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	ended := make(chan error, 16)
	start := func(name string, run func(context.Context, func()) error, ready func()) {
		wg.Go(func() {
			if err := run(ctx, ready); err != nil {
				ended <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	nothing := func() {}
	working := make(chan struct{})
	start("pods' limit", k.limitPods, nothing)
	start("node status", k.node.Run, nothing)
	start("status manager", k.status.Run, nothing)
	start("volume manager", k.volumes.Run, nothing)
	start("tokens", k.tokens.Run, nothing)
	start("pod-certificates", k.certs.Run, nothing)
	start("mirror pods", k.mirrors.Run, nothing)
	start("clock", k.followClock, nothing)
	start("kubelet", k.kubelet.Run, sync.OnceFunc(func() { close(working) }))
	start("server", k.server.Run, nothing)
	start("container collector", k.gc.Run, nothing)
	start("image collector", k.imageGC.Run, nothing)
	start("eviction manager", k.evict.Run, nothing)
	start("shutdown", k.down.Run, nothing)
	start("log rotation", k.rotator.Run, nothing)
	start("out of memory watcher", oom.Watcher{Host: c.Host, NodeEvent: k.nodeEvent, Log: k.log().of("oom")}.Run, nothing)
	for _, stage := range []chan struct{}{working, nodeReady} {
		select {
		case <-stage:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	if err := ready(); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (k *run) build(ctx context.Context, nodeReady func()) error {
	for _, step := range []func() error{
		k.buildResources,
		func() error { return k.buildNode(nodeReady) },
		k.buildStatus,
		func() error { return k.buildPodModules(ctx) },
		func() error { return k.buildProbes(ctx) },
		k.buildKubelet,
		k.buildServer,
		k.buildHousekeeping,
		k.buildEviction,
		k.buildShutdown,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// followClock tells who goes by the clock on the wall that it was set, since timers do not notice.
func (k *run) followClock(ctx context.Context, ready func()) error {
	ready()
	linux.WhenClockSet(ctx, func() {
		k.tokens.ClockSet()
		k.certs.ClockSet()
	}, func(err error) { k.log().of("clock").Warn("changes of the clock will be noticed late", "err", err) })
	return nil
}

func (k *run) log() logger { return logger{k.c.Log} }
