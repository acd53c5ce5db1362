package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneServerADataDirectory(t *testing.T) {
	d := Dir{Root: filepath.Join(t.TempDir(), "data")}
	if pid, err := d.Running(); pid != 0 || err != nil {
		t.Fatalf("nothing there: %d, %v", pid, err)
	}
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := d.Running(); pid != os.Getpid() || err != nil {
		t.Errorf("held by us: %d, %v", pid, err)
	}
	if _, err := d.Lock(); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || !strings.Contains(err.Error(), "podo down") {
		t.Errorf("the second one must hear who has it and what to do: %v", err)
	}
	lock.Close()
	if pid, _ := d.Running(); pid != 0 {
		t.Errorf("released, but still held by %d", pid)
	}
	if err := os.WriteFile(d.version(), []byte("99\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); err == nil || !strings.Contains(err.Error(), `format "99"`) {
		t.Errorf("a directory of another version: %v", err)
	}
	// A start that was killed while it wrote the version.
	if err := os.Rename(d.version(), d.version()+unfinished); err != nil {
		t.Fatal(err)
	}
	if lock, err = d.Lock(); err != nil {
		t.Fatal(err)
	}
	lock.Close()
}
