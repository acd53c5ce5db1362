package containergc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
)

// instances are what the runtime has of one container of one pod: their numbers, and the highest one.
type instances struct {
	there  map[uint64]bool
	newest uint64
}

// restarted are the containers of which there has been more than one instance.
func restarted(containers []*runtimev1.Container) map[unit]*instances {
	out := map[unit]*instances{}
	for _, c := range containers {
		u := unit{types.UID(c.Labels[labels.PodUID]), c.Labels[labels.ContainerName]}
		if out[u] == nil {
			out[u] = &instances{there: map[uint64]bool{}}
		}
		n := uint64(c.GetMetadata().GetAttempt())
		out[u].there[n] = true
		out[u].newest = max(out[u].newest, n)
	}
	for u, i := range out {
		if i.newest == 0 {
			delete(out, u)
		}
	}
	return out
}

// left tells whether a file belongs to an instance that is gone. Files newer than every instance may belong to one that is being
// created; and where no instance is left, the newest file tells a later life how many there were.
func (i *instances) left(n uint64) bool { return n < i.newest && !i.there[n] }

// sweepFiles removes logs, rotated ones too, and termination messages of instances that are gone. Without it a container that
// crashes for weeks fills the disk.
func (c *Collector) sweepFiles(s seen) (errs []error) {
	for u, i := range restarted(s.containers) {
		if dir := s.logDirs[u.uid]; dir != "" {
			errs = append(errs, i.sweep(filepath.Join(c.cfg.LogRoot, dir, u.name), logNumber)...)
		}
		if c.cfg.Messages != nil {
			errs = append(errs, i.sweep(c.cfg.Messages(u.uid, u.name), messageNumber)...)
		}
	}
	return errs
}

func (i *instances) sweep(dir string, number func(string) (uint64, error)) (errs []error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it has none
	}
	for _, e := range entries {
		if n, err := number(e.Name()); err == nil && e.Type().IsRegular() && i.left(n) {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errs
}

// logNumber is the number of the instance that a log, or what it was rotated to, is of.
func logNumber(name string) (uint64, error) {
	n, _, ok := strings.Cut(name, ".log")
	if !ok {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(n, 10, 32)
}

func messageNumber(name string) (uint64, error) { return strconv.ParseUint(name, 16, 32) }
