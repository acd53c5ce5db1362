// Package host is the port to the machine that the node's modules run on: its mounts, its processes, its kernel's log and the files by which the
// kernel tells facts (/proc, /sys) and system services theirs (/etc/resolv.conf). Adapters: host/linux is the real machine,
// host/fake a made-up one whose root a test chooses. hosttest is the suite that both pass.
//
// What modules keep for themselves under their own directories (pod directories, checkpoints) needs no port: a test gives
// them a directory of its own. The port is for what a test could not otherwise choose, or must not touch.
package host

import (
	"context"
	"errors"
)

// ErrBusy says that a mount point or a cgroup is still in use.
var ErrBusy = errors.New("still in use")

// Mount is one line of the mount table.
type Mount struct {
	Source  string   // "tmpfs", a device, or for a bind mount what the file system was mounted from
	Root    string   // the path inside the mounted file system that is seen at Target ("/" unless it is a bind mount)
	Target  string   // absolute path of the mount point
	FSType  string   // tmpfs, ext4, cgroup2, ...
	Options []string // of the mount and of its file system, together
}

// Mounts are the mounts of this process's mount namespace.
type Mounts interface {
	// Mount mounts a file system; options are mount(8)'s (ro, nosuid, ...) and, unknown to it, the file system's own
	// (size=64Mi in bytes, mode=0755). With the option bind, source is a path, and fsType is ignored.
	Mount(source, target, fsType string, options []string) error
	// MountDevice mounts the file system on a block device. Where there is none it makes one of that type, unless it is to be mounted
	// read-only; what is there is never written over, and checked first. Two at once make one. ErrBusy when another program
	// keeps the device locked.
	MountDevice(device, target, fsType string, options []string) error
	// Unmount removes the topmost mount at target. ErrBusy when it is in use; nil when target is no mount point or is gone.
	Unmount(target string) error
	// IsMount tells whether something is mounted exactly at path; it does not read the whole table. A path that does not
	// exist is no mount.
	IsMount(path string) (bool, error)
	// MountTable is every mount in the order in which they were made.
	MountTable() ([]Mount, error)
	// MountsInside is the targets of those inside a directory, in that order; one at which several are stacked is there as often. Nothing is made
	// of the others, of which a full node has hundreds.
	MountsInside(dir string) ([]string, error)
}

// Files are files that tell facts about the host. Paths are absolute, as the host names them.
type Files interface {
	// ReadFile reads a whole file; errors are those of package os (fs.ErrNotExist).
	ReadFile(path string) ([]byte, error)
	// ReadDir lists the names in a directory, sorted.
	ReadDir(path string) ([]string, error)
}

// Processes ends processes that outlived their owner.
type Processes interface {
	// Kill sends SIGKILL to every process and returns when all of them have ended or ctx does. A process that has gone
	// already is no error.
	Kill(ctx context.Context, pids []int) error
}

// Cgroups are cgroup directories. The kernel fills them with control files when they are made and takes these away with
// them, so that they are not like other directories. Paths are absolute, under a mount of a cgroup hierarchy.
type Cgroups interface {
	// MakeCgroup makes a cgroup and its parents; one that is there already is no error. made says whether it is new.
	MakeCgroup(path string) (made bool, err error)
	// WriteControl writes a value to a control file of a cgroup.
	WriteControl(path, file, value string) error
	// ChildCgroups lists the names of the cgroups right below one, sorted; fs.ErrNotExist when it is not there.
	ChildCgroups(path string) ([]string, error)
	// RemoveCgroup removes one empty cgroup: ErrBusy while processes or child cgroups are in it, nil when it is not there.
	RemoveCgroup(path string) error
}

// KernelLog is what the kernel says.
type KernelLog interface {
	// FollowKernel calls line with each line that the kernel writes from now on, without its time and level, until ctx ends (nil)
	// or the log cannot be read any more. ready is called once nothing can be missed.
	FollowKernel(ctx context.Context, ready func(), line func(string)) error
}

// Host is the whole port.
type Host interface {
	KernelLog
	Mounts
	Files
	Processes
	Cgroups
}
