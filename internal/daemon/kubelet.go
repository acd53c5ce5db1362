package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/kubelet"
	"podo.dev/podo/internal/kubelet/admit"
	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/config"
	"podo.dev/podo/internal/kubelet/containergc"
	"podo.dev/podo/internal/kubelet/downward"
	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/kubelet/hook"
	"podo.dev/podo/internal/kubelet/imagegc"
	"podo.dev/podo/internal/kubelet/images"
	"podo.dev/podo/internal/kubelet/images/pulled"
	"podo.dev/podo/internal/kubelet/logs"
	"podo.dev/podo/internal/kubelet/mirror"
	nodestatus "podo.dev/podo/internal/kubelet/node"
	"podo.dev/podo/internal/kubelet/objects"
	"podo.dev/podo/internal/kubelet/oom"
	"podo.dev/podo/internal/kubelet/podcert"
	"podo.dev/podo/internal/kubelet/probe"
	"podo.dev/podo/internal/kubelet/resize"
	kubeletserver "podo.dev/podo/internal/kubelet/server"
	"podo.dev/podo/internal/kubelet/source"
	"podo.dev/podo/internal/kubelet/spec"
	"podo.dev/podo/internal/kubelet/state"
	"podo.dev/podo/internal/kubelet/status"
	"podo.dev/podo/internal/kubelet/token"
	"podo.dev/podo/internal/kubelet/volume"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// kubernetesVersion is what the node says it runs.
const kubernetesVersion = "v1.37.2"

// cluster is how a kubelet meets the rest of its cluster: in process on a server, over HTTP on an agent. It is all that is different
// between the two.
type cluster struct {
	client  client.Client
	view    *view.View
	podCIDR netip.Prefix // what the node registers with; none: the cluster gives it one

	serving      *tls.Config // of the kubelet's own server: its certificate, and who vouches for its clients
	authenticate func(*http.Request) (user.Info, bool, error)
	authorize    func(ctx context.Context, u user.Info, verb, subresource, path string) (bool, error)
	metrics      []prometheus.Collector // of how the node keeps its place in the cluster
}

// kubeletRun is one run of the kubelet: its modules, made anew each time, and what they share.
type kubeletRun struct {
	p       *process
	cluster cluster
	client  client.Client
	bell    kubeletserver.Bell // rings whenever something happened to a container

	recorder record.EventRecorder
	capacity v1.ResourceList
	allocate v1.ResourceList
	machine  cm.Machine

	node    *nodestatus.Manager
	status  *status.Reporter
	cgroups *cm.Manager
	tokens  *token.Manager
	certs   *podcert.Manager
	volumes *volume.Manager
	specs   *spec.Builder
	images  *images.Manager
	pulled  *pulled.Records
	probes  *probe.Manager
	mirrors *mirror.Keeper
	evict   *eviction.Manager
	gc      *containergc.Collector
	imageGC *imagegc.Collector
	rotator *logs.Rotator
	server  *kubeletserver.Server
	kubelet *kubelet.Kubelet
}

// runKubelet runs the kubelet and its modules until ctx ends or one of them fails. It calls ready when the node is Ready and every
// pod has its worker.
func (p *process) runKubelet(ctx context.Context, c cluster, ready func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &kubeletRun{p: p, cluster: c, client: c.client}
	k.recorder = events.New(ctx, k.client, "kubelet", p.cfg.NodeName, p.log)
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
	start("node status", k.node.Run, nothing)
	start("status manager", k.status.Run, nothing)
	start("volume manager", k.volumes.Run, nothing)
	start("tokens", k.tokens.Run, nothing)
	start("pod-certificates", k.certs.Run, nothing)
	start("mirror pods", k.mirrors.Run, nothing)
	start("kubelet", k.kubelet.Run, sync.OnceFunc(func() { close(working) }))
	start("server", k.server.Run, nothing)
	start("container collector", k.gc.Run, nothing)
	start("image collector", k.imageGC.Run, nothing)
	start("eviction manager", k.evict.Run, nothing)
	start("log rotation", k.rotator.Run, nothing)
	start("out of memory watcher", oom.Watcher{Host: p.node.host, NodeEvent: k.nodeEvent, Log: k.log().of("oom")}.Run, nothing)
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

func (k *kubeletRun) build(ctx context.Context, nodeReady func()) error {
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
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (k *kubeletRun) log() logger { return logger{k.p.log} }

// append records a stage and wakes whoever waits for a container.
func (k *kubeletRun) append(r timeline.Record) {
	k.p.timeline.Append(r)
	if r.Stage == timeline.Container {
		k.bell.Ring()
	}
}

// event tells users about a container of a pod, or the pod itself.
func (k *kubeletRun) event(pod *v1.Pod, container, eventType, reason, message string) {
	ref := &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: fieldPath(pod, container),
	}
	k.recorder.Event(ref, eventType, reason, message)
}

func (k *kubeletRun) nodeEvent(eventType, reason, message string) {
	name := k.p.cfg.NodeName
	k.recorder.Event(&v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}, eventType, reason, message)
}

