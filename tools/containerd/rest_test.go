package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestClean(t *testing.T) {
	const maps = `00400000-0245b000 r-xp 00000000 fe:00 10011486                           /usr/bin/containerd
0245b000-06f03000 r--p 0205b000 fe:00 10011486                           /usr/bin/containerd
06f03000-06fcd000 rw-p 06b03000 fe:00 10011486                           /usr/bin/containerd
c000000000-c00f400000 rw-p 00000000 00:00 0 
7fd4000-7fd6000 r--s 00000000 fe:00 10436852                             /data/a folder/meta.db
7fff000-7fff100 r-xp 00000000 00:00 0                                    [vdso]
nonsense
x-y r--p 0 0 0 /nowhere
`
	want := []mapping{{0x400000, 0x245b000}, {0x245b000, 0x6f03000}}
	if got := clean(maps); !slices.Equal(got, want) {
		t.Errorf("found %x, want %x", got, want)
	}
}

// A process at rest gives back the pages of a file that it has mapped, and reads in it afterwards what was there; a busy one keeps them.
func TestKeeper(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mapped")
	if err := os.WriteFile(path, []byte(strings.Repeat("what is in the file ", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 200_000, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	resident := func() bool {
		smaps, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Fatal(err)
		}
		_, of, _ := strings.Cut(string(smaps), path+"\n")
		_, of, _ = strings.Cut(of, "Rss:")
		return strings.Fields(of)[0] != "0"
	}
	read := func() {
		if text := string(mem[:20]) + string(mem[199_980:]); text != "what is in the file what is in the file " || !resident() {
			t.Fatalf("the file says %q, in memory: %v", text, resident())
		}
	}
	k := &keeper{used: processorTime()}
	read()
	k.look()
	if resident() {
		t.Error("what is mapped is held by a process at rest")
	}
	read()
	for began := processorTime(); processorTime()-began < 2*restingUse; {
	}
	k.look()
	if !resident() {
		t.Error("a busy process has given back what it maps")
	}
	k.look()
	if resident() {
		t.Error("what is mapped is held by a process that was busy before")
	}
}
