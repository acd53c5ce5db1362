// Package preflight checks the host before anything is started. Each problem is one line with what is wrong and what to do, and
// all are reported at once. What only the embedded runtime needs (cgroups, overlay, nft) is checked by package runtime, in the
// same pass.
package preflight

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/daemon/datadir"
)

// minFreeBytes is the free space that a new data directory needs: etcd's preallocated log, its database and the helpers. An
// existing one may have less: the node that runs the pods frees a disk that they have filled.
const minFreeBytes = 512 << 20

// Port is one that must be free on some addresses.
type Port struct {
	What string
	Port int
	From string // what named the addresses
	IPs  []string
}

// Check returns every problem found, or nil. verb names what was started.
func Check(verb string, dir datadir.Dir, ports []Port, lookPath func(string) (string, error)) error {
	var problems []error
	if os.Geteuid() != 0 {
		problems = append(problems, fmt.Errorf("podo %s runs containers and needs root: run it with sudo", verb))
	}
	for i, one := range ports {
		if k := slices.IndexFunc(ports[:i], one.meets); k >= 0 {
			problems = append(problems, fmt.Errorf("%s and %s are both %d: they must differ", ports[k].What, one.What, one.Port))
			continue
		}
		problems = append(problems, one.free())
	}
	if !dir.HasRun() {
		problems = append(problems, enoughSpace(dir.Root))
	}
	if _, err := lookPath("mount"); err != nil {
		problems = append(problems, errors.New("program mount not found: volumes need it, install util-linux"))
	}
	return errors.Join(problems...)
}

// meets tells whether two ports exclude each other.
func (p Port) meets(o Port) bool {
	return p.Port == o.Port && slices.ContainsFunc(p.IPs, func(ip string) bool {
		a, _ := netip.ParseAddr(ip)
		return slices.ContainsFunc(o.IPs, func(other string) bool {
			b, _ := netip.ParseAddr(other)
			return a == b || a.IsUnspecified() || b.IsUnspecified()
		})
	})
}

func (p Port) free() error {
	for _, ip := range p.IPs {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(p.Port)))
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			return fmt.Errorf("%s: port %d on %s is in use by another program: stop it (ss -ltnp 'sport = :%d' shows it) or choose another port", p.What, p.Port, ip, p.Port)
		case errors.Is(err, unix.EADDRNOTAVAIL):
			return fmt.Errorf("%s %s is not an address of this host (ip addr shows those that are)", p.From, ip)
		case err != nil:
			return fmt.Errorf("%s: cannot listen on %s port %d: %w", p.What, ip, p.Port, err)
		}
		l.Close()
	}
	return nil
}

func enoughSpace(dir string) error {
	for { // the directory may not exist yet: ask its nearest parent that does
		var fsys unix.Statfs_t
		err := unix.Statfs(dir, &fsys)
		if errors.Is(err, unix.ENOENT) && dir != "/" {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot look at the disk under %s: %w", dir, err)
		}
		if free := fsys.Bavail * uint64(fsys.Bsize); free < minFreeBytes {
			return fmt.Errorf("%s has %d MB free, podo needs %d MB: make room or use --data-dir on another disk", dir, free>>20, uint64(minFreeBytes)>>20)
		}
		return nil
	}
}
