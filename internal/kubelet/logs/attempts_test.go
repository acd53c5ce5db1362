package logs

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestAttempts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ns_p[1]_u")
	for _, name := range []string{"a/0.log", "a/2.log", "a/10.log.20260102-030405.gz", "b/0.log", "b/x.log", "c/notes", "d.log"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := Attempts(dir), map[string]uint32{"a": 10, "b": 0}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Attempts(filepath.Join(dir, "none")); len(got) > 0 {
		t.Errorf("%v where there is nothing", got)
	}
}