// fieldPath names a container in an event, as upstream does: spec.containers{name}.
func fieldPath(pod *v1.Pod, container string) string {
	if container == "" {
		return ""
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			return "spec.initContainers{" + container + "}"
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == container {
			return "spec.ephemeralContainers{" + container + "}"
		}
	}
	return "spec.containers{" + container + "}"
}

// buildResources finds out what the node has and what of it pods may have, and makes the cgroups of that.
func (k *kubeletRun) buildResources() (err error) {
	p, c := k.p, k.p.node.config
	if k.machine, err = cm.ReadMachine(p.node.host); err != nil {
		return err
	}
	storage, err := nodestatus.StorageBytes(p.cfg.DataDir)
	if err != nil {
		return err
	}
	k.capacity = k.machine.Capacity()
	k.capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(storage, resource.BinarySI)
	k.capacity[v1.ResourcePods] = *resource.NewQuantity(config.PodLimit(c, k.machine.CPUs), resource.DecimalSI)
	reserved := cm.Reserved{Kube: config.Reservation(c.KubeReserved), System: config.Reservation(c.SystemReserved), Eviction: c.EvictionHard}
	if k.allocate, err = cm.Allocatable(k.capacity, reserved); err != nil {
		return err
	}
	root := cgroupRoot(p.dirs)
	if c.CgroupRoot != "" && c.CgroupRoot != "/" {
		root = c.CgroupRoot
	}
	var pids int64 = -1
	if c.PodPidsLimit != nil {
		pids = *c.PodPidsLimit
	}
	pods := k.capacity
	if config.Enforces(c, cm.EnforcePods) {
		pods = cm.ForPods(k.capacity, reserved)
	}
	k.cgroups, err = cm.New(cm.Config{
		Host: p.node.host, Root: root, Driver: k.driver(), Pods: pods, PodPidsLimit: pids,
		PageSizes: k.machine.PageSizes(), ThrottlingFactor: c.MemoryThrottlingFactor,
		NoCPUQuota: c.CPUCFSQuota != nil && !*c.CPUCFSQuota, QuotaPeriod: c.CPUCFSQuotaPeriod.Duration, Logger: k.log().of("cm"),
	})
	if err != nil {
		return err
	}
	return k.cgroups.Enforce(config.Shares(c), func(message string) { k.nodeEvent(v1.EventTypeNormal, "NodeAllocatableEnforced", message) })
}

// driver is the configured cgroup driver; an empty one follows the runtime, which follows the machine.
func (k *kubeletRun) driver() cm.Driver {
	if k.p.node.systemd {
		return cm.Systemd
	}
	return cm.Cgroupfs
}

func (k *kubeletRun) buildNode(nodeReady func()) error {
	p, c := k.p, k.p.node.config
	facts, err := nodestatus.ReadFacts(p.node.host)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(p.cfg.NodeIP)
	if err != nil {
		return err
	}
	maxImages := 50
	if c.NodeStatusMaxImages != nil {
		maxImages = int(*c.NodeStatusMaxImages)
	}
	k.node, err = nodestatus.New(nodestatus.Config{
		Client: k.client, Runtime: p.node.runtime, Log: k.log().of("node"),
		Name: p.cfg.NodeName, IPs: []netip.Addr{ip}, Port: int32(p.cfg.KubeletPort), Version: kubernetesVersion, PodCIDR: k.cluster.podCIDR,
		Taints: c.RegisterWithTaints,
		Facts:  facts, Capacity: k.capacity, Allocatable: k.allocate, MaxImages: maxImages,
		Problems: k.problems, Pressure: k.pressure,
		Turned: func(ready bool) {
			if ready {
				nodeReady()
			}
		},
		CheckEvery: c.NodeStatusUpdateFrequency.Duration, ReportEvery: c.NodeStatusReportFrequency.Duration,
		LeaseDuration: time.Duration(c.NodeLeaseDurationSeconds) * time.Second,
	})
	return err
}

