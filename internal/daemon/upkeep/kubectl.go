package upkeep

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/runtime/payload"
)

// Kubectl puts the carried kubectl into the data directory and returns its path.
func Kubectl(dataDir string) (string, error) {
	p, err := payload.Embedded()
	if err != nil {
		return "", err
	}
	bin := datadir.Dir{Root: dataDir}.Bin()
	if _, err := os.Stat(dataDir); err != nil || !writable(dataDir) {
		// Without access to a data directory (another machine's cluster, a plain user) it is put into the user's cache.
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		bin = filepath.Join(cache, "podo", "bin")
	}
	return p.Program(context.Background(), bin, "kubectl")
}

func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
