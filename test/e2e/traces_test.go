package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"podo.dev/podo/internal/runtime"
)

type tracesKey struct{}

// traces remember | equal: count what the story's pods have on the machine and in podo's and containerd's tables of open files; later,
// that there is no more of anything. The kernel ends some of it in its own time, for which there is no event: half a minute at most.
func cmdTraces(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	switch {
	case neg || len(args) != 1:
	case args[0] == "remember":
		*ts.Value(tracesKey{}).(*map[string]int) = traces(c)
		return
	case args[0] == "equal":
		before := *ts.Value(tracesKey{}).(*map[string]int)
		var more []string
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			more = nil
			for kind, n := range traces(c) {
				if n > before[kind] {
					more = append(more, fmt.Sprintf("%d %s, %d before", n, kind, before[kind]))
				}
			}
			if len(more) == 0 {
				return
			}
			if time.Now().After(deadline) {
				break
			}
		}
		slices.Sort(more)
		ts.Fatalf("what came and went has left something: %s", strings.Join(more, "; "))
	}
	ts.Fatalf("usage: traces remember | equal")
}

func traces(c *cluster) map[string]int {
	l := runtime.LayoutFor(c.dir)
	n := map[string]int{}
	if table, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(table)) {
			switch mine := strings.Contains(line, c.dir+"/") || strings.Contains(line, l.Run+"/"); {
			case mine && strings.Contains(line, " - nsfs "):
				n["network namespaces"]++
			case mine:
				n["mounts"]++
			}
		}
	}
	for kind, pattern := range map[string]string{
		"interfaces of pods": "/sys/class/net/" + l.Bridge + "/brif/*", "addresses": filepath.Join(l.Leases, "*", "*"),
		"folders of pods": filepath.Join(c.dir, "kubelet", "pods", "*"), "saved states": filepath.Join(c.dir, "kubelet", "state", "*"),
		"log folders": filepath.Join(c.dir, "log", "pods", "*"), "shims' sockets": filepath.Join(l.Shims, "*"),
	} {
		found, _ := filepath.Glob(pattern)
		n[kind] = len(found)
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/podo-" + l.ID)
	for _, root := range append(groups, "/sys/fs/cgroup/podo-"+l.ID) {
		filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error { //nolint:errcheck // one that goes meanwhile is none
			if err == nil && d.IsDir() {
				n["cgroups"]++
			}
			return nil
		})
	}
	for _, p := range processes() {
		switch name := filepath.Base(p.argv0()); {
		case !strings.Contains(p.cmdline, c.dir):
		case strings.HasPrefix(name, "containerd-shim"):
			n["shims"]++
		case name == "containerd", name == "podo" && strings.Contains(p.cmdline, "server"):
			files, _ := os.ReadDir("/proc/" + strconv.Itoa(p.pid) + "/fd")
			n[name+"'s open files"] = len(files)
		}
	}
	return n
}
