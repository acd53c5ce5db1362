package peer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"podo.dev/podo/test/bench/cgroup"
)

// hostState is what upstream's kubelet changes outside its own folder, whatever it is told, as it was before.
type hostState struct {
	cgroup  string
	tuned   map[string][]byte // kernel parameters, by file
	folders []string          // that were not there
}

// kernelParameters are those that a kubelet sets.
var kernelParameters = []string{
	"/proc/sys/vm/overcommit_memory", "/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops",
	"/proc/sys/kernel/keys/root_maxkeys", "/proc/sys/kernel/keys/root_maxbytes",
}

// fixedFolders are those of a kubelet that no flag moves, children first.
var fixedFolders = []string{"/var/lib/kubelet/device-plugins", "/var/lib/kubelet", "/var/log/containers"}

func rememberHost(group string) (*hostState, error) {
	h := &hostState{cgroup: group, tuned: map[string][]byte{}}
	for _, file := range kernelParameters {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		h.tuned[file] = content
	}
	for _, dir := range fixedFolders {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			h.folders = append(h.folders, dir)
		}
	}
	return h, cgroup.Make(group)
}

func (h *hostState) restore() error {
	errs := []error{cgroup.Remove(h.cgroup)}
	for file, was := range h.tuned {
		is, err := os.ReadFile(file)
		if err == nil && string(is) != string(was) {
			err = os.WriteFile(file, was, 0o644)
		}
		errs = append(errs, err)
	}
	for _, dir := range h.folders {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, e := range entries {
			if e.Type()&(fs.ModeSocket|fs.ModeSymlink) != 0 || e.Name() == "kubelet_internal_checkpoint" {
				errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
			}
		}
		errs = append(errs, err, os.Remove(dir))
	}
	return errors.Join(errs...)
}