// problems are what the kubelet itself knows against the node.
func (k *kubeletRun) problems() []string {
	if k.kubelet == nil {
		return nil
	}
	if err := k.kubelet.Healthy(); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// pressures are what the node runs short of.
func (k *kubeletRun) pressures() []v1.NodeConditionType {
	if k.evict == nil {
		return nil
	}
	return k.evict.Conditions()
}

// pressure is the same for the node's status.
func (k *kubeletRun) pressure() nodestatus.Pressure {
	under := k.pressures()
	return nodestatus.Pressure{
		Memory: slices.Contains(under, v1.NodeMemoryPressure), Disk: slices.Contains(under, v1.NodeDiskPressure),
		PID: slices.Contains(under, v1.NodePIDPressure),
	}
}

func (k *kubeletRun) buildStatus() (err error) {
	k.status, err = status.New(status.Config{Client: k.client, Append: k.append, Log: k.log().of("status")})
	return err
}

// facts are the node's part of the downward API.
func (k *kubeletRun) facts() downward.Facts {
	return downward.Facts{HostIPs: []string{k.p.cfg.NodeIP}, Allocatable: k.allocate}
}

func (k *kubeletRun) buildPodModules(ctx context.Context) (err error) {
	p, c := k.p, k.p.node.config
	objs := objects.New(k.cluster.view)
	k.tokens, err = token.New(token.Config{
		Client: k.client, Due: func(ctx context.Context, pod types.UID) { k.volumes.Renew(ctx, pod) }, Logger: k.log().of("token"),
	})
	if err != nil {
		return err
	}
	k.certs, err = podcert.New(podcert.Config{
		API: k.client, Request: objs.PodCertificateRequest, Node: k.thisNode, Event: k.event, Logger: k.log().of("podcert"),
		Due: func(ctx context.Context, pod types.UID) { k.volumes.Renew(ctx, pod) },
	})
	if err != nil {
		return err
	}
	k.volumes, err = volume.New(volume.Config{
		Root: p.dirs.Kubelet(), Host: p.node.host, Objects: objs, Follow: objs.Follow, Facts: k.facts,
		MemoryAllocatable: func() int64 { return k.allocate.Memory().Value() },
		NodeLabels: func() map[string]string {
			if n := k.thisNode(); n != nil {
				return n.Labels
			}
			return nil
		},
		Token: k.tokens.Token, Certificate: k.certs.Bundle,
		Wake:   func(uid types.UID) { k.kubelet.Signal(uid, podlife.VolumesChanged{}) },
		Logger: k.log().of("volume"),
	})
	if err != nil {
		return err
	}
	if err := k.buildImages(ctx, objs); err != nil {
		return err
	}
	var resolv string
	if c.ResolverConfig != nil && *c.ResolverConfig != *config.Defaults().ResolverConfig {
		resolv = *c.ResolverConfig
	}
	var sandboxSeccomp string
	if p.node.embedded != nil { // another runtime has another first process
		sandboxSeccomp = p.node.embedded.SandboxSeccomp()
	}
	k.specs, err = spec.New(spec.Config{
		Node: p.cfg.NodeName, LogDir: c.PodLogsDir, Files: p.node.host, Objects: objs, Volumes: k.volumes, Images: p.node.runtime,
		Facts: k.facts, Machine: k.machine, Services: objs.Services, Volume: k.images.EnsureVolume, Event: k.event, Logger: k.log().of("spec"),
		DNS:        spec.DNS{Cluster: c.ClusterDNS, Domain: cmp.Or(c.ClusterDomain, "cluster.local"), ResolvConf: resolv},
		SeccompDir: filepath.Join(p.dirs.Kubelet(), "seccomp"), SandboxSeccomp: sandboxSeccomp,
		NoCPUQuota:  c.CPUCFSQuota != nil && !*c.CPUCFSQuota,
		QuotaPeriod: c.CPUCFSQuotaPeriod.Duration,
		SwapLimited: k.cgroups.SwapLimited(), CgroupV2: k.cgroups.Layout().V2,
		LimitedSwap: c.MemorySwap.SwapBehavior == config.LimitedSwap, ThrottlingFactor: c.MemoryThrottlingFactor,
		SingleProcessOOMKill: config.SingleProcessOOMKill(c, !k.cgroups.Layout().V2), SeccompDefault: *c.SeccompDefault,
		RecursiveReadOnly: true,
	})
	return err
}

func (k *kubeletRun) buildProbes(ctx context.Context) (err error) {
	k.probes, err = probe.New(ctx, probe.Config{
		Checker: probe.NewChecker(k.p.node.runtime),
		Turned:  func(uid types.UID, e podlife.ProbeTurned) { k.kubelet.Signal(uid, e) },
		Event:   k.event, Append: k.append, Log: k.log().of("probe"),
	})
	return err
}

func (k *kubeletRun) buildKubelet() error {
	p, c := k.p, k.p.node.config
	checkpoints, err := state.Open(filepath.Join(p.dirs.Kubelet(), "state"))
	if err != nil {
		return err
	}
	if c.StaticPodPath == p.dirs.Manifests() {
		if err := os.MkdirAll(c.StaticPodPath, 0o700); err != nil {
			return err
		}
	}
	life := podlife.Defaults()
	life.HostIPs = []string{p.cfg.NodeIP}
	life.NoCPUQuota = c.CPUCFSQuota != nil && !*c.CPUCFSQuota
	if p := c.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
		life.BackoffMax = p.Duration
	}
	k.kubelet, err = kubelet.New(kubelet.Config{
		Node: p.cfg.NodeName, Life: life, Runtime: k.linking(),
		Sources:     k.sources(),
		Mirror:      func(name types.NamespacedName) { k.mirrors.Wake(name) },
		Checkpoints: checkpoints, Reporter: k.status,
		Admission: admit.Checker{
			Node: k.thisNode, Pressure: k.pressures,
			Rules: admit.Rules{
				OS: "linux", UnsafeSysctls: c.AllowedUnsafeSysctls, AppArmorEnabled: appArmor(),
				Swap: c.MemorySwap.SwapBehavior == config.LimitedSwap && k.cgroups.SwapLimited() && k.cgroups.Layout().V2,
			},
		},
		Volumes: k.volumes, Images: k.images, Cgroups: k.cgroups, Specs: k.specs,
		Resizer: resize.Resizer{Cgroups: k.cgroups, Runtime: p.node.runtime, Specs: k.specs},
		Hooks:   hook.New(p.node.runtime, k.event), Probes: k.probes,
		Event: k.event, NodeEvent: k.nodeEvent, Gone: k.gone,
		Append: k.append, Log: k.log().of("kubelet"), CallTimeout: c.RuntimeRequestTimeout.Duration, Reached: failpoint(),
	})
	if err != nil {
		return err
	}
	k.mirrors, err = mirror.New(mirror.Config{Client: k.client, Node: k.thisNode, Pods: k.kubelet, Log: k.log().of("mirror")})
	return err
}

