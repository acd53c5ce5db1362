package upkeep

import (
	"fmt"
	"strings"

	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/runtime"
)

// Reset removes a stopped server's data directory.
func Reset(dataDir string) error {
	dir, err := datadir.Existing(dataDir)
	if err != nil {
		return err
	}
	return dir.Remove(func() error {
		for _, below := range []string{dir.Root, runtime.LayoutFor(dir.Root).Run} {
			mounts, err := mountsBelow(below)
			if err != nil {
				return err
			}
			if len(mounts) > 0 {
				return fmt.Errorf("%d mounts live below %s, the first is %s: stop what uses them with `podo down --data-dir %s`, then try again; nothing was removed",
					len(mounts), below, mounts[0], dir.Root)
			}
		}
		return nil
	})
}

func mountsBelow(dir string) ([]string, error) {
	table, err := linux.New().MountTable()
	if err != nil {
		return nil, err
	}
	var below []string
	for _, m := range table {
		if m.Target == dir || strings.HasPrefix(m.Target, dir+"/") {
			below = append(below, m.Target)
		}
	}
	return below, nil
}
