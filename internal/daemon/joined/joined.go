// Package joined is what an agent remembers of the cluster that it joined, so that it can start without its server: the cluster's
// identity and the pod network. Its file also tells an agent's data directory from a server's.
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
	HealthAt   string         `json:"healthAt,omitempty"` // where the kubelet serves its health; "": nowhere
	Service    netip.Addr     `json:"service,omitzero"`   // of the Service "kubernetes"
}

// Load reads what a data directory remembers; nothing, before the first start.
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

// Claim records that the data directory is this node's. It fails for a directory of another node, whose pods would belong to
// nobody.
func (j *Cluster) Claim(node, server, healthAt string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.Registered && j.Node != node {
		return fmt.Errorf("%s belongs to the node %q: give that --node-name, or `podo down` and `podo reset` it first", j.dir.Root, j.Node)
	}
	j.Node, j.Server, j.HealthAt = node, server, healthAt
	return j.write()
}

// Register records that the node's name is this machine's.
func (j *Cluster) Register() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Registered = true
	return j.write()
}

// SetNetwork records the pod ranges of this node and of all nodes, and the address of the Service "kubernetes".
func (j *Cluster) SetNetwork(pods, cluster []netip.Prefix, service netip.Addr) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Pods, j.Cluster, j.Service = pods, cluster, service
	return j.write()
}

// Network is what SetNetwork recorded last; no addresses before that.
func (j *Cluster) Network() (pods, cluster []netip.Prefix, service netip.Addr) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Pods, j.Cluster, j.Service
}
