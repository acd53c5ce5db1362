package payload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	"podo.dev/podo/internal/runtime/payload/manifest"
)

// packed makes a payload of the given programs; those whose name starts with "lazy" are lazy.
func packed(t *testing.T, programs map[string]string) fstest.MapFS {
	t.Helper()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{}
	m := &manifest.Manifest{}
	for name, content := range programs {
		sum := sha256.Sum256([]byte(content))
		m.Entries = append(m.Entries, manifest.Entry{
			Name: name, Version: "v1", Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]), Lazy: strings.HasPrefix(name, "lazy"),
		})
		fsys[name+manifest.Suffix] = &fstest.MapFile{Data: enc.EncodeAll([]byte(content), nil)}
	}
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	fsys[manifest.Name] = &fstest.MapFile{Data: data}
	return fsys
}

func open(t *testing.T, programs map[string]string) *Payload {
	t.Helper()
	p, err := Open(packed(t, programs))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func check(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != content {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, content)
		}
		if fi, err := os.Stat(filepath.Join(dir, name)); err == nil && fi.Mode() != 0o755 {
			t.Errorf("%s: mode %v", name, fi.Mode())
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".unpack-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUnpackThenSkipThenRepair(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	p := open(t, map[string]string{"runc": "first", "shim": strings.Repeat("x", 1<<20), "lazyctl": "later"})
	if err := p.Unpack(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	check(t, dir, map[string]string{"runc": "first"})
	if _, err := os.Stat(filepath.Join(dir, "lazyctl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a lazy program was unpacked at start: %v", err)
	}
	before, _ := os.Stat(filepath.Join(dir, "runc"))
	if err := p.Unpack(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(filepath.Join(dir, "runc")); !os.SameFile(before, after) {
		t.Error("a second start wrote the programs again")
	}
	// Damage that a stat shows is repaired.
	if err := os.WriteFile(filepath.Join(dir, "runc"), []byte("cut"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.Unpack(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	check(t, dir, map[string]string{"runc": "first"})
	// Another version with the same sizes replaces this one.
	if err := open(t, map[string]string{"runc": "secnd"}).Unpack(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	check(t, dir, map[string]string{"runc": "secnd"})
}

func TestProgramIsUnpackedWhenAskedFor(t *testing.T) {
	dir := t.TempDir()
	p := open(t, map[string]string{"runc": "r", "lazyctl": "later"})
	path, err := p.Program(t.Context(), dir, "lazyctl")
	if err != nil {
		t.Fatal(err)
	}
	if path != filepath.Join(dir, "lazyctl") {
		t.Errorf("path %s", path)
	}
	check(t, dir, map[string]string{"lazyctl": "later"})
	if _, err := p.Program(t.Context(), dir, "nosuch"); err == nil {
		t.Error("a program that is not carried was found")
	}
}

func TestDamageIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(fstest.MapFS)
		want   string
	}{
		{"other content", func(f fstest.MapFS) {
			enc, _ := zstd.NewWriter(nil)
			f["runc.zst"].Data = enc.EncodeAll([]byte("evil!"), nil)
		}, "damaged"},
		{"longer", func(f fstest.MapFS) {
			enc, _ := zstd.NewWriter(nil)
			f["runc.zst"].Data = enc.EncodeAll([]byte("first and more"), nil)
		}, "damaged"},
		{"cut", func(f fstest.MapFS) { f["runc.zst"].Data = f["runc.zst"].Data[:5] }, "EOF"},
		{"gone", func(f fstest.MapFS) { delete(f, "runc.zst") }, "not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := packed(t, map[string]string{"runc": "first"})
			tc.damage(fsys)
			p, err := Open(fsys)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			err = p.Unpack(context.Background(), dir)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want something with %q", err, tc.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "runc")); !errors.Is(err, os.ErrNotExist) {
				t.Error("a damaged program appeared under its name")
			}
			check(t, dir, nil)
		})
	}
}

func TestMissingAndMalformedManifests(t *testing.T) {
	if _, err := Open(fstest.MapFS{"README": {}}); !errors.Is(err, ErrMissing) {
		t.Errorf("no manifest: %v", err)
	}
	for _, bad := range []string{"{", `{"entries":[{"name":"../x","size":1,"sha256":"` + strings.Repeat("0", 64) + `"}]}`} {
		if _, err := Open(fstest.MapFS{manifest.Name: {Data: []byte(bad)}}); err == nil || errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestEmbedded unpacks what this very binary carries, when it does.
func TestEmbedded(t *testing.T) {
	p, err := Embedded()
	if errors.Is(err, ErrMissing) {
		return // a fresh clone before `make payload`: a case of its own, shown above
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := p.Unpack(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "containerd-shim-runc-v2"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte("\x7fELF")) {
		t.Error("the shim is no program")
	}
	if len(data) > 12<<20 {
		t.Errorf("the shim is %d bytes: it runs once for every pod and must stay small", len(data))
	}
}
