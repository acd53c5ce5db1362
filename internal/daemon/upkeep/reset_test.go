package upkeep

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podo.dev/podo/internal/daemon/datadir"
)

func TestResetTouchesOnlyDataDirectories(t *testing.T) {
	dir := t.TempDir()
	keep := filepath.Join(dir, "mine")
	if err := os.WriteFile(keep, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Reset(dir); err == nil || !strings.Contains(err.Error(), "not a data directory") {
		t.Errorf("a folder that is not podo's: %v", err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
	d := datadir.Dir{Root: filepath.Join(dir, "data")}
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := Reset(d.Root); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("while a server runs: %v", err)
	}
	lock.Close()
	// A reset that ends early is ended by another, and nobody starts on what is left.
	if err := os.MkdirAll(d.Etcd(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(d.Root, "version"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); err == nil || !strings.Contains(err.Error(), "podo reset --yes --data-dir "+d.Root) {
		t.Errorf("a start on what is left: %v", err)
	}
	if err := Reset(d.Root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}
