package cm

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"podo.dev/podo/internal/host"
)

// controllers that pods are limited by. The others (devices, freezer, blkio, ...) are the runtime's.
var (
	wanted   = []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb"}
	required = []string{"cpu", "memory"}
)

// Layout is where the kernel's cgroups are, as the host mounted them.
//
//	v1  one hierarchy per controller (or several in one): mounts maps controller -> mount point
//	v2  one hierarchy, at unified
//
// A hybrid host, whose unified hierarchy has no cpu and memory, counts as v1.
type Layout struct {
	V2      bool
	unified string
	mounts  map[string]string // v1: cpu -> /sys/fs/cgroup/cpu; every hierarchy, named ones too
	has     []string          // controllers that can be used, of wanted
}

// DetectLayout reads the host's mount table.
func DetectLayout(h host.Host) (Layout, error) {
	table, err := h.MountTable()
	if err != nil {
		return Layout{}, err
	}
	l := Layout{mounts: map[string]string{}}
	for _, m := range table {
		switch m.FSType {
		case "cgroup2":
			l.unified = m.Target
		case "cgroup":
			for _, o := range m.Options {
				if slices.Contains(wanted, o) || slices.Contains(runtimeControllers, o) || strings.HasPrefix(o, "name=") {
					if _, ok := l.mounts[o]; !ok {
						l.mounts[o] = m.Target
					}
				}
			}
		}
	}
	if l.unified != "" {
		b, err := h.ReadFile(path.Join(l.unified, "cgroup.controllers"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Layout{}, fmt.Errorf("read the controllers of %s: %w", l.unified, err)
		}
		have := strings.Fields(string(b))
		if !slices.ContainsFunc(required, func(c string) bool { return !slices.Contains(have, c) }) {
			l.V2, l.has = true, intersect(wanted, have)
			return l, nil
		}
	}
	for _, c := range wanted {
		if _, ok := l.mounts[c]; ok {
			l.has = append(l.has, c)
		}
	}
	for _, c := range required {
		if !slices.Contains(l.has, c) {
			return Layout{}, fmt.Errorf("the cgroup controller %q is not mounted: mount cgroup v2 on /sys/fs/cgroup, or enable it (kernel parameter cgroup_enable=%s)", c, c)
		}
	}
	return l, nil
}

// runtimeControllers are hierarchies in which the runtime makes a pod's cgroup as the parent of its containers'.
var runtimeControllers = []string{"devices", "freezer", "blkio", "net_cls", "net_prio", "perf_event", "rdma", "misc"}

// Has tells whether pods can be limited by a controller.
func (l Layout) Has(controller string) bool { return slices.Contains(l.has, controller) }

// dirs are the directories in which a cgroup at p (from the root) is made by us: one per hierarchy with a wanted controller.
func (l Layout) dirs(p string) []string {
	if l.V2 {
		return []string{path.Join(l.unified, p)}
	}
	var out []string
	for _, c := range l.has {
		if d := path.Join(l.mounts[c], p); !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// allDirs are the directories in which it may exist, made by us or by the runtime.
func (l Layout) allDirs(p string) []string {
	if l.V2 {
		return []string{path.Join(l.unified, p)}
	}
	out := l.dirs(p)
	for _, c := range sortedKeys(l.mounts) {
		if d := path.Join(l.mounts[c], p); !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	if l.unified != "" {
		out = append(out, path.Join(l.unified, p))
	}
	return out
}

// dir is where a controller's files of the cgroup are.
func (l Layout) dir(controller, p string) string {
	if l.V2 {
		return path.Join(l.unified, p)
	}
	return path.Join(l.mounts[controller], p)
}

// writes is what limits mean on this layout; what the host has no controller for is dropped.
func (l Layout) writes(limits Limits) []write {
	all := writesV1(limits)
	if l.V2 {
		all = writesV2(limits)
	}
	return slices.DeleteFunc(all, func(w write) bool { return !l.Has(w.controller) })
}

func intersect(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}
