package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A server, or an agent, checks the host before anything is started. Each problem is one line that says what is wrong and what to do; all are
// told at once, so that a newcomer mends them in one go. What only the embedded runtime needs (cgroups, overlay, nft) is
// checked by package runtime, in the same pass.

// minFreeBytes is what a new data directory must have free: etcd's preallocated log, its database and the helpers. One that is in use may
// have less: a disk that pods have filled is made free by the node that runs them.
const minFreeBytes = 512 << 20

// usedPort is a port that must be free on some addresses.
type usedPort struct {
	what string
	port int
	from string // what named the addresses
	ips  []string
}

// ports are those of a node's kubelet.
func (p *process) ports() []usedPort {
	c, from := p.node.config, "address in the kubelet configuration:"
	if c.Address == p.cfg.NodeIP {
		from = "--node-ip"
	}
	all := []usedPort{{"--kubelet-port", p.cfg.KubeletPort, from, []string{c.Address}}}
	if *c.HealthzPort > 0 {
		all = append(all, usedPort{
			"the kubelet's health port (--kubelet-port minus 2)", int(*c.HealthzPort), "healthzBindAddress in the kubelet configuration:", []string{c.HealthzBindAddress},
		})
	}
	if c.ReadOnlyPort > 0 {
		all = append(all, usedPort{"readOnlyPort in the kubelet configuration", int(c.ReadOnlyPort), from, []string{c.Address}})
	}
	return all
}

// preflight returns every problem found, or nil. verb names what was started; ports are those beside the kubelet's.
func (p *process) preflight(verb string, lookPath func(string) (string, error), ports ...usedPort) error {
	var problems []error
	if os.Geteuid() != 0 {
		problems = append(problems, fmt.Errorf("podo %s runs containers and needs root: run it with sudo", verb))
	}
	ports = append(ports, p.ports()...)
	for i, one := range ports {
		if k := slices.IndexFunc(ports[:i], one.meets); k >= 0 {
			problems = append(problems, fmt.Errorf("%s and %s are both %d: they must differ", ports[k].what, one.what, one.port))
			continue
		}
		problems = append(problems, one.free())
	}
	if _, err := os.Stat(p.dirs.run()); err != nil {
		problems = append(problems, enoughSpace(p.dirs.Root))
	}
	if _, err := lookPath("mount"); err != nil {
		problems = append(problems, errors.New("program mount not found: volumes need it, install util-linux"))
	}
	return errors.Join(problems...)
}

var lookPath = exec.LookPath

// meets tells whether two ports cannot be had beside each other.
func (u usedPort) meets(o usedPort) bool {
	return u.port == o.port && slices.ContainsFunc(u.ips, func(ip string) bool {
		a, _ := netip.ParseAddr(ip)
		return slices.ContainsFunc(o.ips, func(other string) bool {
			b, _ := netip.ParseAddr(other)
			return a == b || a.IsUnspecified() || b.IsUnspecified()
		})
	})
}

func (u usedPort) free() error {
	for _, ip := range u.ips {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(u.port)))
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			return fmt.Errorf("%s: port %d on %s is in use by another program: stop it (ss -ltnp 'sport = :%d' shows it) or choose another port", u.what, u.port, ip, u.port)
		case errors.Is(err, unix.EADDRNOTAVAIL):
			return fmt.Errorf("%s %s is not an address of this host (ip addr shows those that are)", u.from, ip)
		case err != nil:
			return fmt.Errorf("%s: cannot listen on %s port %d: %w", u.what, ip, u.port, err)
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
