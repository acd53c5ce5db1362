package loop

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podo.dev/podo/internal/view"
)

// A queue is told of under upstream's name for it, one that upstream has not under the controller's.
func TestQueuesHaveUpstreamsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		none := func(context.Context, view.Snapshot, view.Key) (Result, error) { return Result{}, nil }
		w.supervise(w.loop("deployment-controller", none))
		w.supervise(w.loop("local-volumes", none))
		w.put("a", "1")
		time.Sleep(time.Second)
		for _, name := range []string{"deployment", "local-volumes"} {
			if w.metric("workqueue_adds_total", name) == 0 {
				t.Errorf("nothing is told of %s", name)
			}
		}
	})
}

// Each of the names that are translated is that of a controller, and no two become one.
func TestTranslatedQueuesAreThere(t *testing.T) {
	var sources strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "../loop/") {
			return err
		}
		text, err := os.ReadFile(path)
		sources.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range queues {
		if !strings.Contains(sources.String(), strconv.Quote(name)) {
			t.Errorf("no controller is called %s", name)
		}
	}
	if names := slices.Compact(slices.Sorted(maps.Values(queues))); len(names) != len(queues) {
		t.Errorf("%d names for %d queues", len(names), len(queues))
	}
}
