package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func entry(sec int, stream, tag, text string) string {
	return fmt.Sprintf("2026-01-02T03:04:%02d.5Z %s %s %s\n", sec, stream, tag, text)
}

func write(t *testing.T, path string, entries ...string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(entries, "")); err != nil {
		t.Fatal(err)
	}
}

func TestReadOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path,
		entry(1, "stdout", "F", "one"), entry(2, "stderr", "F", "two"), "garbage\n",
		entry(3, "stdout", "P", "th"), entry(4, "stdout", "F", "ree"), entry(5, "stdout", "F", ""), entry(6, "stderr", "F:t", "last"))
	five := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	i := func(n int64) *int64 { return &n }
	s := func(v string) *string { return &v }
	for name, c := range map[string]struct {
		opts v1.PodLogOptions
		want string
	}{
		"all":        {v1.PodLogOptions{}, "one\ntwo\nthree\n\nlast\n"},
		"tail":       {v1.PodLogOptions{TailLines: i(3)}, "three\n\nlast\n"},
		"tail none":  {v1.PodLogOptions{TailLines: i(0)}, ""},
		"since time": {v1.PodLogOptions{SinceTime: &five}, "\nlast\n"},
		"since":      {v1.PodLogOptions{SinceSeconds: i(1)}, "last\n"},
		"limit":      {v1.PodLogOptions{LimitBytes: i(6)}, "one\ntw"},
		"stdout":     {v1.PodLogOptions{Stream: s(Stdout)}, "one\nthree\n\n"},
		"stderr":     {v1.PodLogOptions{Stream: s(Stderr)}, "two\nlast\n"},
		"timestamps": {v1.PodLogOptions{Timestamps: true, TailLines: i(3), LimitBytes: i(37)}, "2026-01-02T03:04:03.500000000Z three\n"},
	} {
		var out bytes.Buffer
		o := FromAPI(&c.opts, time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC))
		if err := new(Reader).Read(t.Context(), path, o, nil, &out, &out); err != nil || out.String() != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, out.String(), c.want, err)
		}
	}
	if err := new(Reader).Read(t.Context(), path+"x", Options{}, nil, &bytes.Buffer{}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a log that is not there: %v", err)
	}
}

func TestLongEntriesAndAnUnfinishedOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	long := strings.Repeat("x", 100<<10)
	write(t, path, entry(1, "stdout", "F", long), "2026-01-02T03:04:05Z stdout F half")
	var out bytes.Buffer
	if err := new(Reader).Read(t.Context(), path, Options{Tail: -1, Limit: -1}, nil, &out, &out); err != nil || out.String() != long+"\nhalf\n" {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}

// sink collects output and tells when it grew and was flushed.
type sink struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	flushed chan struct{}
}

func newSink() *sink { return &sink{flushed: make(chan struct{}, 1)} }

func (s *sink) Write(b []byte) (int, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.buf.Write(b) }

func (s *sink) Flush() {
	select {
	case s.flushed <- struct{}{}:
	default:
	}
}
func (s *sink) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.buf.String() }

// until waits for the output to become want.
func (s *sink) until(t *testing.T, want string) {
	t.Helper()
	for deadline := time.After(10 * time.Second); s.String() != want; {
		select {
		case <-s.flushed:
		case <-deadline:
			t.Fatalf("output %q, want %q", s.String(), want)
		}
	}
}

func TestFollowAcrossRotationsToTheContainersEnd(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0.log")
	write(t, path, entry(1, "stdout", "F", "a"))
	r, out, ended, done := new(Reader), newSink(), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.Read(t.Context(), path, Options{Follow: true, Tail: -1, Limit: -1}, ended, out, out)
	}()
	out.until(t, "a\n")
	write(t, path, entry(2, "stdout", "F", "b"), "2026-01-02T03:04:05Z stdout F hal")
	out.until(t, "a\nb\n")
	write(t, path, "f\n")
	out.until(t, "a\nb\nhalf\n")

	old := path + ".20260102-030405"
	if err := os.Rename(path, old); err != nil {
		t.Fatal(err)
	}
	write(t, old, entry(3, "stdout", "F", "c")) // the runtime has not reopened yet
	write(t, path)                              // opened, nothing written
	write(t, old, entry(4, "stdout", "F", "d"))
	out.until(t, "a\nb\nhalf\nc\nd\n")
	write(t, path, entry(5, "stdout", "F", "e"))
	out.until(t, "a\nb\nhalf\nc\nd\ne\n")

	write(t, path, entry(6, "stdout", "F", "last"))
	close(ended)
	if err := <-done; err != nil {
		t.Error(err)
	}
	out.until(t, "a\nb\nhalf\nc\nd\ne\nlast\n")
	r.watches.mu.Lock()
	defer r.watches.mu.Unlock()
	if r.watches.w != nil || len(r.watches.dirs) != 0 {
		t.Error("the directory is still watched")
	}
}

