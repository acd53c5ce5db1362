package cli

import (
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// A server and an agent keep their heaps small at rest, which is the first that they do of what lasts: both are refused here, in a folder that
// is the other's.
func TestWhatStaysKeepsItsHeapSmall(t *testing.T) {
	t.Setenv("GOGC", "")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	const ours = 99 // which no keeper of heaps sets: what it sets goes by collections
	defer debug.SetGCPercent(debug.SetGCPercent(ours))
	for _, args := range [][]string{{"server"}, {"agent", "--server", "https://127.0.0.1:1"}} {
		debug.SetGCPercent(ours)
		args = append(args, "--data-dir", dir, "--node-ip", "127.0.0.1", "--node-name", "n")
		if Main(args, nil, io.Discard, io.Discard) == 0 {
			t.Fatalf("%v began", args)
		}
		if debug.SetGCPercent(ours) == ours {
			t.Errorf("%s: nobody keeps the heap", args[0])
		}
	}
}
