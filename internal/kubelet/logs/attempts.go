package logs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Attempts are, by container, the newest attempts that have a log in a pod's folder, rotated ones included. A runtime that lost
// its data does not know how often a container has run, and the next log must still be a new file.
func Attempts(dir string) map[string]uint32 {
	out := map[string]uint32{}
	files, _ := filepath.Glob(filepath.Join(escape(dir), "*", "*.log*")) // it fails for a bad pattern only
	for _, f := range files {
		container := filepath.Base(filepath.Dir(f))
		number, _, _ := strings.Cut(filepath.Base(f), ".log")
		n, err := strconv.ParseUint(number, 10, 32)
		if info, lerr := os.Lstat(f); err == nil && lerr == nil && info.Mode().IsRegular() {
			out[container] = max(out[container], uint32(n))
		}
	}
	return out
}
