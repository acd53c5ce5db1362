package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/client/local"
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
	"podo.dev/podo/internal/kubelet/logs"
	"podo.dev/podo/internal/kubelet/mirror"
	nodestatus "podo.dev/podo/internal/kubelet/node"
	"podo.dev/podo/internal/kubelet/objects"
	"podo.dev/podo/internal/kubelet/probe"
	kubeletserver "podo.dev/podo/internal/kubelet/server"
	"podo.dev/podo/internal/kubelet/source"
	"podo.dev/podo/internal/kubelet/spec"
	"podo.dev/podo/internal/kubelet/state"
	"podo.dev/podo/internal/kubelet/stats"
	"podo.dev/podo/internal/kubelet/status"
	"podo.dev/podo/internal/kubelet/token"
	"podo.dev/podo/internal/kubelet/volume"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

// kubernetesVersion is what the node says it runs.
const kubernetesVersion = "v1.37.2"

// agent is one run of the kubelet: its modules, made anew each time, and what they share.
type agent struct {
	s      *server
	client client.Client
	bell   kubeletserver.Bell // rings whenever something happened to a container

	recorder record.EventRecorder
	capacity v1.ResourceList
	allocate v1.ResourceList
	machine  cm.Machine

	node    *nodestatus.Manager
	status  *status.Reporter
	cgroups *cm.Manager
	tokens  *token.Manager
	volumes *volume.Manager
	specs   *spec.Builder
	images  *images.Manager
	probes  *probe.Manager
	mirrors *mirror.Keeper
	evict   *eviction.Manager
	gc      *containergc.Collector
	imageGC *imagegc.Collector
	rotator *logs.Rotator
	server  *kubeletserver.Server
	kubelet *kubelet.Kubelet
}

