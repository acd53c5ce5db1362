// Package node is the node's half of the composition root: it builds a kubelet, by hand, of the modules that never import each other, and
// runs them together. A server and an agent run the same one; what is different between them is a Cluster.
//
//	resources ─► node status ─► volumes, images, specs ─► probes ─► pods' workers ─► the kubelet's server ─► collectors ─► eviction
//
// Each Run makes everything anew, so that a supervisor may call it again after a failure. Its end touches no container.
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/kubelet/admit"
	"podo.dev/podo/internal/kubelet/server"
	"podo.dev/podo/internal/kubelet/stats"
	"podo.dev/podo/internal/timeline/recorder"
	"podo.dev/podo/internal/view"
)

// Config is what the machine and its owner say of the node. It is checked and complete before a Run.
type Config struct {
	Name    string
	IP      netip.Addr
	Port    int              // of the kubelet's server
	Own     []admit.Listener // by which the machine's podo is reached; no pod may have them
	Version string           // what the node says it runs: upstream's

	DataDir    string // the file system that is the node's storage
	Dir        string // the kubelet's own files
	OwnLogs    bool   // no other kubelet has logs in that folder: those must never be collected
	CgroupRoot string // unless the configuration says another
	Systemd    bool   // the cgroup driver
	Kubelet    *v1beta1.KubeletConfiguration
	CredentialProviders

	Host           host.Host
	Runtime        Runtime
	SandboxSeccomp string // the seccomp profile of the runtime's own first process; "": the runtime's default

	Stats        *atomic.Pointer[stats.Source] // receives the node's statistics for readers in process; nil: there are none
	Timeline     *recorder.Recorder
	Log          *slog.Logger
	Flags        map[string]string       // the flags of the process, for /flagz; no secrets
	SetVerbosity func(text string) error // changes what is logged from now on
}

// CredentialProviders are the plug-ins with credentials for registries; none when Config is empty.
type CredentialProviders struct {
	Config string // a CredentialProviderConfig file or a folder of such
	BinDir string
}

// Runtime is the container runtime of the kubelet's modules, which also tells the progress of its pulls.
type Runtime interface {
	cri.Runtime
	stats.Runtime
	server.Runtime
	Fetching(ctx context.Context) (done, total int64, err error)
	Observe(containerd.Observer)
}

// Cluster is the kubelet's way to the rest of its cluster: in process on a server, over HTTP on an agent.
type Cluster struct {
	Client  client.Client
	View    *view.View
	PodCIDR netip.Prefix // what the node registers with; invalid: the cluster assigns one

	Serving      *tls.Config // of the kubelet's own server: its certificate, and the authority for its clients
	Authenticate func(*http.Request) (user.Info, bool, error)
	Authorize    func(ctx context.Context, u user.Info, verb, subresource, path string) (bool, error)
	Metrics      []prometheus.Collector // of the node's certificates and the like
	// Registered, when set, is told each time the node is new in the API, also after somebody deleted it. It must not block.
	Registered func()
}

func (c *Config) validate() error {
	if c.Name == "" || !c.IP.IsValid() || c.Dir == "" || c.DataDir == "" {
		return errors.New("a kubelet needs a name, an address and folders")
	}
	if c.Kubelet == nil || c.Host == nil || c.Runtime == nil || c.Timeline == nil || c.Log == nil {
		return errors.New("a kubelet needs a configuration, a host, a runtime, a timeline and a log")
	}
	return nil
}

// In is the Node object of a view, nil while there is none.
func In(v *view.View, name string) *v1.Node {
	e := v.Snapshot().Get(client.Nodes.At("", "").Resource, "", name)
	if e == nil {
		return nil
	}
	n, _ := e.Object.(*v1.Node)
	return n
}
