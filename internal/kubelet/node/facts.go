package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/host"
)

// capSysResource is the number of CAP_SYS_RESOURCE.
const capSysResource = 24

// Facts are what names the machine and its system. They do not change while this process runs. What can be counted out to pods is
// package cm's.
type Facts struct {
	MachineID   string    // /etc/machine-id
	SystemUUID  string    // of the firmware; the machine id where there is none
	BootID      string    // new with every boot
	Booted      time.Time // zero: nobody knows
	Kernel      string    // release
	OSImage     string    // PRETTY_NAME of os-release
	Swap        int64     // bytes
	SysResource bool      // this process has CAP_SYS_RESOURCE
	UserNS      bool      // this process's users are not the machine's
}

// ReadFacts asks the host. Only the kernel's release must be there; what else is missing stays empty.
func ReadFacts(h host.Files) (Facts, error) {
	read := func(names ...string) string {
		for _, n := range names {
			if b, err := h.ReadFile(n); err == nil {
				if s := strings.Trim(string(b), " \n\x00"); s != "" {
					return s
				}
			}
		}
		return ""
	}
	f := Facts{
		MachineID:  read("/etc/machine-id", "/var/lib/dbus/machine-id"),
		SystemUUID: read("/sys/class/dmi/id/product_uuid", "/proc/device-tree/system-id", "/proc/device-tree/vm,uuid"),
		BootID:     read("/proc/sys/kernel/random/boot_id"),
		Kernel:     read("/proc/sys/kernel/osrelease"),
		OSImage:    "Unknown",
	}
	if f.SystemUUID == "" {
		f.SystemUUID = f.MachineID
	}
	if v, ok := keyed(read("/etc/os-release", "/usr/lib/os-release"), "=", "PRETTY_NAME"); ok {
		f.OSImage = strings.Trim(v, `"'`)
	}
	if f.Kernel == "" {
		return f, fmt.Errorf("node: /proc/sys/kernel/osrelease is empty or missing: mount /proc")
	}
	if v, ok := keyed(read("/proc/stat"), " ", "btime"); ok {
		if at, err := strconv.ParseInt(v, 10, 64); err == nil {
			f.Booted = time.Unix(at, 0)
		}
	}
	if v, ok := keyed(read("/proc/meminfo"), ":", "SwapTotal"); ok {
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(v, "kB")), 10, 64)
		if err != nil {
			return f, fmt.Errorf("node: /proc/meminfo: SwapTotal %q is no number", v)
		}
		f.Swap = kb << 10
	}
	if users := strings.Fields(read("/proc/self/uid_map")); len(users) > 0 {
		f.UserNS = !slices.Equal(users, []string{"0", "0", "4294967295"})
	}
	if v, ok := keyed(read("/proc/self/status"), ":", "CapEff"); ok {
		bits, err := strconv.ParseUint(v, 16, 64)
		f.SysResource = err == nil && bits&(1<<capSysResource) != 0
	}
	return f, nil
}

// StorageBytes is the size of the file system that holds dir, which is the node's capacity of ephemeral storage.
func StorageBytes(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("node: the size of the file system of %s: %w", dir, err)
	}
	return int64(fs.Blocks) * fs.Bsize, nil //nolint:unconvert // the types differ between architectures
}

// keyed finds the value of key in lines like "key<sep> value".
func keyed(text, sep, key string) (string, bool) {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, sep); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}
