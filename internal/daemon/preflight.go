package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A server, or an agent, checks the host before anything is started. Each problem is one line that says what is wrong and what to do; all are
// told at once, so that a newcomer mends them in one go. What only the embedded runtime needs (cgroups, overlay, nft) is
// checked by package runtime, in the same pass.

// minFreeBytes is what the data directory must have free: etcd's preallocated log, its database and the helpers.
const minFreeBytes = 512 << 20

// usedPort is a port that must be free on some addresses.
type usedPort struct {
	what string
	port int
	ips  []string
}

// ports are those of a node's kubelet.
func (c *NodeConfig) ports() []usedPort {
	return []usedPort{
		{"--kubelet-port", c.KubeletPort, []string{"127.0.0.1", c.NodeIP}},
		{"the kubelet's health port (--kubelet-port minus 2)", c.healthzPort(), []string{"127.0.0.1"}},
	}
}

// preflight returns every problem found, or nil.
func preflight(c Config, lookPath func(string) (string, error)) error {
	api := usedPort{"--https-port", c.HTTPSPort, []string{"127.0.0.1", c.NodeIP}}
	return preflightNode("server", c.NodeConfig, append([]usedPort{api}, c.ports()...), lookPath)
}

// preflightNode is what every node needs. verb names what was started.
func preflightNode(verb string, c NodeConfig, ports []usedPort, lookPath func(string) (string, error)) error {
	var problems []error
	if os.Geteuid() != 0 {
		problems = append(problems, fmt.Errorf("podo %s runs containers and needs root: run it with sudo", verb))
	}
	for _, p := range ports {
		problems = append(problems, portFree(p.what, p.port, p.ips))
	}
	problems = append(problems, enoughSpace(c.DataDir))
	if _, err := lookPath("mount"); err != nil {
		problems = append(problems, errors.New("program mount not found: volumes need it, install util-linux"))
	}
	return errors.Join(problems...)
}

var lookPath = exec.LookPath

func portFree(what string, port int, ips []string) error {
	for _, ip := range ips {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			return fmt.Errorf("%s: port %d on %s is in use by another program: stop it (ss -ltnp 'sport = :%d' shows it) or choose another port", what, port, ip, port)
		case errors.Is(err, unix.EADDRNOTAVAIL):
			return fmt.Errorf("--node-ip %s is not an address of this host (ip addr shows those that are)", ip)
		case err != nil:
			return fmt.Errorf("%s: cannot listen on %s port %d: %w", what, ip, port, err)
		}
		l.Close()
	}
	return nil
}

func enoughSpace(dir string) error {
	for { // the directory may not exist yet: ask its nearest parent that does
		var fs unix.Statfs_t
		err := unix.Statfs(dir, &fs)
		if errors.Is(err, unix.ENOENT) && dir != "/" {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot look at the disk under %s: %w", dir, err)
		}
		if free := fs.Bavail * uint64(fs.Bsize); free < minFreeBytes {
			return fmt.Errorf("%s has %d MB free, podo needs %d MB: make room or use --data-dir on another disk", dir, free>>20, uint64(minFreeBytes)>>20)
		}
		return nil
	}
}
