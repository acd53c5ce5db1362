package logs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/kubelet/labels"
)

// Links is a folder of links to containers' logs, named for what log collectors look for in a log's name:
//
//	<pod>_<namespace>_<container>-<id>.log -> <pods' logs>/<namespace>_<pod>_<uid>/<container>/<attempt>.log
type Links struct{ Dir string }

// Statuses tell where a container's log is.
type Statuses interface {
	ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error)
}

const (
	linkSuffix = ".log"
	nameMax    = 255 // of a file's name
)

// LinkName is what a container's link is called. A name that is too long loses its end, of which the id is the last part.
func LinkName(pod, namespace, container, id string) string {
	name := pod + "_" + namespace + "_" + container + "-" + id
	return name[:min(len(name), nameMax-len(linkSuffix))] + linkSuffix
}

// Add links a container's log, whether it is written to already or not.
func (l Links) Add(pod, namespace, container, id, log string) error {
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return err
	}
	err := os.Symlink(log, filepath.Join(l.Dir, LinkName(pod, namespace, container, id)))
	if errors.Is(err, fs.ErrExist) { // by an answer of the runtime that was lost
		return nil
	}
	return err
}

// Remove removes the link of a container, by its id.
func (l Links) Remove(id string) error {
	found, err := filepath.Glob(filepath.Join(escape(l.Dir), "*-"+escape(id)+linkSuffix))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range found {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}

// Sweep removes links whose logs have gone together with the pod's folder. While that folder exists, a missing log may be about
// to appear: its container has not started yet, or it is being rotated. Files that are no links are not ours.
func (l Links) Sweep() error {
	entries, err := l.entries()
	var errs []error
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || !strings.HasSuffix(e.Name(), linkSuffix) {
			continue
		}
		path := filepath.Join(l.Dir, e.Name())
		log, err := os.Readlink(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := os.Stat(filepath.Dir(filepath.Dir(log))); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(append(errs, err)...)
}

// Tend makes missing links, which a kubelet that was killed may not have made or somebody may have removed, and sweeps.
func (l Links) Tend(ctx context.Context, rt Statuses, containers []*runtimev1.Container) error {
	entries, err := l.entries()
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.Name()] = true
	}
	var errs []error
	for _, c := range containers {
		pod, namespace, name := c.Labels[labels.PodName], c.Labels[labels.PodNamespace], c.Labels[labels.ContainerName]
		live := c.State == runtimev1.ContainerState_CONTAINER_CREATED || c.State == runtimev1.ContainerState_CONTAINER_RUNNING
		if !live || there[LinkName(pod, namespace, name, c.Id)] {
			continue
		}
		switch st, err := rt.ContainerStatus(ctx, c.Id); {
		case cri.IsNotFound(err):
		case err != nil:
			errs = append(errs, err)
		case st.GetLogPath() != "":
			errs = append(errs, l.Add(pod, namespace, name, c.Id, st.GetLogPath()))
		}
	}
	return errors.Join(append(errs, l.Sweep())...)
}

func (l Links) entries() ([]os.DirEntry, error) {
	entries, err := os.ReadDir(l.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return entries, err
}
