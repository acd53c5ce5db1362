package badkernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Launch()
	os.Exit(m.Run())
}

// Calls of the program and of its children are judged, with what they name; others are not.
func TestKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the filter needs root")
	}
	dir := t.TempDir()
	slow := filepath.Join(dir, "slow")
	held, release := make(chan struct{}), make(chan struct{})
	go func() {
		<-held
		if _, err := os.Stat(slow); err == nil {
			t.Error("it is made while it is held")
		}
		close(release)
	}()
	cmd := exec.Command("/bin/sh", "-c", `mkdir "$0/full"; mkdir "$0/slow" && mkdir "$0/other" && echo done`, dir)
	k, out, err := Run(cmd, func(c Call) syscall.Errno {
		path := 0
		if c.Number == unix.SYS_MKDIRAT {
			path = 1
		}
		switch c.Text(path) {
		case filepath.Join(dir, "full"):
			return unix.ENOSPC
		case slow:
			close(held)
			<-release
		}
		return 0
	}, unix.SYS_MKDIR, unix.SYS_MKDIRAT)
	if k != nil {
		defer k.Close()
	}
	if err != nil || !strings.Contains(string(out), "No space left") || !strings.HasSuffix(strings.TrimSpace(string(out)), "done") {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]bool{"full": false, "slow": true, "other": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
