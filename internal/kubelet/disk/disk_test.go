package disk

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWalk(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int64, holes bool) {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if holes {
			err = f.Truncate(size)
		} else {
			_, err = f.Write(make([]byte, size))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	empty, _ := Walk(dir)
	write("a", 1<<20, false)
	write("holes", 1<<30, true)
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	bytes, files := Walk(dir)
	if grown := bytes - empty; grown < 1<<20 || grown > 1<<20+64<<10 {
		t.Errorf("%d bytes, want 1 MiB: holes take nothing, two names of a file are one", grown)
	}
	if files != 3 { // the directory, a or b, holes
		t.Errorf("%d files", files)
	}
	if os.Geteuid() == 0 { // as in CI
		inner := filepath.Join(dir, "mounted")
		if err := os.Mkdir(inner, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", inner, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount(inner, 0) //nolint:errcheck // the folder's removal tells
		write("mounted/f", 1<<20, false)
		if more, files := Walk(dir); more != bytes || files != 3 {
			t.Errorf("%d bytes in %d files with another disk mounted inside, %d before", more, files, bytes)
		}
	}
	if bytes, files := Walk(filepath.Join(dir, "none")); bytes != 0 || files != 0 {
		t.Errorf("what is not there takes %d in %d", bytes, files)
	}
}

func TestOf(t *testing.T) {
	fs, err := Of(t.TempDir())
	if err != nil || fs.Capacity == 0 || fs.Available > fs.Capacity || fs.Used > fs.Capacity {
		t.Errorf("%+v %v", fs, err)
	}
	if _, err := Of("/does/not/exist"); err == nil {
		t.Error("no error for what is not there")
	}
	if !Mounted("/proc") || Mounted(t.TempDir()) {
		t.Error("/proc is a mount, a folder is none")
	}
}
