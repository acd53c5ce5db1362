package logs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Links is a folder of links to containers' logs, named for what log collectors look for in a log's name:
//
//	<pod>_<namespace>_<container>-<id>.log -> <pods' logs>/<namespace>_<pod>_<uid>/<container>/<attempt>.log
type Links struct{ Dir string }

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

// Sweep removes links whose logs have gone. What is no link is not ours.
func (l Links) Sweep() error {
	entries, err := os.ReadDir(l.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || !strings.HasSuffix(e.Name(), linkSuffix) {
			continue
		}
		path := filepath.Join(l.Dir, e.Name())
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(append(errs, err)...)
}
