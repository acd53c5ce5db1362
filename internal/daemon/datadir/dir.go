// Package datadir is podo's folder on a host: its layout, whose it is, and which process uses it now. Everything durable that
// podo writes on a host is below it; what a reboot ends (sockets, network namespaces) is below /run/podo.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"podo.dev/podo/internal/runtime"
)

// Dir is a data directory, by its layout. It need not exist.
type Dir struct{ Root string }

func (d Dir) path(elem ...string) string { return filepath.Join(append([]string{d.Root}, elem...)...) }

func (d Dir) lock() string         { return d.path("lock") }
func (d Dir) version() string      { return d.path("version") }
func (d Dir) run() string          { return d.path("run.json") }
func (d Dir) ServerID() string     { return d.path("server-id") }
func (d Dir) PKI() string          { return d.path("pki") }
func (d Dir) Kubeconfig() string   { return d.path("kubeconfig") }
func (d Dir) Etcd() string         { return d.path("etcd") }
func (d Dir) Bin() string          { return d.path("bin") }
func (d Dir) Kubelet() string      { return d.path("kubelet") }
func (d Dir) Manifests() string    { return d.path("manifests") }
func (d Dir) Routes() string       { return d.path("routes.json") }
func (d Dir) Timeline() string     { return d.path("timeline") }
func (d Dir) Shipped() string      { return d.path("timeline", "shipped") } // how much of an agent's its server has
func (d Dir) Log() string          { return d.path("log", "podo.log") }
func (d Dir) Agent() string        { return d.path("agent.json") }     // what an agent remembers; no server has it
func (d Dir) Certificates() string { return d.path("kubelet", "pki") } // an agent's own

// PodLogs is the kubelet's podLogsDir when its configuration names none (docs/decisions/0004).
func (d Dir) PodLogs() string { return d.path("log", "pods") }

// CgroupRoot differs between the servers of one host.
func (d Dir) CgroupRoot() string { return "/podo-" + runtime.LayoutFor(d.Root).ID }

// Existing is an existing data directory by its real path, which is also the one that the server uses.
func Existing(dataDir string) (Dir, error) {
	real, err := filepath.EvalSymlinks(dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return Dir{}, fmt.Errorf("no cluster in %s: there is nothing to stop or remove (another one? give its --data-dir)", dataDir)
	}
	if err != nil {
		return Dir{}, err
	}
	real, err = filepath.Abs(real)
	if err != nil {
		return Dir{}, err
	}
	d := Dir{Root: real}
	if _, err := os.Stat(d.version()); err != nil {
		return Dir{}, fmt.Errorf("%s is not a data directory of podo (it has no file named version): nothing was touched", real)
	}
	return d, nil
}

// ForAgent refuses a data directory that belongs to a server.
func (d Dir) ForAgent() error {
	if _, err := os.Stat(d.PKI()); err == nil {
		return fmt.Errorf("%s is the data directory of a server: give the agent one of its own with --data-dir", d.Root)
	}
	return nil
}

// ForServer refuses one that is an agent's.
func (d Dir) ForServer() error {
	if _, err := os.Stat(d.Agent()); err == nil {
		return fmt.Errorf("%s is the data directory of an agent: give the server one of its own with --data-dir, or remove it with `podo reset`", d.Root)
	}
	return nil
}
