package linux

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"podo.dev/podo/internal/host"
)

// mountFlags are the options that are flags of mount(2); any other one is data for the file system.
var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "rw": 0, "defaults": 0,
	"nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "relatime": unix.MS_RELATIME, "nodiratime": unix.MS_NODIRATIME, "strictatime": unix.MS_STRICTATIME,
	"lazytime": unix.MS_LAZYTIME, "sync": unix.MS_SYNCHRONOUS, "dirsync": unix.MS_DIRSYNC,
	"suid": 0, "dev": 0, "exec": 0, "atime": 0, "diratime": 0, "async": 0, "auto": 0, "noauto": 0, "nofail": 0, "_netdev": 0,
	"bind": unix.MS_BIND, "rbind": unix.MS_BIND | unix.MS_REC, "remount": unix.MS_REMOUNT,
	"private": unix.MS_PRIVATE, "rprivate": unix.MS_PRIVATE | unix.MS_REC,
	"shared": unix.MS_SHARED, "rshared": unix.MS_SHARED | unix.MS_REC,
	"slave": unix.MS_SLAVE, "rslave": unix.MS_SLAVE | unix.MS_REC,
}

// Mount implements host.Mounts with mount(2): mount(8), which mount-utils would execute for each, costs milliseconds.
func (Host) Mount(source, target, fsType string, options []string) error {
	var flags uintptr
	var data []string
	for _, o := range options {
		if f, ok := mountFlags[o]; ok {
			flags |= f
			continue
		}
		data = append(data, o)
	}
	bind := flags&unix.MS_BIND != 0
	if bind {
		fsType = ""
	}
	if err := unix.Mount(source, target, fsType, flags, strings.Join(data, ",")); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	// A bind mount ignores all flags but "recursive" until it is remounted.
	const later = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME
	if bind && flags&later != 0 && flags&unix.MS_REMOUNT == 0 {
		if err := unix.Mount("", target, "", flags|unix.MS_REMOUNT, ""); err != nil {
			unix.Unmount(target, unix.MNT_DETACH) //nolint:errcheck // the first error is the one to tell
			return fmt.Errorf("remount %s with %s: %w", target, strings.Join(options, ","), err)
		}
	}
	return nil
}

// MountDevice implements host.Mounts with the programs that are made for it: blkid, fsck, mkfs and mount. The device is
// locked meanwhile.
func (Host) MountDevice(device, target, fsType string, options []string) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	if err := lock(f); err != nil {
		return err
	}
	// One that is mounted already is not checked: not every fsck knows that, and it would write below what is in use.
	free, err := os.OpenFile(device, os.O_RDONLY|os.O_EXCL, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return mount.NewWithoutSystemd("").Mount(device, target, fsType, options)
	case err != nil:
		return err
	}
	free.Close() //nolint:errcheck // read only
	return mount.NewSafeFormatAndMount(mount.NewWithoutSystemd(""), exec.New()).FormatAndMount(device, target, fsType, options)
}

// lockLimit is how long somebody else may have a device locked: as long as it takes to make a file system on most.
const lockLimit = 10 * time.Second

// lock takes a device's lock. The kernel tells only those of its being free who wait for it without end, out of which nothing but a signal
// would take them: so it is tried again and again, and given up in time. Who has it may never let go.
func lock(device *os.File) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(device.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", device.Name(), err)
		case time.Since(began) > lockLimit:
			return fmt.Errorf("%s is locked by another program: %w", device.Name(), host.ErrBusy)
		}
	}
}

// Unmount implements host.Mounts. Symbolic links are not followed: a pod could have put one in the way.
func (Host) Unmount(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	switch {
	case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // EINVAL: not a mount point
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("unmount %s: %w", target, host.ErrBusy)
	}
	return fmt.Errorf("unmount %s: %w", target, err)
}

// IsMount implements host.Mounts with one statx(2); kernels before 5.8, which do not tell, make it read the table.
func (h Host) IsMount(path string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	table, err := h.MountTable()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(table, func(m host.Mount) bool { return m.Target == path }), nil
}

// MountTable implements host.Mounts.
func (Host) MountTable() ([]host.Mount, error) {
	infos, err := mount.ParseMountInfo("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	out := make([]host.Mount, len(infos))
	for i, m := range infos {
		out[i] = host.Mount{
			Source: m.Source, Root: m.Root, Target: unescape(m.MountPoint), FSType: m.FsType,
			Options: slices.Concat(m.MountOptions, m.SuperOptions),
		}
	}
	return out, nil
}

// MountsInside implements host.Mounts. A kernel that leaves mounts out of its table while others come and go, as those before 5.8 do, which
// do not tell either whether a path is a mount, is read as MountTable reads it: until two readings are equal.
func (h Host) MountsInside(dir string) (targets []string, err error) {
	inside := strings.TrimSuffix(dir, "/") + "/"
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_TYPE, &st); err != nil || st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		table, err := h.MountTable()
		for _, m := range table {
			if strings.HasPrefix(m.Target, inside) {
				targets = append(targets, m.Target)
			}
		}
		return targets, err
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // an overlay names all of its layers
	for lines.Scan() {
		rest := lines.Bytes()
		for range 4 { // its number, its parent's, the device's, the root
			_, rest, _ = bytes.Cut(rest, []byte{' '})
		}
		target, _, whole := bytes.Cut(rest, []byte{' '})
		if !whole {
			return nil, fmt.Errorf("read the mount table: %q is no line of it", lines.Text())
		}
		if bytes.IndexByte(target, '\\') >= 0 {
			target = []byte(unescape(string(target)))
		}
		if bytes.HasPrefix(target, []byte(inside)) {
			targets = append(targets, string(target))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return targets, nil
}

var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// unescape undoes the kernel's octal escapes of blanks in the mount table.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return escapes.Replace(s)
}
