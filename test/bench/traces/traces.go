// Package traces counts what the pods of one podo have on a machine: mounts, network namespaces, interfaces and cgroups.
package traces

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"podo.dev/podo/internal/runtime"
	"podo.dev/podo/test/bench/load"
)

// Traces are counts by kind.
type Traces map[string]int

// Count counts them.
func Count(dataDir string) (Traces, error) {
	t := Traces{}
	layout := runtime.LayoutFor(dataDir)
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(table)) {
		if !strings.Contains(line, dataDir+"/") && !strings.Contains(line, layout.Run+"/") {
			continue
		}
		kind := "mounts"
		if strings.Contains(line, " - nsfs ") {
			kind = "network namespaces"
		}
		t[kind]++
	}
	links, err := os.ReadDir(filepath.Join("/sys/class/net", layout.Bridge, "brif"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	t["interfaces"] = len(links)
	groups, err := filepath.Glob("/sys/fs/cgroup/*/podo-" + layout.ID)
	if err != nil {
		return nil, err
	}
	for _, root := range append(groups, "/sys/fs/cgroup/podo-"+layout.ID) {
		// One that goes while it is walked is none.
		filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error { //nolint:errcheck // the function gives none
			if err == nil && d.IsDir() {
				t["cgroups"]++
			}
			return nil
		})
	}
	return t, nil
}

// Settled waits until no more is there than before, or says what is. The kernel and the shims end their clean-up in their own time.
func Settled(ctx context.Context, dataDir string, before Traces) (left string, err error) {
	deadline := time.Now().Add(30 * time.Second)
	for {
		now, err := Count(dataDir)
		if err != nil {
			return "", err
		}
		left := now.more(before)
		if left == "" || time.Now().After(deadline) {
			return left, nil
		}
		if err := load.Pause(ctx, 200*time.Millisecond); err != nil {
			return "", err
		}
	}
}

func (t Traces) more(than Traces) string {
	var parts []string
	for _, kind := range []string{"mounts", "network namespaces", "interfaces", "cgroups"} {
		if n := t[kind] - than[kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	return strings.Join(parts, ", ")
}
