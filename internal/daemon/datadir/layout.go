package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// layoutVersion names the format of a data directory. A directory of another format is refused, never converted silently.
const layoutVersion = "1"

// mayBeThere is what a new data directory may contain: files that people put there before the first start (a snapshot, keys,
// manifests), remains of a failed start, and a file system's own.
var mayBeThere = []string{
	"bin", "cni", "containerd", "etcd", "kubeconfig", "kubelet", "lock", "log", "lost+found", "manifests", "pki", "run.json", "server-id",
	"timeline", "version", "volumes",
}

// checkOurs refuses a folder with other content, since `podo reset` would delete it.
func (d Dir) checkOurs() error {
	entries, err := os.ReadDir(d.Root)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, e := range entries {
		if !slices.Contains(mayBeThere, strings.TrimSuffix(e.Name(), unfinished)) {
			return fmt.Errorf("%s holds other things than podo's (%s), and `podo reset` would delete them: use a folder of its own as --data-dir", d.Root, e.Name())
		}
	}
	return nil
}

func (d Dir) checkLayout() error {
	have, err := os.ReadFile(d.version())
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := d.checkOurs(); err != nil {
			return err
		}
		return WriteFile(d.version(), []byte(layoutVersion+"\n"), 0o644)
	case err != nil:
		return fmt.Errorf("data directory: %w", err)
	case len(have) == 0:
		return fmt.Errorf("data directory %s was being removed, and something of it is left: remove the rest with `podo reset --yes --data-dir %s`", d.Root, d.Root)
	case string(bytes.TrimSpace(have)) != layoutVersion:
		return fmt.Errorf("data directory %s has format %q, this podo works with format %s: run the podo that wrote it, or use another --data-dir",
			d.Root, bytes.TrimSpace(have), layoutVersion)
	}
	return nil
}
