package runtime

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"text/template"
)

// PauseImage is the sandbox image, carried in the payload as pause.tar.
const PauseImage = "localhost/podo/pause:1"

// containerdConfig is what the configuration depends on.
type containerdConfig struct {
	Layout
	PauseImage    string
	SystemdCgroup bool // let systemd make the cgroups
	RestrictOOM   bool // CAP_SYS_RESOURCE is missing: runc could not lower oom_score_adj
}

// Plug-ins that podo has no use for. Each costs start time, memory or a wake-up:
//   - nri and the image verifier run other people's programs from fixed places; restart is ctr's; opt makes /opt/containerd;
//   - the Prometheus and OpenTelemetry ones serve metrics where nobody listens, pprof likewise;
//   - the block file and erofs snapshotters and their helpers are alternatives to overlayfs.
var disabledPlugins = []string{
	"io.containerd.nri.v1.nri",
	"io.containerd.monitor.container.v1.restart",
	"io.containerd.internal.v1.opt",
	"io.containerd.image-verifier.v1.bindir",
	"io.containerd.snapshotter.v1.blockfile",
	"io.containerd.snapshotter.v1.erofs",
	"io.containerd.snapshotter.v1.native",
	"io.containerd.differ.v1.erofs",
	"io.containerd.mount-handler.v1.erofs",
	"io.containerd.server.v1.debug",
	"io.containerd.server.v1.metrics",
	"io.containerd.server.v1.grpc-tcp",
	"io.containerd.metrics.v1.grpc-prometheus",
	"io.containerd.metrics.v1.grpc-otel",
	"io.containerd.http.v1.pprof",
}

// Statistics are collected once a minute instead of once a second: each round asks every shim, which for ten quiet pods took 6.1 % of a
// core at the default, 1.2 % every ten seconds and 0.9 % now. Who wants a pod's CPU rate sooner reads its cgroup.
//
// A shim that does not answer a containerd that has just come is taken for dead, and its containers are ended. On a machine that is busy with
// other things containerd's own five seconds for that ended containers that were well; one that hangs in truth holds up its beginning.
//
// The configuration says only what differs from containerd's defaults. Every path and address that has a default below /run, /etc,
// /opt or /var must be here, or two podos, or podo and another containerd, would meet.
var containerdTOML = template.Must(template.New("containerd").Funcs(template.FuncMap{"q": strconv.Quote}).Parse(`version = 4
root = {{q .Root}}
state = {{q .State}}
imports = []
disabled_plugins = [{{range .Disabled}}
  {{q .}},{{end}}
]

[timeouts]
  'io.containerd.timeout.shim.load' = '30s'

[plugins.'io.containerd.server.v1.grpc']
  address = {{q .Socket}}

[plugins.'io.containerd.server.v1.ttrpc']
  address = {{q .TTRPC}}

[plugins.'io.containerd.shim.v1.manager']
  socket_dir = {{q .Shims}}

[plugins.'io.containerd.monitor.task.v1.cgroups']
  no_prometheus = true

[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  stats_collect_period = 60

  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = {{q .PauseImage}}

  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = {{q .Certs}}

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {{.RestrictOOM}}
  netns_mounts_under_state_dir = true
  stats_collect_period = '1m'
  stats_retention_period = '5m'

  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = 'runc'

    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      runtime_path = {{q .ShimPath}}

      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = {{q .RuncPath}}
        Root = {{q .RuncDir}}
        SystemdCgroup = {{.SystemdCgroup}}

  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [{{q .Bin}}]
    conf_dir = {{q .CNI}}
    use_internal_loopback = true

[plugins.'io.containerd.grpc.v1.cri']
  stream_server_address = '127.0.0.1'
  stream_server_port = '0'
`))

// ShimPath and RuncPath are the programs' stable paths: containers remember them across versions of podo.
func (c containerdConfig) ShimPath() string   { return c.Bin + "/containerd-shim-runc-v2" }
func (c containerdConfig) RuncPath() string   { return c.Bin + "/runc" }
func (c containerdConfig) Disabled() []string { return disabledPlugins }

// render gives the configuration file's text. Paths that TOML or Go quoting would treat differently are refused.
func (c containerdConfig) render() (string, error) {
	for _, p := range []string{c.Bin, c.Root, c.CNI} {
		if q := strconv.Quote(p); strings.Contains(q, `\x`) || strings.Contains(q, `\a`) || strings.Contains(q, `\v`) {
			return "", fmt.Errorf("data directory %q has characters in its name that containerd's configuration cannot hold: choose another --data-dir", p)
		}
	}
	var b bytes.Buffer
	if err := containerdTOML.Execute(&b, c); err != nil {
		return "", err
	}
	return b.String(), nil
}
