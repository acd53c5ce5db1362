package daemon

import (
	"path/filepath"
)

// Dirs is the layout of a data directory. Everything durable that podo writes on a host is below it; what a
// reboot ends (sockets, network namespaces) is below /run/podo.
type Dirs struct{ Root string }

func (d Dirs) path(elem ...string) string { return filepath.Join(append([]string{d.Root}, elem...)...) }

func (d Dirs) Lock() string       { return d.path("lock") }
func (d Dirs) Version() string    { return d.path("version") }
func (d Dirs) ServerID() string   { return d.path("server-id") }
func (d Dirs) PKI() string        { return d.path("pki") }
func (d Dirs) Kubeconfig() string { return d.path("kubeconfig") }
func (d Dirs) Etcd() string       { return d.path("etcd") }
func (d Dirs) Bin() string        { return d.path("bin") }
func (d Dirs) Kubelet() string    { return d.path("kubelet") }
func (d Dirs) Manifests() string  { return d.path("manifests") }
func (d Dirs) Timeline() string   { return d.path("timeline") }
func (d Dirs) Log() string        { return d.path("log", "podo.log") }

// PodLogs is the kubelet's podLogsDir when its configuration names none (docs/decisions/0004).
func (d Dirs) PodLogs() string { return d.path("log", "pods") }
