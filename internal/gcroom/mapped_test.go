package gcroom

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestReadOnlyFiles(t *testing.T) {
	const smaps = `00400000-0245b000 r-xp 00000000 fe:00 10011486                           /usr/bin/podo
Rss:               28072 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
0245b000-06f03000 r--p 0205b000 fe:00 10011486                           /usr/bin/podo
Rss:               28564 kB
Anonymous:             4 kB
06f03000-06fcd000 rw-p 06b03000 fe:00 10011486                           /usr/bin/podo
Rss:                 808 kB
Anonymous:             0 kB
c000000000-c00f400000 rw-p 00000000 00:00 0 
Rss:                 808 kB
Anonymous:           808 kB
7fd4000-7fd6000 r--s 00000000 fe:00 10436852                   /data/a folder/member/snap/db
Rss:                   4 kB
Anonymous:             0 kB
7fd6000-7fd7000 r--s 00000000 fe:00 10436852                   /data/another's
Rss:                   4 kB
Anonymous:             0 kB
7fd8000-7fd9000 r--s 00000000 fe:00 10436852                   /data/not read
Rss:                   0 kB
Anonymous:             0 kB
7fff000-7fff100 r-xp 00000000 00:00 0                          [vdso]
Rss:                   4 kB
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x245b000}, {0x7fd4000, 0x7fd6000}}
	if got := readOnlyFiles(strings.NewReader(smaps)); !slices.Equal(got, want) {
		t.Errorf("found %x, want %x", got, want)
	}
	if got := readOnlyFiles(strings.NewReader("nonsense\nx-y r--p\n-: /\n")); len(got) > 0 {
		t.Errorf("found %x in nonsense", got)
	}
}

// What is read of a file after its pages were given back is what is in it; so are this program's own code and texts.
func TestUnmapFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), store)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("what is in the file "), 10_000)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	resident := func() (pages int) {
		smaps, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Fatal(err)
		}
		_, of, _ := bytes.Cut(smaps, []byte(path+"\n"))
		_, of, _ = bytes.Cut(of, []byte("Rss:"))
		if n := bytes.Fields(of); len(n) == 0 || string(n[0]) == "0" {
			return 0
		}
		return 1
	}
	if !bytes.Equal(mem, content) || resident() == 0 {
		t.Fatal("the file is not mapped")
	}
	done := make(chan struct{})
	_ = Unmapping(func() error {
		go func() { defer close(done); unmapFiles() }()
		select {
		case <-done:
			t.Error("pages are given back while files are unmapped")
		case <-time.After(10 * time.Millisecond):
		}
		return nil
	})
	<-done
	if resident() != 0 {
		t.Error("the file's pages are held as before")
	}
	if !bytes.Equal(mem, content) {
		t.Error("the file says something else afterwards")
	}
}
