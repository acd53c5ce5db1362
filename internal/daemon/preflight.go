package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A server checks the host before anything is started. Each problem is one line that says what is wrong and what to do; all are
// told at once, so that a newcomer mends them in one go.

// minFreeBytes is what the data directory must have free: the unpacked helpers, etcd's preallocated log and a few images.
const minFreeBytes = 512 << 20

// preflight returns every problem found, or nil.
func preflight(c Config, host hostFacts) error {
	var problems []error
	add := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	if host.euid != 0 {
		add(errors.New("podo server runs containers and needs root: run it with sudo"))
	}
	for _, p := range []struct {
		flag string
		port int
		ips  []string
	}{
		{"--https-port", c.HTTPSPort, []string{"127.0.0.1", c.NodeIP}},
		{"--kubelet-port", c.KubeletPort, []string{"127.0.0.1", c.NodeIP}},
		{"the kubelet's health port (--kubelet-port minus 2)", c.healthzPort(), []string{"127.0.0.1"}},
	} {
		add(portFree(p.flag, p.port, p.ips))
	}
	add(enoughSpace(c.DataDir))
	if c.ContainerRuntimeEndpoint == "" {
		add(host.cgroupsMounted())
		add(host.filesystem("overlay", "container images need it: modprobe overlay"))
		add(host.program("nft", "pods' networking needs it: apt-get install nftables (or your distribution's package of that name)"))
		add(host.program("mount", "volumes need it: install util-linux"))
	}
	return errors.Join(problems...)
}

// hostFacts is what preflight looks at; tests point it elsewhere.
type hostFacts struct {
	euid     int
	procRoot string // /proc
	cgroup   string // /sys/fs/cgroup
	lookPath func(string) (string, error)
}

func realHost() hostFacts {
	return hostFacts{euid: os.Geteuid(), procRoot: "/proc", cgroup: "/sys/fs/cgroup", lookPath: exec.LookPath}
}

// cgroupsMounted wants the memory, cpu and pids controllers, on v1 or v2. (hugetlb and others may be missing.)
func (h hostFacts) cgroupsMounted() error {
	if controllers, err := os.ReadFile(filepath.Join(h.cgroup, "cgroup.controllers")); err == nil {
		have := strings.Fields(string(controllers))
		for _, want := range []string{"cpu", "memory", "pids"} {
			if !contains(have, want) {
				return fmt.Errorf("cgroup v2 at %s lacks the %s controller: enable it on the kernel's command line (cgroup_enable=%s)", h.cgroup, want, want)
			}
		}
		return nil
	}
	for _, want := range []string{"cpu", "memory", "pids", "devices", "freezer"} {
		if _, err := os.Stat(filepath.Join(h.cgroup, want)); err != nil {
			return fmt.Errorf("no cgroup %s controller under %s: mount cgroup v2 there (mount -t cgroup2 none %s) or the v1 controllers", want, h.cgroup, h.cgroup)
		}
	}
	return nil
}

func (h hostFacts) filesystem(name, remedy string) error {
	list, err := os.ReadFile(filepath.Join(h.procRoot, "filesystems"))
	if err != nil {
		return fmt.Errorf("cannot read the kernel's list of filesystems: %w", err)
	}
	for _, line := range strings.Split(string(list), "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[len(f)-1] == name {
			return nil
		}
	}
	return fmt.Errorf("the kernel has no %s filesystem: %s", name, remedy)
}

func (h hostFacts) program(name, remedy string) error {
	if _, err := h.lookPath(name); err != nil {
		return fmt.Errorf("program %s not found: %s", name, remedy)
	}
	return nil
}

// missingCapability tells once that the node works without CAP_SYS_RESOURCE, or "" when it has it.
func (h hostFacts) missingCapability() string {
	status, err := os.ReadFile(filepath.Join(h.procRoot, "self", "status"))
	if err != nil {
		return ""
	}
	const capSysResource = 24
	for _, line := range strings.Split(string(status), "\n") {
		hex, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		if err == nil && set&(1<<capSysResource) == 0 {
			return "CAP_SYS_RESOURCE is missing: containers keep podo's oom_score_adj where theirs would be lower"
		}
	}
	return ""
}

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
			return fmt.Errorf("%s has %d MB free, podo needs %d MB: make room or use --data-dir on another disk", dir, free>>20, minFreeBytes>>20)
		}
		return nil
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
