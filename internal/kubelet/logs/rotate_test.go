package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime has one running container c whose log is at path; reopening makes a new file unless fail is set.
type fakeRuntime struct {
	path     string
	fail     error
	reopened int
	asked    int
	takes    time.Duration // to tell the path
}

func (f *fakeRuntime) ListContainers(_ context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error) {
	if filter.State.State != runtimev1.ContainerState_CONTAINER_RUNNING {
		return nil, errors.New("only running containers write")
	}
	return []*runtimev1.Container{{Id: "c"}}, nil
}

func (f *fakeRuntime) ContainerStatus(context.Context, string) (*runtimev1.ContainerStatus, error) {
	f.asked++
	time.Sleep(f.takes)
	return &runtimev1.ContainerStatus{LogPath: f.path}, nil
}

func (f *fakeRuntime) ReopenContainerLog(ctx context.Context, _ string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f.fail != nil {
		return f.fail
	}
	f.reopened++
	return os.WriteFile(f.path, nil, 0o640)
}

// kubernetes/kubernetes#134324: what takes minutes before a log's turn comes does not keep it from being rotated.
func TestRotationAfterLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &fakeRuntime{path: filepath.Join(t.TempDir(), "0.log"), takes: time.Hour}
		r, err := NewRotator(RotatorConfig{Runtime: rt, Log: slog.New(slog.DiscardHandler), MaxSize: 10, MaxFiles: 4})
		if err != nil {
			t.Fatal(err)
		}
		write(t, rt.path, strings.Repeat("a", 10))
		if err := r.Rotate(t.Context()); err != nil || rt.reopened != 1 {
			t.Errorf("%v, reopened %d times", err, rt.reopened)
		}
	})
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	rt := &fakeRuntime{path: filepath.Join(dir, "0.log")}
	r, err := NewRotator(RotatorConfig{Runtime: rt, Log: slog.New(slog.DiscardHandler), MaxSize: 100, MaxFiles: 4})
	if err != nil {
		t.Fatal(err)
	}
	list := func() string {
		files, _ := os.ReadDir(dir)
		var names []string
		for _, f := range files {
			names = append(names, f.Name())
		}
		return strings.Join(names, " ")
	}
	// What earlier rotations and a crash in the middle of one have left.
	old := func(name, text string) { write(t, filepath.Join(dir, name), text) }
	old("0.log.20250101-000001.gz", "x")
	old("0.log.20250101-000002", "plain and compressed: the compressed one is whole")
	old("0.log.20250101-000002.gz", "x")
	old("0.log.20250101-000003", "the latest")
	old("0.log.20250101-000003.tmp", "half")
	old("00.log", "another container's")

	write(t, rt.path, strings.Repeat("a", 99))
	if err := r.Rotate(t.Context()); err != nil || rt.reopened != 0 {
		t.Fatalf("a small log was rotated: %v", err)
	}
	write(t, rt.path, "aa")
	if err := r.Rotate(t.Context()); err != nil || rt.reopened != 1 || rt.asked != 1 {
		t.Fatalf("%v, reopened %d times, path asked for %d times", err, rt.reopened, rt.asked)
	}
	names := list()
	if !strings.Contains(names, "0.log.20250101-000002.gz 0.log.20250101-000003.gz 0.log.2") || strings.Count(names, "0.log") != 5 {
		t.Errorf("files %s: want the current, a plain rotated and two compressed ones", names)
	}
	f, err := os.Open(filepath.Join(dir, "0.log.20250101-000003.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != "the latest" {
		t.Errorf("%q %v", text, err)
	}
}

func TestRotationIsUndoneWhenTheRuntimeCannotReopen(t *testing.T) {
	rt := &fakeRuntime{path: filepath.Join(t.TempDir(), "0.log"), fail: errors.New("no")}
	r, _ := NewRotator(RotatorConfig{Runtime: rt, Log: slog.New(slog.DiscardHandler), MaxSize: 1, MaxFiles: 2})
	write(t, rt.path, "text")
	if err := r.Rotate(t.Context()); !errors.Is(err, rt.fail) {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(rt.path); err != nil || string(b) != "text" {
		t.Errorf("%q %v", b, err)
	}
	// Stopped between rename and reopening: the runtime is told after the restart.
	rt.fail = nil
	if err := os.Rename(rt.path, rt.path+".20260101-000000"); err != nil {
		t.Fatal(err)
	}
	if err := r.Rotate(t.Context()); err != nil || rt.reopened != 1 {
		t.Errorf("%v, reopened %d times", err, rt.reopened)
	}
}