// Where the kernel watches no more folders, a log is followed all the same, across a rotation and to the container's end, and the reason is
// told.
func TestFollowWhatCannotBeWatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, entry(1, "stdout", "F", "a"))
	var told bytes.Buffer
	r, out, ended, done := &Reader{Log: slog.New(slog.NewTextHandler(&told, nil))}, newSink(), make(chan struct{}), make(chan error, 1)
	r.watches.open = func() (*fsnotify.Watcher, error) { return nil, os.NewSyscallError("inotify_init1", syscall.EMFILE) }
	users := make(chan string, 1)
	go func() {
		done <- r.Read(t.Context(), path, Options{
			Follow: true, Tail: -1, Limit: -1, Unwatched: func(every time.Duration, err error) { users <- every.String() + " " + err.Error() },
		}, ended, out, out)
	}()
	if told := <-users; !strings.HasPrefix(told, "1s inotify_init1: too many open files") || !strings.Contains(told, "fs.inotify.max_user_instances") {
		t.Errorf("users are told: %s", told)
	}
	out.until(t, "a\n")
	write(t, path, entry(2, "stdout", "F", "b"))
	out.until(t, "a\nb\n")
	if err := os.Rename(path, path+".20260102-030405"); err != nil {
		t.Fatal(err)
	}
	write(t, path, entry(3, "stdout", "F", "c"))
	out.until(t, "a\nb\nc\n")
	write(t, path, entry(4, "stdout", "F", "last"))
	close(ended)
	if err := <-done; err != nil {
		t.Error(err)
	}
	out.until(t, "a\nb\nc\nlast\n")
	if !strings.Contains(told.String(), "a log cannot be watched; it is looked at now and again") || !strings.Contains(told.String(), "too many open files") {
		t.Errorf("told: %s", told.String())
	}
}

// A reader that was blocked while the log was rotated twice still reads every line once.
func TestSlowFollowerSeesEveryRotatedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, entry(1, "stdout", "F", "a"))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	out := newSink()
	c := &cursor{path: path, f: f, out: output{Options: Options{Limit: -1}, stdout: out}}
	for i, text := range []string{"b", "c"} {
		if err := os.Rename(path, fmt.Sprintf("%s.20260102-03040%d", path, i)); err != nil {
			t.Fatal(err)
		}
		write(t, path, entry(2+i, "stdout", "F", text))
	}
	ended := make(chan struct{})
	close(ended)
	if err := c.run(t.Context(), true, nil, ended); err != nil || out.String() != "a\nb\nc\n" {
		t.Errorf("%q %v", out.String(), err)
	}
	c.f.Close()
}

func TestFollowEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, entry(1, "stdout", "F", "a"))
	ctx, cancel := context.WithCancel(t.Context())
	out, done := newSink(), make(chan error, 1)
	go func() {
		done <- new(Reader).Read(ctx, path, Options{Follow: true, Tail: -1, Limit: -1}, nil, out, out)
	}()
	out.until(t, "a\n")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A log that is removed while somebody follows it is told to its end, and ends with its container.
func TestFollowOfALogThatIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "0.log")
	write(t, path, entry(1, "stdout", "F", "a"))
	held, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0) // the runtime's
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	out, done, ended := newSink(), make(chan error, 1), make(chan struct{})
	go func() {
		done <- new(Reader).Read(t.Context(), path, Options{Follow: true, Tail: -1, Limit: -1}, ended, out, out)
	}()
	out.until(t, "a\n")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := held.WriteString(entry(2, "stdout", "F", "b")); err != nil {
		t.Fatal(err)
	}
	close(ended)
	out.until(t, "a\nb\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What is no entry is left out, and hides nothing of what is: neither zeros of a machine that went down, nor lines cut in the middle.
func TestDamagedLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, entry(1, "stdout", "F", "one"), strings.Repeat("\x00", 5000)+"\n", "2026-01-02T03:04:05Z stdo\n", "\n",
		"2026-13-02T03:04:05Z stdout F no such month\n", entry(2, "stdout", "F", "two"), "2026-01-02T03:04:05Z nowhere F x\n", entry(3, "stderr", "F", "three"), "cut")
	for tail, want := range map[int64]string{-1: "one\ntwo\nthree\n", 1: "three\n"} {
		var out bytes.Buffer
		if err := new(Reader).Read(t.Context(), path, Options{Tail: tail, Limit: -1}, nil, &out, &out); err != nil || out.String() != want {
			t.Errorf("tail %d: %q %v, want %q", tail, out.String(), err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(entry(1, "stdout", "P:x", "text")))
	f.Add([]byte("2026-01-02T03:04:05Z stdout F"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, ok := parse(b)
		if ok && (l.at.IsZero() && !bytes.HasPrefix(b, []byte("0001")) || l.stream == "" || !bytes.Contains(b, l.text)) {
			t.Errorf("%q: %+v", b, l)
		}
	})
}
