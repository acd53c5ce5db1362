package source

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
)

// Where the kernel watches no more, each pod is told of once, with the limit; when it does again, changes are heard of, and again when the
// folder was taken away and made anew.
func TestWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var told []string
	w := &watch{f: File{
		Path: dir, Every: 20 * time.Second, Log: slog.New(slog.DiscardHandler),
		Unwatched: func(p *v1.Pod, every time.Duration, err error) {
			told = append(told, p.Name+" "+every.String()+" "+err.Error())
		},
	}}
	defer w.close()
	refused := syscall.EMFILE
	w.make = func() (*fsnotify.Watcher, error) { return nil, os.NewSyscallError("inotify_init1", refused) }
	a, b := &v1.Pod{}, &v1.Pod{}
	a.Name, a.UID, b.Name, b.UID = "a", "a", "b", "b"
	for _, pods := range [][]*v1.Pod{{a}, {a, b}, {a, b}} {
		w.open()
		w.tell(pods)
	}
	if len(told) != 2 || !strings.HasPrefix(told[0], "a 20s inotify_init1: too many open files") || !strings.Contains(told[0], "fs.inotify.max_user_instances") ||
		!strings.HasPrefix(told[1], "b ") || w.events() != nil {
		t.Fatalf("told %q", told)
	}
	refused, told = syscall.ENOSPC, nil
	b.UID = "b2" // it was changed
	w.open()
	w.tell([]*v1.Pod{a, b})
	if len(told) != 1 || !strings.HasPrefix(told[0], "b ") || !strings.Contains(told[0], "fs.inotify.max_user_watches") {
		t.Fatalf("told %q", told)
	}
	w.make, told = nil, nil
	w.open()
	w.tell([]*v1.Pod{a, b})
	heard := func(name string) {
		t.Helper()
		for limit := time.After(10 * time.Second); ; {
			select {
			case e := <-w.events():
				if filepath.Base(e.Name) == name {
					return
				}
			case <-limit:
				t.Fatalf("nothing was heard of %s", name)
			}
		}
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	heard("one")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	heard("manifests")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.open()
	write("two")
	heard("two")
	if len(told) > 0 {
		t.Errorf("told %q", told)
	}
}

// That the kernel had more to say than it keeps is heard; it would be the last that the watcher says.
func TestWhatWasMissedIsHeard(t *testing.T) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	f := File{Path: t.TempDir(), Every: time.Hour, Log: slog.New(slog.DiscardHandler), instance: func() (*fsnotify.Watcher, error) { return w, nil }}
	ctx, cancel := context.WithCancel(t.Context())
	ended, out := make(chan error, 1), make(chan Change, 1)
	go func() { ended <- f.Run(ctx, out) }()
	for range 2 {
		select {
		case w.Errors <- fsnotify.ErrEventOverflow:
		case <-time.After(time.Minute):
			t.Fatal("nobody listens")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
