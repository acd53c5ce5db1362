package logs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLinks(t *testing.T) {
	root := t.TempDir()
	l := Links{Dir: filepath.Join(root, "containers")}
	names := func() (out []string) {
		entries, err := os.ReadDir(l.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	if err := l.Sweep(); err != nil {
		t.Errorf("before there is a folder: %v", err)
	}
	for _, c := range []string{"a", "b", "gone"} {
		log := filepath.Join(root, c+".log")
		for range 2 {
			if err := l.Add("p", "ns", c, "id"+c, log); err != nil {
				t.Fatal(err)
			}
		}
		if c != "gone" {
			write(t, log, entry(1, "stdout", "F", c))
		}
	}
	write(t, filepath.Join(l.Dir, "other.log"), "another program's")
	if b, err := os.ReadFile(filepath.Join(l.Dir, "p_ns_a-ida.log")); err != nil || !strings.Contains(string(b), "stdout F a") {
		t.Errorf("%q %v", b, err)
	}
	if err := l.Sweep(); err != nil {
		t.Error(err)
	}
	if got, want := names(), []string{"other.log", "p_ns_a-ida.log", "p_ns_b-idb.log"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, id := range []string{"idb", "never"} {
		if err := l.Remove(id); err != nil {
			t.Error(err)
		}
	}
	if got, want := names(), []string{"other.log", "p_ns_a-ida.log"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if long := LinkName(strings.Repeat("p", 253), "ns", "c", "id"); len(long) != 255 || !strings.HasSuffix(long, ".log") {
		t.Errorf("%d letters: %s", len(long), long)
	}
}
