package volume

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func keep(string) error { return nil }

// seen is what a container sees: the visible files, through the links.
func seen(t interface{ Fatal(...any) }, dir string) map[string]string {
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		top := filepath.Join(dir, e.Name())
		real, err := filepath.EvalSymlinks(top)
		if err != nil {
			t.Fatal("a link leads nowhere: ", err)
		}
		err = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			rel, _ := filepath.Rel(real, path)
			out[filepath.Join(e.Name(), rel)] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func texts(p payload) map[string]string {
	out := map[string]string{}
	for k, f := range p {
		out[k] = string(f.data)
	}
	return out
}

func TestWriteAtomically(t *testing.T) {
	dir := t.TempDir()
	p := payload{"a": {data: []byte("1"), mode: 0o400}, "d/b": {data: []byte("2"), mode: 0o644}, "d/c": {data: nil, mode: 0o644}}
	if err := writeAtomically(dir, p, time.Now(), 0, keep); err != nil {
		t.Fatal(err)
	}
	if got := seen(t, dir); !maps.Equal(got, texts(p)) {
		t.Errorf("seen %v", got)
	}
	if l, err := os.Readlink(filepath.Join(dir, "d")); err != nil || l != "..data/d" {
		t.Errorf("d -> %s, %v", l, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode() != 0o400 {
		t.Errorf("a has mode %v, %v", info.Mode(), err)
	}
	first, _ := os.Readlink(filepath.Join(dir, dataLink))

	if err := writeAtomically(dir, p, time.Now(), 0, keep); err != nil {
		t.Fatal(err)
	}
	if now, _ := os.Readlink(filepath.Join(dir, dataLink)); now != first {
		t.Error("the same content was written again")
	}

	// kubernetes/kubernetes#121472: one that was killed in the midst had not shown all that it had written.
	if err := errors.Join(os.Remove(filepath.Join(dir, "a")), writeAtomically(dir, p, time.Now(), 0, keep)); err != nil {
		t.Fatal(err)
	}
	if got := seen(t, dir); !maps.Equal(got, texts(p)) {
		t.Errorf("after it was cut off: %v", got)
	}

	delete(p, "a")
	p["d/b"] = file{data: []byte("3"), mode: 0o644}
	if err := writeAtomically(dir, p, time.Now(), 0, keep); err != nil {
		t.Fatal(err)
	}
	if got := seen(t, dir); !maps.Equal(got, texts(p)) {
		t.Errorf("after a change: %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, first)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old version is left: %v", err)
	}
}

func TestFailedOwnerLeavesTheOldVersion(t *testing.T) {
	dir := t.TempDir()
	if err := writeAtomically(dir, payload{"a": {data: []byte("1"), mode: 0o644}}, time.Now(), 0, keep); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("no")
	if err := writeAtomically(dir, payload{"a": {data: []byte("2"), mode: 0o644}}, time.Now(), 0, func(string) error { return bad }); !errors.Is(err, bad) {
		t.Fatalf("err = %v", err)
	}
	if got := seen(t, dir); got["a"] != "1" {
		t.Errorf("seen %v", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 { // the version, ..data, a
		t.Errorf("%d entries are left", len(entries))
	}
}

func TestBadPaths(t *testing.T) {
	for _, path := range []string{"", "/a", "../a", "a/../../b", "..a", strings.Repeat("a", 256), strings.Repeat("a/", 2049) + "a"} {
		if err := writeAtomically(t.TempDir(), payload{path: {}}, time.Now(), 0, keep); err == nil || !strings.HasPrefix(err.Error(), "invalid path") {
			t.Errorf("%.20q: %v", path, err)
		}
	}
}

// Whatever was there, and whatever an interrupted writer left behind, afterwards the volume shows the payload and nothing else.
func TestPayloadIsWhatIsSeen(t *testing.T) {
	names := []string{"a", "b", "d/x", "d/y", "e/f/g"}
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 5).Draw(t, "writes") {
			p := payload{}
			for _, n := range names {
				if rapid.Bool().Draw(t, n) {
					p[n] = file{data: []byte(rapid.SampledFrom([]string{"", "1", "22"}).Draw(t, "data")), mode: 0o644}
				}
			}
			if rapid.Bool().Draw(t, "crashed") { // between making a version and the swap
				if err := os.Mkdir(filepath.Join(dir, "..2020_01_01_00_00_00.1"), 0o755); err != nil && !os.IsExist(err) {
					t.Fatal(err)
				}
				os.Symlink("..2020_01_01_00_00_00.1", filepath.Join(dir, tempLink)) //nolint:errcheck // may be there
			}
			if err := writeAtomically(dir, p, time.Now(), 0, keep); err != nil {
				t.Fatal(err)
			}
			if got := seen(t, dir); !maps.Equal(got, texts(p)) {
				t.Fatalf("seen %v, want %v", got, texts(p))
			}
		}
	})
}

// What was replaced stays where somebody may be about to mount a file of it (kubernetes/kubernetes#127602), for its time, and not without
// bound.
func TestReplacedVersionsStayForAWhile(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	write := func(text string, stay time.Duration) (version string) {
		t.Helper()
		if err := writeAtomically(dir, payload{"a": {data: []byte(text), mode: 0o644}}, now, stay, keep); err != nil {
			t.Fatal(err)
		}
		version, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			t.Fatal(err)
		}
		return version
	}
	there := func(version string) bool {
		_, err := os.Stat(filepath.Join(dir, version, "a"))
		return err == nil
	}
	first := write("1", time.Minute)
	now = now.Add(time.Hour) // it was replaced only now
	second := write("2", time.Minute)
	now = now.Add(30 * time.Second)
	third := write("3", time.Minute)
	if !there(first) || !there(second) || !there(third) {
		t.Fatal("a version went at once")
	}
	now = now.Add(45 * time.Second)
	write("4", time.Minute)
	if there(first) || !there(second) || !there(third) {
		t.Errorf("first %v, second %v, third %v after its minute", there(first), there(second), there(third))
	}
	for i := range 2 * mostReplaced {
		now = now.Add(time.Millisecond)
		write(strings.Repeat("x", i+5), time.Minute)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != mostReplaced+3 { // and the current one, and two links
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if got := seen(t, dir); got["a"] != strings.Repeat("x", 2*mostReplaced+4) {
		t.Errorf("%v", got)
	}
	last := write("last", 0)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 || !there(last) {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}
