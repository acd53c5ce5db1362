package main

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// pause waits, and ends with status 0 when it is asked to. It blocks the signals first, so asking may come at any time after that.
func TestPauseEndsWhenAsked(t *testing.T) {
	t.Chdir("../..")
	program := filepath.Join(t.TempDir(), "pause")
	if err := compile(program, "tools/pause/pause.c"); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := exec.Command(program)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%v: %v", sig, err)
		}
	}
}
