package datadir

import (
	"os"

	"podo.dev/podo/internal/host/tree"
)

// Remove removes a data directory that no process uses, unless check objects.
func (d Dir) Remove(check func() error) error {
	lock, err := d.take()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := check(); err != nil {
		return err
	}
	// From here on the directory cannot be started any more, but can still be removed: if this is interrupted, nobody starts on
	// the remains.
	if err := os.Truncate(d.version(), 0); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.Root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if path := d.path(e.Name()); path != d.version() {
			if err := tree.Remove(path); err != nil {
				return err
			}
		}
	}
	return tree.Remove(d.Root)
}
