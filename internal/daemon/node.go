package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"

	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/daemon/node"
	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/config"
	"podo.dev/podo/internal/kubelet/stats"
	"podo.dev/podo/internal/runtime"
	"podo.dev/podo/internal/runtime/payload"
)

// kubernetesVersion is what the node says it runs.
const kubernetesVersion = "v1.37.2"

// nodeParts are what a node is made of besides its kubelet.
type nodeParts struct {
	supervisor *component.Supervisor
	host       host.Host
	config     *v1beta1.KubeletConfiguration
	embedded   *runtime.Runtime // nil with --container-runtime-endpoint
	runtime    *containerd.Client
	stats      atomic.Pointer[stats.Source] // nil until the kubelet runs
	systemd    bool                         // the cgroup driver
}

// buildNode reads what the node is told and checks what it needs; nothing runs yet.
func (p *process) buildNode(ctx context.Context, network runtime.Network) (err error) {
	n := &p.node
	n.host = linux.New()
	if err := p.checkMachine(); err != nil {
		return err
	}
	switch n.systemd = runtime.UseSystemd(); {
	case n.config.CgroupDriver == string(cm.Systemd) && !n.systemd:
		return errors.New("kubelet configuration: cgroupDriver: systemd does not run here: use cgroupfs, or leave it out")
	case n.config.CgroupDriver == string(cm.Cgroupfs):
		n.systemd = false
	}
	endpoint := cmp.Or(p.cfg.ContainerRuntimeEndpoint, n.config.ContainerRuntimeEndpoint)
	if endpoint == "" {
		if n.embedded, err = newRuntime(p.cfg.DataDir, n.systemd, network, p.log.With("component", "containerd")); err != nil {
			return err
		}
		if err := n.embedded.Check(ctx); err != nil {
			return err
		}
		endpoint = n.embedded.Endpoint()
	}
	if n.runtime, err = containerd.New(endpoint); err != nil {
		return fmt.Errorf("--container-runtime-endpoint: %w", err)
	}
	return writeRun(p.dirs, run{Endpoint: endpoint, Embedded: n.embedded != nil, NodeName: p.cfg.NodeName})
}

// runKubelet runs the kubelet of this machine in a cluster.
func (p *process) runKubelet(ctx context.Context, cluster node.Cluster, ready func() error) error {
	n := &p.node
	ip, err := netip.ParseAddr(p.cfg.NodeIP)
	if err != nil {
		return err
	}
	c := node.Config{
		Name: p.cfg.NodeName, IP: ip, Port: p.cfg.KubeletPort, Version: kubernetesVersion,
		DataDir: p.cfg.DataDir, Dir: p.dirs.Kubelet(), CgroupRoot: cgroupRoot(p.dirs), Systemd: n.systemd, Kubelet: n.config,
		CredentialProviders: node.CredentialProviders{Config: p.cfg.CredentialProviderConfig, BinDir: p.cfg.CredentialProviderBinDir},
		OwnLogs:             n.config.PodLogsDir == p.dirs.PodLogs(),
		Host:                n.host, Runtime: n.runtime,
		Stats:    &n.stats,
		Timeline: p.timeline, Log: p.log, Flags: p.cfg.Flags, SetVerbosity: p.setVerbosity,
	}
	if n.embedded != nil { // another runtime has another first process
		c.SandboxSeccomp = n.embedded.SandboxSeccomp()
	}
	if n.config.StaticPodPath == p.dirs.Manifests() {
		if err := os.MkdirAll(n.config.StaticPodPath, 0o700); err != nil {
			return err
		}
	}
	return node.Run(ctx, c, cluster, ready)
}

// newRuntime is the embedded containerd of a data directory.
func newRuntime(dataDir string, systemd bool, network runtime.Network, log *slog.Logger) (*runtime.Runtime, error) {
	carried, err := payload.Embedded()
	if err != nil {
		return nil, err
	}
	return runtime.New(runtime.Config{
		DataDir:  dataDir,
		PodCIDRs: network.Pods, ClusterCIDRs: network.Cluster, Redirects: network.Redirects,
		SystemdCgroup: systemd,
		Payload:       carried,
		Connect:       func(socket string) (runtime.Client, error) { return containerd.New("unix://" + socket) },
		Log:           log,
	})
}

// network is the pod network of a server's own node before it knows another.
func (c *Config) network() (n runtime.Network, err error) {
	pods, err := netip.ParsePrefix(c.PodCIDR)
	if err != nil {
		return n, err
	}
	n.Pods = []netip.Prefix{pods}
	n.Redirects, err = c.apiRedirect()
	return n, err
}

// apiRedirect makes the API server reachable at the address of the Service "kubernetes", until services are proxied.
func (c *Config) apiRedirect() ([]runtime.Redirect, error) {
	node, err := netip.ParseAddr(c.NodeIP)
	if err != nil {
		return nil, err
	}
	services, err := netip.ParsePrefix(c.ServiceCIDR)
	if err != nil || services.Addr().Is4() != node.Is4() {
		return nil, err
	}
	return []runtime.Redirect{toAPI(services.Addr().Next(), netip.AddrPortFrom(node, uint16(c.HTTPSPort)))}, nil
}

// toAPI leads from the address of the Service "kubernetes" to the API server.
func toAPI(service netip.Addr, server netip.AddrPort) runtime.Redirect {
	const port = 443
	return runtime.Redirect{From: netip.AddrPortFrom(service, port), To: server}
}

// kubeletConfig is the kubelet's configuration file, or its defaults, with what the server's flags and layout say.
func (p *process) kubeletConfig() (*v1beta1.KubeletConfiguration, error) {
	text, err := config.Read(p.cfg.KubeletConfig, p.cfg.KubeletConfigDir)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--kubelet-config %s: %w", p.cfg.KubeletConfig, err)
	}
	said := config.Names(text)
	if !said["podLogsDir"] {
		c.PodLogsDir = p.dirs.PodLogs()
	}
	if c.StaticPodPath == "" {
		c.StaticPodPath = p.dirs.Manifests()
	}
	if !said["healthzPort"] {
		port := int32(p.cfg.healthzPort())
		c.HealthzPort = &port
	}
	if !said["address"] {
		c.Address = p.cfg.NodeIP
	}
	if said["port"] && int(c.Port) != p.cfg.KubeletPort {
		return nil, fmt.Errorf("kubelet configuration: port: %d is not the kubelet's, which is %d: use the flag --kubelet-port", c.Port, p.cfg.KubeletPort)
	}
	c.Port = int32(p.cfg.KubeletPort)
	return c, nil
}

// checkMachine refuses what the kubelet's configuration does not allow (swap, cgroup v1).
func (p *process) checkMachine() error {
	layout, err := cm.DetectLayout(p.node.host)
	if err != nil {
		return err
	}
	swaps, err := p.node.host.ReadFile("/proc/swaps")
	if err != nil {
		return err
	}
	swapOn := strings.Count(strings.TrimSpace(string(swaps)), "\n") > 0 // the first line is the heading
	return config.Unfit(p.node.config, swapOn, !layout.V2)
}

// removeCgroups removes the cgroups of a stopped node's pods.
func removeCgroups(ctx context.Context, d Dirs) error {
	driver := cm.Cgroupfs
	if runtime.UseSystemd() {
		driver = cm.Systemd
	}
	m, err := cm.New(cm.Config{Host: linux.New(), Root: cgroupRoot(d), Driver: driver, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return m.Teardown(ctx)
}

// cgroupRoot keeps the pods of several servers apart.
func cgroupRoot(d Dirs) string { return "/podo-" + runtime.LayoutFor(d.Root).ID }
