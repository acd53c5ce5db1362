// Package joined is what an agent remembers of the cluster that it has joined, so that it starts without its server: which one it is, and the
// pod network there. Its file is also what tells an agent's data directory from a server's.
package joined

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"sync"

	"podo.dev/podo/internal/daemon/datadir"
)

// Cluster is what is remembered.
type Cluster struct {
	dir datadir.Dir
	mu  sync.Mutex // held while it is changed and written

	Server     string         `json:"server"`
	Node       string         `json:"node"`
	Registered bool           `json:"registered"` // the node's name is this machine's
	Pods       []netip.Prefix `json:"pods,omitempty"`
	Cluster    []netip.Prefix `json:"cluster,omitempty"`
	HealthAt   string         `json:"healthAt,omitempty"` // where the kubelet tells its health; "": nowhere
	Service    netip.Addr     `json:"service,omitzero"`   // of the Service "kubernetes"
}

// Load reads what was remembered in a data directory; nothing, before the first start.
func Load(d datadir.Dir) (*Cluster, error) {
	j := &Cluster{dir: d}
	content, err := os.ReadFile(d.Agent())
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, j); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it, the next start writes it anew", d.Agent(), err)
	}
	return j, nil
}

func (j *Cluster) write() error {
	content, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return datadir.WriteFile(j.dir.Agent(), append(content, '\n'), 0o600)
}

// Claim makes the data directory this node's. One of another node is refused: its pods would be nobody's.
func (j *Cluster) Claim(node, server, healthAt string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.Registered && j.Node != node {
		return fmt.Errorf("%s belongs to the node %q: give that --node-name, or `podo down` and `podo reset` it first", j.dir.Root, j.Node)
	}
	j.Node, j.Server, j.HealthAt = node, server, healthAt
	return j.write()
}

// Register remembers that the node's name is this machine's.
func (j *Cluster) Register() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Registered = true
	return j.write()
}

// SetNetwork remembers the addresses of this node's pods, of all nodes', and of the Service "kubernetes".
func (j *Cluster) SetNetwork(pods, cluster []netip.Prefix, service netip.Addr) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Pods, j.Cluster, j.Service = pods, cluster, service
	return j.write()
}

// Network is what SetNetwork was told last; without addresses before that.
func (j *Cluster) Network() (pods, cluster []netip.Prefix, service netip.Addr) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Pods, j.Cluster, j.Service
}
