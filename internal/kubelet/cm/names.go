package cm

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Name is the place of a cgroup, part by part from the root: {"podo", "kubepods", "burstable", "pod<uid>"}.
type Name []string

// Driver writes names as paths.
type Driver string

// The drivers: directories named as the parts are, or slices as systemd nests them.
const (
	Cgroupfs Driver = "cgroupfs"
	Systemd  Driver = "systemd"
)

// podName is a pod's cgroup: Guaranteed pods right under kubepods, the others under their class.
func podName(root Name, class v1.PodQOSClass, uid types.UID) Name {
	return append(className(root, class), "pod"+string(uid))
}

func className(root Name, class v1.PodQOSClass) Name {
	out := append(append(Name(nil), root...), "kubepods")
	switch class {
	case v1.PodQOSBurstable:
		return append(out, "burstable")
	case v1.PodQOSBestEffort:
		return append(out, "besteffort")
	}
	return out
}

// Path is where the driver puts the cgroup, from the hierarchy's root.
func (d Driver) Path(n Name) string {
	if d != Systemd {
		return "/" + path.Join(n...)
	}
	out, prefix := "/", ""
	for _, part := range n {
		// systemd separates nested slices by dashes, so dashes within a part become underscores.
		prefix += strings.ReplaceAll(part, "-", "_")
		out = path.Join(out, prefix+".slice")
		prefix += "-"
	}
	return out
}

// Parent is the cgroup parent as the runtime wants it: the whole path, or with systemd only the name of the last slice.
func (d Driver) Parent(n Name) string {
	if p := d.Path(n); d != Systemd || len(n) == 0 {
		return p
	}
	return path.Base(d.Path(n))
}