// sources are where the node's pods come from: the API, a folder of manifests, and, when configured, a web server.
func (k *kubeletRun) sources() []kubelet.Source {
	p, c := k.p, k.p.node.config
	log := k.log().of("source")
	problem := func(origin string, err error) {
		log.Error("a manifest cannot be used", "from", origin, "err", err)
		k.nodeEvent(v1.EventTypeWarning, "FailedStaticPod", origin+": "+err.Error())
	}
	all := []kubelet.Source{
		source.API{View: k.cluster.view, Node: p.cfg.NodeName, Log: log},
		source.File{Path: c.StaticPodPath, Node: p.cfg.NodeName, Every: c.FileCheckFrequency.Duration, Problem: problem, Log: log},
	}
	if c.StaticPodURL != "" {
		all = append(all, source.URL{
			URL: c.StaticPodURL, Header: c.StaticPodURLHeader, Node: p.cfg.NodeName, Every: c.HTTPCheckFrequency.Duration, Problem: problem, Log: log,
		})
	}
	return all
}

// gone is told of each pod of which nothing is left.
func (k *kubeletRun) gone(pod *v1.Pod) {
	k.tokens.Forget(pod.UID)
	k.certs.Forget(pod.UID)
	k.gc.Poke()
}

// thisNode is the Node object as the API has it, nil while there is none.
func (k *kubeletRun) thisNode() *v1.Node { return nodeIn(k.cluster.view, k.p.cfg.NodeName) }

func appArmor() bool {
	enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(enabled), "Y")
}

func (k *kubeletRun) buildHousekeeping() (err error) {
	p, c := k.p, k.p.node.config
	linking := k.linking()
	k.gc, err = containergc.New(containergc.Config{
		Runtime: linking, SweepLinks: linking.links.Sweep, Log: k.log().of("containergc"), Node: p.cfg.NodeName, Pods: k.kubelet.Collectable,
		LogRoot: ownLogs(p.dirs, c.PodLogsDir), Policy: containergc.DefaultPolicy(),
	})
	if err != nil {
		return err
	}
	k.imageGC, err = imagegc.New(imagegc.Config{
		Runtime: p.node.runtime, Disk: imagegc.FileSystem(p.node.runtime), NodeEvent: k.nodeEvent, Log: k.log().of("imagegc"), Seen: k.pulled.Keep,
		Policy: imagegc.Policy{
			High: int(*c.ImageGCHighThresholdPercent), Low: int(*c.ImageGCLowThresholdPercent),
			MinAge: c.ImageMinimumGCAge.Duration, MaxAge: c.ImageMaximumGCAge.Duration,
		},
	})
	if err != nil {
		return err
	}
	k.rotator, err = logs.NewRotator(logs.RotatorConfig{
		Runtime: p.node.runtime, Log: k.log().of("logs"), MaxSize: config.LogMaxSize(c), MaxFiles: int(*c.ContainerLogMaxFiles),
		Workers: int(*c.ContainerLogMaxWorkers), Every: c.ContainerLogMonitorInterval.Duration,
	})
	return err
}

// ownLogs is the log directory when it is this node's alone: another kubelet's logs must never be collected.
func ownLogs(d Dirs, dir string) string {
	if dir == d.PodLogs() {
		return dir
	}
	return ""
}
