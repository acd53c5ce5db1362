package oracle

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

var modules = struct {
	sync.Mutex
	dirs map[string]string
}{dirs: map[string]string{}}

// module is where the sources of one of upstream's modules are, at the version that this module is built with. What upstream
// publishes is read from there: nothing of it is carried here.
func module(path string) (string, error) {
	modules.Lock()
	defer modules.Unlock()
	if dir := modules.dirs[path]; dir != "" {
		return dir, nil
	}
	out, err := exec.Command("go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		return "", fmt.Errorf("finding module %s with the go command: %w", path, err)
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", fmt.Errorf("module %s is not downloaded: go mod download %s", path, path)
	}
	modules.dirs[path] = dir
	return dir, nil
}

// sources is the folder of a package k8s.io/<module>/....
func sources(pkg string) (string, error) {
	parts := strings.SplitN(pkg, "/", 3)
	dir, err := module(strings.Join(parts[:2], "/"))
	if err != nil || len(parts) < 3 {
		return dir, err
	}
	return filepath.Join(dir, parts[2]), nil
}