// runKubelet runs the kubelet and its modules until ctx ends or one of them fails. It is ready when the node is Ready and every
// pod has its worker.
func (s *server) runKubelet(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &agent{s: s, client: local.Node(s.control.verbs, s.cfg.NodeName)}
	a.recorder = events.New(ctx, a.client, "kubelet", s.cfg.NodeName, s.log)
	nodeReady := make(chan struct{})
	if err := a.build(ctx, sync.OnceFunc(func() { close(nodeReady) })); err != nil {
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
	start("node status", a.node.Run, nothing)
	start("status manager", a.status.Run, nothing)
	start("volume manager", a.volumes.Run, nothing)
	start("tokens", a.tokens.Run, nothing)
	start("mirror pods", a.mirrors.Run, nothing)
	start("kubelet", a.kubelet.Run, sync.OnceFunc(func() { close(working) }))
	start("server", a.server.Run, nothing)
	start("container collector", a.gc.Run, nothing)
	start("image collector", a.imageGC.Run, nothing)
	start("eviction manager", a.evict.Run, nothing)
	start("log rotation", a.rotator.Run, nothing)
	for _, stage := range []chan struct{}{working, nodeReady} {
		select {
		case <-stage:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	if err := s.markControlPlane(ctx); err != nil {
		return err
	}
	ready()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// controlPlaneLabel tells users which nodes the control plane runs on.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// markControlPlane labels the server's own node. A kubelet may not give itself a role, so that the server does.
func (s *server) markControlPlane(ctx context.Context) error {
	_, err := local.Admin(s.control.verbs).Mutate(ctx, client.Nodes.At("", s.cfg.NodeName), func(obj runtime.Object) (bool, error) {
		n, ok := obj.(*v1.Node)
		if !ok {
			return false, fmt.Errorf("the node is a %T", obj)
		}
		if _, there := n.Labels[controlPlaneLabel]; there {
			return false, nil
		}
		metav1.SetMetaDataLabel(&n.ObjectMeta, controlPlaneLabel, "")
		return true, nil
	})
	return err
}

func (a *agent) build(ctx context.Context, nodeReady func()) error {
	for _, step := range []func() error{
		a.buildResources,
		func() error { return a.buildNode(nodeReady) },
		a.buildStatus,
		a.buildPodModules,
		func() error { return a.buildProbes(ctx) },
		a.buildKubelet,
		a.buildServer,
		a.buildHousekeeping,
		a.buildEviction,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) log() logger { return logger{a.s.log} }

// append records a stage and wakes whoever waits for a container.
func (a *agent) append(r timeline.Record) {
	a.s.timeline.Append(r)
	if r.Stage == timeline.Container {
		a.bell.Ring()
	}
}

// event tells users about a container of a pod, or the pod itself.
func (a *agent) event(pod *v1.Pod, container, eventType, reason, message string) {
	ref := &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: fieldPath(pod, container),
	}
	a.recorder.Event(ref, eventType, reason, message)
}

func (a *agent) nodeEvent(eventType, reason, message string) {
	name := a.s.cfg.NodeName
	a.recorder.Event(&v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}, eventType, reason, message)
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
func (a *agent) buildResources() (err error) {
	s, c := a.s, a.s.node.config
	if a.machine, err = cm.ReadMachine(s.node.host); err != nil {
		return err
	}
	storage, err := nodestatus.StorageBytes(s.cfg.DataDir)
	if err != nil {
		return err
	}
	a.capacity = a.machine.Capacity()
	a.capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(storage, resource.BinarySI)
	a.capacity[v1.ResourcePods] = *resource.NewQuantity(config.PodLimit(c, a.machine.CPUs), resource.DecimalSI)
	reserved := cm.Reserved{Kube: config.Reservation(c.KubeReserved), System: config.Reservation(c.SystemReserved), Eviction: c.EvictionHard}
	if a.allocate, err = cm.Allocatable(a.capacity, reserved); err != nil {
		return err
	}
	root := cgroupRoot(s.dirs)
	if c.CgroupRoot != "" && c.CgroupRoot != "/" {
		root = c.CgroupRoot
	}
	var pids int64 = -1
	if c.PodPidsLimit != nil {
		pids = *c.PodPidsLimit
	}
	a.cgroups, err = cm.New(cm.Config{
		Host: s.node.host, Root: root, Driver: a.driver(), Pods: cm.ForPods(a.capacity, reserved), PodPidsLimit: pids,
		NoCPUQuota: c.CPUCFSQuota != nil && !*c.CPUCFSQuota, QuotaPeriod: c.CPUCFSQuotaPeriod.Duration, Logger: a.log().of("cm"),
	})
	return err
}

// driver is the configured cgroup driver; an empty one follows the runtime, which follows the machine.
func (a *agent) driver() cm.Driver {
	if a.s.node.systemd {
		return cm.Systemd
	}
	return cm.Cgroupfs
}

func (a *agent) buildNode(nodeReady func()) error {
	s, c := a.s, a.s.node.config
	facts, err := nodestatus.ReadFacts(s.node.host)
	if err != nil {
		return err
	}
	pods, err := netip.ParsePrefix(s.cfg.PodCIDR)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(s.cfg.NodeIP)
	if err != nil {
		return err
	}
	maxImages := 50
	if c.NodeStatusMaxImages != nil {
		maxImages = int(*c.NodeStatusMaxImages)
	}
	a.node, err = nodestatus.New(nodestatus.Config{
		Client: a.client, Runtime: s.node.runtime, Log: a.log().of("node"),
		Name: s.cfg.NodeName, IPs: []netip.Addr{ip}, Port: int32(s.cfg.KubeletPort), Version: kubernetesVersion, PodCIDR: pods,
		Taints: c.RegisterWithTaints,
		Facts:  facts, Capacity: a.capacity, Allocatable: a.allocate, MaxImages: maxImages,
		Problems: a.problems, Pressure: a.pressure,
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
func (a *agent) problems() []string {
	if a.kubelet == nil {
		return nil
	}
	if err := a.kubelet.Healthy(); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// pressures are what the node runs short of.
func (a *agent) pressures() []v1.NodeConditionType {
	if a.evict == nil {
		return nil
	}
	return a.evict.Conditions()
}

// pressure is the same for the node's status.
func (a *agent) pressure() nodestatus.Pressure {
	under := a.pressures()
	return nodestatus.Pressure{
		Memory: slices.Contains(under, v1.NodeMemoryPressure), Disk: slices.Contains(under, v1.NodeDiskPressure),
		PID: slices.Contains(under, v1.NodePIDPressure),
	}
}

func (a *agent) buildStatus() (err error) {
	a.status, err = status.New(status.Config{Client: a.client, Append: a.append, Log: a.log().of("status")})
	return err
}

// facts are the node's part of the downward API.
func (a *agent) facts() downward.Facts {
	return downward.Facts{HostIPs: []string{a.s.cfg.NodeIP}, Allocatable: a.allocate}
}

func (a *agent) buildPodModules() (err error) {
	s, c := a.s, a.s.node.config
	objs := objects.New(s.control.view)
	a.tokens, err = token.New(token.Config{
		Client: a.client, Due: func(ctx context.Context, pod types.UID) { a.volumes.Renew(ctx, pod) }, Logger: a.log().of("token"),
	})
	if err != nil {
		return err
	}
	a.volumes, err = volume.New(volume.Config{
		Root: s.dirs.Kubelet(), Host: s.node.host, Objects: objs, Follow: objs.Follow, Facts: a.facts,
		MemoryAllocatable: func() int64 { return a.allocate.Memory().Value() },
		Token:             a.tokens.Token,
		Wake:              func(uid types.UID) { a.kubelet.Signal(uid, podlife.VolumesChanged{}) },
		Logger:            a.log().of("volume"),
	})
	if err != nil {
		return err
	}
	a.images, err = images.New(images.Config{
		Runtime: s.node.runtime, Secrets: objs, Event: a.event, Append: a.append, Logger: a.log().of("images"), MaxParallel: config.ParallelPulls(c),
		Wanted: func(image string) { a.imageGC.Wanted(image) },
	})
	if err != nil {
		return err
	}
	var resolv string
	if c.ResolverConfig != nil && *c.ResolverConfig != *config.Defaults().ResolverConfig {
		resolv = *c.ResolverConfig
	}
	a.specs, err = spec.New(spec.Config{
		Node: s.cfg.NodeName, LogDir: c.PodLogsDir, Files: s.node.host, Objects: objs, Volumes: a.volumes, Images: s.node.runtime,
		Facts: a.facts, Machine: a.machine, Services: objs.Services, Volume: a.images.EnsureVolume, Event: a.event, Logger: a.log().of("spec"),
		DNS:         spec.DNS{Cluster: c.ClusterDNS, Domain: c.ClusterDomain, ResolvConf: resolv},
		SeccompDir:  filepath.Join(s.dirs.Kubelet(), "seccomp"),
		NoCPUQuota:  c.CPUCFSQuota != nil && !*c.CPUCFSQuota,
		QuotaPeriod: c.CPUCFSQuotaPeriod.Duration,
		SwapLimited: a.cgroups.SwapLimited(), CgroupV2: a.cgroups.Layout().V2,
		RecursiveReadOnly: true,
	})
	return err
}

func (a *agent) buildProbes(ctx context.Context) (err error) {
	a.probes, err = probe.New(ctx, probe.Config{
		Checker: probe.NewChecker(a.s.node.runtime),
		Turned:  func(uid types.UID, e podlife.ProbeTurned) { a.kubelet.Signal(uid, e) },
		Event:   a.event, Append: a.append, Log: a.log().of("probe"),
	})
	return err
}

func (a *agent) buildKubelet() error {
	s, c := a.s, a.s.node.config
	checkpoints, err := state.Open(filepath.Join(s.dirs.Kubelet(), "state"))
	if err != nil {
		return err
	}
	if c.StaticPodPath == s.dirs.Manifests() {
		if err := os.MkdirAll(c.StaticPodPath, 0o700); err != nil {
			return err
		}
	}
	life := podlife.Defaults()
	life.HostIPs = []string{s.cfg.NodeIP}
	if p := c.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
		life.BackoffMax = p.Duration
	}
	a.kubelet, err = kubelet.New(kubelet.Config{
		Node: s.cfg.NodeName, Life: life, Runtime: s.node.runtime,
		Sources:     a.sources(),
		Mirror:      func(name types.NamespacedName) { a.mirrors.Wake(name) },
		Checkpoints: checkpoints, Reporter: a.status,
		Admission: admit.Checker{
			Node: a.thisNode, Pressure: a.pressures,
			Rules: admit.Rules{OS: "linux", UnsafeSysctls: c.AllowedUnsafeSysctls, AppArmorEnabled: appArmor()},
		},
		Volumes: a.volumes, Images: a.images, Cgroups: a.cgroups, Specs: a.specs,
		Hooks: hook.New(s.node.runtime), Probes: a.probes,
		Event: a.event, NodeEvent: a.nodeEvent, Gone: a.gone,
		Append: a.append, Log: a.log().of("kubelet"), CallTimeout: c.RuntimeRequestTimeout.Duration,
	})
	if err != nil {
		return err
	}
	a.mirrors, err = mirror.New(mirror.Config{Client: a.client, Node: a.thisNode, Pods: a.kubelet, Log: a.log().of("mirror")})
	return err
}

// sources are where the node's pods come from: the API, a folder of manifests, and, when configured, a web server.
func (a *agent) sources() []kubelet.Source {
	s, c := a.s, a.s.node.config
	log := a.log().of("source")
	problem := func(origin string, err error) {
		log.Error("a manifest cannot be used", "from", origin, "err", err)
		a.nodeEvent(v1.EventTypeWarning, "FailedStaticPod", origin+": "+err.Error())
	}
	all := []kubelet.Source{
		source.API{View: s.control.view, Node: s.cfg.NodeName, Log: log},
		source.File{Path: c.StaticPodPath, Node: s.cfg.NodeName, Every: c.FileCheckFrequency.Duration, Problem: problem, Log: log},
	}
	if c.StaticPodURL != "" {
		all = append(all, source.URL{
			URL: c.StaticPodURL, Header: c.StaticPodURLHeader, Node: s.cfg.NodeName, Every: c.HTTPCheckFrequency.Duration, Problem: problem, Log: log,
		})
	}
	return all
}

// gone is told of each pod of which nothing is left.
func (a *agent) gone(pod *v1.Pod) {
	a.tokens.Forget(pod.UID)
	a.gc.Poke()
}

// thisNode is the Node object as the API has it, nil while there is none.
func (a *agent) thisNode() *v1.Node {
	e := a.s.control.view.Snapshot().Get(client.Nodes.At("", "").Resource, "", a.s.cfg.NodeName)
	if e == nil {
		return nil
	}
	n, _ := e.Object.(*v1.Node)
	return n
}

func appArmor() bool {
	enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(enabled), "Y")
}

func (a *agent) buildServer() error {
	s, c := a.s, a.s.node.config
	usage, err := stats.New(stats.Config{Node: s.cfg.NodeName, Runtime: s.node.runtime, Files: s.node.host, DataDir: s.cfg.DataDir, Pod: a.kubelet.Pod})
	if err != nil {
		return err
	}
	health := ""
	if c.HealthzPort != nil && *c.HealthzPort > 0 {
		health = net.JoinHostPort(c.HealthzBindAddress, strconv.Itoa(int(*c.HealthzPort)))
	}
	a.server, err = kubeletserver.New(kubeletserver.Config{
		Addr:       net.JoinHostPort(s.cfg.NodeIP, strconv.Itoa(s.cfg.KubeletPort)),
		HealthAddr: health,
		TLS:        &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certs.Server(pki.Kubelet), ClientCAs: s.certs.Pool()},
		Pods:       a.kubelet, Runtime: s.node.runtime, Log: a.log().of("kubelet-server"), Authenticate: s.control.identity.authn.Known,
		Authorize: s.authorizeKubelet,
		Ended:     kubeletserver.EndedBy(s.node.runtime, &a.bell, 30*time.Second),
		Healthy:   a.kubelet.Healthy,
		Configz:   func() any { return c },
		Extra: map[string]http.Handler{
			"/stats/summary":    http.HandlerFunc(usage.ServeSummary),
			"/metrics/resource": usage.Resource(),
		},
	})
	return err
}

func (a *agent) buildHousekeeping() (err error) {
	s, c := a.s, a.s.node.config
	a.gc, err = containergc.New(containergc.Config{
		Runtime: s.node.runtime, Log: a.log().of("containergc"), Node: s.cfg.NodeName, Pods: a.kubelet.Collectable,
		LogRoot: ownLogs(s.dirs, c.PodLogsDir), Policy: containergc.DefaultPolicy(),
	})
	if err != nil {
		return err
	}
	a.imageGC, err = imagegc.New(imagegc.Config{
		Runtime: s.node.runtime, Disk: imagegc.FileSystem(s.node.runtime), NodeEvent: a.nodeEvent, Log: a.log().of("imagegc"),
		Policy: imagegc.Policy{
			High: int(*c.ImageGCHighThresholdPercent), Low: int(*c.ImageGCLowThresholdPercent),
			MinAge: c.ImageMinimumGCAge.Duration, MaxAge: c.ImageMaximumGCAge.Duration,
		},
	})
	if err != nil {
		return err
	}
	a.rotator, err = logs.NewRotator(logs.RotatorConfig{
		Runtime: s.node.runtime, Log: a.log().of("logs"), MaxSize: config.LogMaxSize(c), MaxFiles: int(*c.ContainerLogMaxFiles),
		Every: c.ContainerLogMonitorInterval.Duration,
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
