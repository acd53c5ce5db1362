package preflight

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/daemon/datadir"
)

// A new data directory needs room; one that is in use starts with what its pods have left of the disk.
func TestRoomIsForTheFirstStart(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root, and CI runs as root")
		}
		t.Skip("needs root")
	}
	dir := datadir.Dir{Root: t.TempDir()}
	if err := unix.Mount("small", dir.Root, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir.Root, 0) //nolint:errcheck // the folder's removal would tell
	found := func(string) (string, error) { return "", nil }
	if err := Check("agent", dir, nil, found); err == nil || !strings.Contains(err.Error(), "MB free, podo needs 512 MB") {
		t.Errorf("a first start: %v", err)
	}
	if err := dir.Began(datadir.Run{}); err != nil {
		t.Fatal(err)
	}
	if err := Check("agent", dir, nil, found); err != nil {
		t.Errorf("a later one: %v", err)
	}
}
