package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/node"
	"podo.dev/podo/internal/daemon/preflight"
	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/kubelet/admit"
	"podo.dev/podo/internal/kubelet/cm"
	kubeletconfig "podo.dev/podo/internal/kubelet/config"
	"podo.dev/podo/internal/kubelet/stats"
	"podo.dev/podo/internal/release"
	"podo.dev/podo/internal/runtime"
)

// nodeParts are the parts of a node other than its kubelet.
type nodeParts struct {
	supervisor *component.Supervisor
	host       host.Host
	config     *v1beta1.KubeletConfiguration
	embedded   *runtime.Runtime // nil with --container-runtime-endpoint
	runtime    *containerd.Client
	endpoint   string                       // of it
	stats      atomic.Pointer[stats.Source] // nil until the kubelet runs
	systemd    bool                         // the cgroup driver
}

// buildNode reads the node's configuration and checks what it needs; nothing runs yet.
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
		if n.embedded, err = node.Containerd(p.cfg.DataDir, n.systemd, network, p.log.With("component", "containerd")); err != nil {
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
	if n.embedded != nil {
		n.runtime.SweepShims(n.embedded.Layout().Shims)
	}
	n.endpoint = endpoint
	return p.noteRun()
}

// runKubelet runs the kubelet of this machine in a cluster. own are the ports of this process.
func (p *process) runKubelet(ctx context.Context, cluster node.Cluster, own []preflight.Port, ready func() error) error {
	n := &p.node
	c := node.Config{
		Name: p.cfg.NodeName, IP: p.cfg.IP(), Port: p.cfg.KubeletPort, Version: release.Kubernetes,
		DataDir: p.cfg.DataDir, Dir: p.dir.Kubelet(), CgroupRoot: p.dir.CgroupRoot(), Systemd: n.systemd, Kubelet: n.config,
		CredentialProviders: node.CredentialProviders{Config: p.cfg.CredentialProviderConfig, BinDir: p.cfg.CredentialProviderBinDir},
		OwnLogs:             n.config.PodLogsDir == p.dir.PodLogs(),
		Host:                n.host, Runtime: n.runtime,
		Stats:    &n.stats,
		Timeline: p.timeline, Log: p.log, Flags: p.cfg.Flags, SetVerbosity: p.setVerbosity,
	}
	for _, o := range own {
		for _, ip := range o.IPs {
			c.Own = append(c.Own, admit.Listener{IP: ip, Port: int32(o.Port)})
		}
	}
	if n.embedded != nil { // another runtime has a sandbox process of its own
		c.SandboxSeccomp = n.embedded.SandboxSeccomp()
	}
	if err := p.podsBegin(); err != nil {
		return err
	}
	if n.config.StaticPodPath == p.dir.Manifests() {
		if err := os.MkdirAll(n.config.StaticPodPath, 0o700); err != nil {
			return err
		}
	}
	return node.Run(ctx, c, cluster, ready)
}

// noteRun records what a later start, `down` or `image` has to know of this one.
func (p *process) noteRun() error {
	return p.dir.Began(datadir.Run{
		Endpoint: p.node.endpoint, Embedded: p.node.embedded != nil, NodeName: p.cfg.NodeName, Down: p.before.Down, Formers: p.before.Formers,
	})
}

// podsBegin records that pods may run from now on.
func (p *process) podsBegin() error {
	if !p.before.Down {
		return nil
	}
	p.before.Down = false
	return p.noteRun()
}

// ports are those of a node's kubelet.
func (p *process) ports() []preflight.Port {
	c, from := p.node.config, "address in the kubelet configuration:"
	if c.Address == p.cfg.NodeIP {
		from = "--node-ip"
	}
	all := []preflight.Port{{What: "--kubelet-port", Port: p.cfg.KubeletPort, From: from, IPs: []string{c.Address}}}
	if *c.HealthzPort > 0 {
		all = append(all, preflight.Port{
			What: "the kubelet's health port (--kubelet-port minus 2)", Port: int(*c.HealthzPort),
			From: "healthzBindAddress in the kubelet configuration:", IPs: []string{c.HealthzBindAddress},
		})
	}
	if c.ReadOnlyPort > 0 {
		all = append(all, preflight.Port{What: "readOnlyPort in the kubelet configuration", Port: int(c.ReadOnlyPort), From: from, IPs: []string{c.Address}})
	}
	return all
}

// healthAt is where the kubelet serves its health.
func (p *process) healthAt() string {
	c := p.node.config
	if *c.HealthzPort <= 0 {
		return ""
	}
	return net.JoinHostPort(c.HealthzBindAddress, strconv.Itoa(int(*c.HealthzPort)))
}

// kubeletConfig is the kubelet's configuration file, or the defaults, adjusted by the server's flags and layout.
func (p *process) kubeletConfig() (*v1beta1.KubeletConfiguration, error) {
	text, err := kubeletconfig.Read(p.cfg.KubeletConfig, p.cfg.KubeletConfigDir)
	if err != nil {
		return nil, err
	}
	c, err := kubeletconfig.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--kubelet-config %s: %w", p.cfg.KubeletConfig, err)
	}
	said := kubeletconfig.Names(text)
	if !said["podLogsDir"] {
		c.PodLogsDir = p.dir.PodLogs()
	}
	if c.StaticPodPath == "" {
		c.StaticPodPath = p.dir.Manifests()
	}
	if !said["healthzPort"] {
		port := int32(p.cfg.HealthzPort())
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

// checkMachine refuses a machine that the kubelet's configuration excludes (swap, cgroup v1).
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
	return kubeletconfig.Unfit(p.node.config, swapOn, !layout.V2)
}
