package etcd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/etcd"
)

// TestFullDisk: a write that the disk has no room for ends the component for good, and says what to do; what had been
// acknowledged is there when there is room again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root, to mount a small disk")
		}
		t.Skip("not root")
	}
	dir := t.TempDir()
	// etcd allots 64 MB for its log at once, and as much for the next piece of it.
	if err := syscall.Mount("podo-test", dir, "tmpfs", 0, "size=160m"); err != nil {
		t.Fatal(err)
	}
	// The dead member's files stay open in this process.
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })

	data := filepath.Join(dir, "etcd")
	e := embedded(t, etcd.EmbeddedConfig{Dir: data})
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- e.Run(t.Context(), func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	put(t, e, "first", "1")
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 64<<10))
	}
	_ = f.Close()

	value := []byte(strings.Repeat("x", 500<<10))
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := e.Txn(t.Context(), nil, []store.Op{{Key: "big", Value: value}}); err != nil {
				return
			}
		}
	}()
	select {
	case err = <-done:
	case <-time.After(time.Minute):
		t.Fatal("etcd does not notice that the disk is full")
	}
	close(stop)
	if !component.IsFatal(err) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("error %v", err)
	}
	if _, err := e.Get(t.Context(), "first"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("after its end: %v", err)
	}

	// A new process would find the locks free; in this one the dead member still holds them. So look at a copy.
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	again := t.TempDir()
	if err := os.CopyFS(filepath.Join(again, "member"), os.DirFS(filepath.Join(data, "member"))); err != nil {
		t.Fatal(err)
	}
	e = embedded(t, etcd.EmbeddedConfig{Dir: again})
	start(t, e)
	if kv, err := e.Get(t.Context(), "first"); err != nil || string(kv.Value) != "1" {
		t.Errorf("what was acknowledged is lost: %+v, %v", kv, err)
	}
}
