package runtime

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"podo.dev/podo/internal/host/dump"
)

// Check says everything about this machine that would keep the runtime from working, and what to do about it. It changes nothing that
// stays.
func (r *Runtime) Check(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("podo must run as root to make namespaces, mounts and networks: use sudo")
	}
	return errors.Join(
		checkKernel(),
		checkCgroups("/sys/fs/cgroup"),
		checkOverlay(r.cfg.DataDir),
		checkAddresses(r.cfg.PodCIDRs, r.layout.Bridge),
		nft(ctx, rules(r.layout.Table, r.cfg.PodCIDRs, r.cfg.ClusterCIDRs, r.cfg.Redirects), true),
	)
}

func checkKernel() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("the kernel has no pidfd_open (%w): Linux 5.3 or newer is needed", err)
	}
	return unix.Close(fd)
}

// checkCgroups accepts version 2 and version 1.
func checkCgroups(root string) error {
	if have, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil {
		var missing []string
		for _, c := range []string{"cpu", "memory", "pids"} {
			if !slices.Contains(strings.Fields(string(have)), c) {
				missing = append(missing, c)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("the kernel offers no cgroup controller for %s (%s/cgroup.controllers): it may be off on the kernel's command line "+
				"(cgroup_disable=memory; some boards need cgroup_enable=memory), or bound to version 1", strings.Join(missing, ", "), root)
		}
		return nil
	}
	var missing []string
	for _, c := range []string{"cpu", "cpuset", "memory", "pids", "devices", "freezer"} {
		if _, err := os.Stat(filepath.Join(root, c)); err != nil {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("cgroups are not mounted at %s (version 1 controllers missing: %s): mount cgroup2 there", root, strings.Join(missing, ", "))
	}
	return nil
}

// checkOverlay mounts an overlay where images will be, since that depends on the file system below as well.
func checkOverlay(dataDir string) (err error) {
	if err := os.MkdirAll(dataDir, 0o711); err != nil {
		return err
	}
	if err := sweepChecks(dataDir); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(dataDir, overlayCheck)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return err
		}
	}
	opts := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	if strings.ContainsAny(dir, ",:") {
		return fmt.Errorf("data directory %s: its path must hold no comma or colon, overlay mounts cannot name it", dataDir)
	}
	merged := filepath.Join(dir, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0, opts); err != nil {
		return fmt.Errorf("no overlay can be mounted in %s: %w (modprobe overlay, or choose a --data-dir on ext4 or xfs)", dataDir, err)
	}
	return unix.Unmount(merged, unix.MNT_DETACH)
}

// overlayCheck begins the names of the folders in which overlays are tried.
const overlayCheck = ".overlay-check-"

// sweepChecks takes away what a check that was killed has left.
func sweepChecks(dataDir string) error {
	left, err := filepath.Glob(filepath.Join(dataDir, overlayCheck+"*"))
	for _, dir := range left {
		if err = errors.Join(err, unmountBelow(dir)); err == nil {
			err = os.RemoveAll(dir)
		}
	}
	return err
}

// checkAddresses refuses pod ranges that an interface of this machine, other than our bridge, already has.
func checkAddresses(pods []netip.Prefix, bridge string) error {
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range links {
		if l.Attrs().Name == bridge {
			continue
		}
		addrs, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(l, netlink.FAMILY_ALL) })
		if err != nil {
			continue // it went away
		}
		for _, a := range addrs {
			ip, ok := netip.AddrFromSlice(a.IP)
			if !ok {
				continue
			}
			ones, _ := a.Mask.Size()
			used := netip.PrefixFrom(ip.Unmap(), ones)
			for _, p := range pods {
				if p.Overlaps(used) {
					errs = append(errs, fmt.Errorf("pod addresses %s meet %s of interface %s: choose another --pod-cidr", p, used, l.Attrs().Name))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// hasSysResource tells whether this process may lower OOM scores, which runc does for containers.
func hasSysResource() bool {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	return hasCapability(string(data), unix.CAP_SYS_RESOURCE)
}

// hasCapability reads the effective set out of a /proc/PID/status text.
func hasCapability(status string, capability uint) bool {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			return err == nil && set>>capability&1 == 1
		}
	}
	return false
}

// UseSystemd tells whether systemd manages this machine, so that cgroups should be made through it.
func UseSystemd() bool {
	fi, err := os.Lstat("/run/systemd/system")
	return err == nil && fi.IsDir()
}
