package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder that holds something of somebody else's never becomes a data directory, since a reset would delete it with the rest. What may
// be prepared before the first start may be there.
func TestOnlyAFolderOfItsOwn(t *testing.T) {
	own := Dir{Root: t.TempDir()}
	for _, name := range []string{"manifests", "pki", "log", "etcd", "lost+found"} {
		if err := os.Mkdir(filepath.Join(own.Root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := own.checkLayout(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own.Root, "notes"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := own.checkLayout(); err != nil {
		t.Errorf("a data directory is refused for what came later: %v", err)
	}

	other := Dir{Root: t.TempDir()}
	if err := os.WriteFile(filepath.Join(other.Root, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := other.checkLayout()
	if err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("a folder with other things in it is taken: %v", err)
	}
	if _, err := os.Stat(other.version()); err == nil {
		t.Error("it is marked as a data directory, so that a reset would delete it")
	}
}
