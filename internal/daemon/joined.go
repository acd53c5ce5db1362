package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"podo.dev/podo/internal/runtime"
)

// joined is what an agent remembers, so that it starts without its server: which cluster it belongs to, and its pod network. Its file is
// also what tells an agent's data directory from a server's.
type joined struct {
	mu sync.Mutex // held while it is changed and written

	Server     string         `json:"server"`
	Node       string         `json:"node"`
	Registered bool           `json:"registered"` // the node's name is this machine's
	Pods       []netip.Prefix `json:"pods,omitempty"`
	Cluster    []netip.Prefix `json:"cluster,omitempty"`
	HealthAt   string         `json:"healthAt,omitempty"` // where the kubelet tells its health; "": nowhere
	Service    netip.Addr     `json:"service,omitzero"`   // of the Service "kubernetes"
}

func (d Dirs) joined() string { return d.path("agent.json") }

// Certificates is where an agent keeps its own.
func (d Dirs) Certificates() string { return d.path("kubelet", "pki") }

// ofAgent refuses a data directory that is a server's.
func ofAgent(d Dirs) error {
	if _, err := os.Stat(d.PKI()); err == nil {
		return fmt.Errorf("%s is the data directory of a server: give the agent one of its own with --data-dir", d.Root)
	}
	return nil
}

// ofServer refuses one that is an agent's.
func ofServer(d Dirs) error {
	if _, err := os.Stat(d.joined()); err == nil {
		return fmt.Errorf("%s is the data directory of an agent: give the server one of its own with --data-dir, or remove it with `podo reset`", d.Root)
	}
	return nil
}

func loadJoined(d Dirs) (*joined, error) {
	content, err := os.ReadFile(d.joined())
	if errors.Is(err, fs.ErrNotExist) {
		return &joined{}, nil
	}
	if err != nil {
		return nil, err
	}
	j := &joined{}
	if err := json.Unmarshal(content, j); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it, the next start writes it anew", d.joined(), err)
	}
	return j, nil
}

func (j *joined) write(d Dirs) error {
	content, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return writeFile(d.joined(), append(content, '\n'), 0o600)
}

// claim makes the data directory this node's. One of another node is refused: its pods would be nobody's.
func (j *joined) claim(d Dirs, c AgentConfig, healthAt string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.Registered && j.Node != c.NodeName {
		return fmt.Errorf("%s belongs to the node %q: give that --node-name, or `podo down` and `podo reset` it first", d.Root, j.Node)
	}
	j.Node, j.Server, j.HealthAt = c.NodeName, c.Server, healthAt
	return j.write(d)
}

// healthAt is where the kubelet tells its health.
func (p *process) healthAt() string {
	c := p.node.config
	if *c.HealthzPort <= 0 {
		return ""
	}
	return net.JoinHostPort(c.HealthzBindAddress, strconv.Itoa(int(*c.HealthzPort)))
}

func (j *joined) registered(d Dirs) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Registered = true
	return j.write(d)
}

func (j *joined) addressed(d Dirs, pods, cluster []netip.Prefix, service netip.Addr) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Pods, j.Cluster, j.Service = pods, cluster, service
	return j.write(d)
}

// network is the pod network as it was told last; without addresses before that.
func (j *joined) network(c AgentConfig) runtime.Network {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := runtime.Network{Pods: j.Pods, Cluster: j.Cluster}
	if j.Service.IsValid() && c.address.IsValid() && j.Service.Is4() == c.address.Addr().Is4() {
		n.Redirects = []runtime.Redirect{toAPI(j.Service, c.address)}
	}
	return n
}

// AgentStatus is what is known of an agent without asking its server.
type AgentStatus struct {
	Server, Node string
	PID          int   // 0: it does not run
	Unhealthy    error // what the kubelet says against itself
}

// Agent tells of the agent of a data directory; nil when it is not an agent's.
func Agent(dataDir string) (*AgentStatus, error) {
	d := Dirs{Root: dataDir}
	if ofServer(d) == nil {
		return nil, nil
	}
	j, err := loadJoined(d)
	if err != nil {
		return nil, err
	}
	a := &AgentStatus{Server: j.Server, Node: j.Node}
	if a.PID, err = Running(d); err != nil || a.PID == 0 || j.HealthAt == "" {
		return a, err
	}
	client := &http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + j.HealthAt + "/healthz")
	if err != nil {
		a.Unhealthy = err
		return a, nil
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)); resp.StatusCode != http.StatusOK {
		a.Unhealthy = errors.New(strings.TrimSpace(string(text)))
	}
	return a, nil
}
