package logs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
)

func TestLinks(t *testing.T) {
	root := t.TempDir()
	l := Links{Dir: filepath.Join(root, "containers")}
	names := func() (out []string) {
		entries, err := os.ReadDir(l.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	if err := l.Sweep(); err != nil {
		t.Errorf("before there is a folder: %v", err)
	}
	for _, c := range []string{"a", "b", "new", "gone"} {
		log := filepath.Join(root, "logs", c, c, "0.log")
		for range 2 {
			if err := l.Add("p", "ns", c, "id"+c, log); err != nil {
				t.Fatal(err)
			}
		}
		if c != "gone" {
			if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if c == "a" || c == "b" {
			write(t, log, entry(1, "stdout", "F", c))
		}
	}
	write(t, filepath.Join(l.Dir, "other.log"), "another program's")
	if b, err := os.ReadFile(filepath.Join(l.Dir, "p_ns_a-ida.log")); err != nil || !strings.Contains(string(b), "stdout F a") {
		t.Errorf("%q %v", b, err)
	}
	// "a" is being rotated, "new" has not been started (kubernetes/kubernetes#52172, #89160).
	if err := os.Rename(filepath.Join(root, "logs/a/a/0.log"), filepath.Join(root, "logs/a/a/0.log.20260102-030405")); err != nil {
		t.Fatal(err)
	}
	if err := l.Sweep(); err != nil {
		t.Error(err)
	}
	if got, want := names(), []string{"other.log", "p_ns_a-ida.log", "p_ns_b-idb.log", "p_ns_new-idnew.log"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, id := range []string{"idb", "never"} {
		if err := l.Remove(id); err != nil {
			t.Error(err)
		}
	}
	if got, want := names(), []string{"other.log", "p_ns_a-ida.log", "p_ns_new-idnew.log"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if long := LinkName(strings.Repeat("p", 253), "ns", "c", "id"); len(long) != 255 || !strings.HasSuffix(long, ".log") {
		t.Errorf("%d letters: %s", len(long), long)
	}
}

type statuses map[string]*runtimev1.ContainerStatus

func (s statuses) ContainerStatus(_ context.Context, id string) (*runtimev1.ContainerStatus, error) {
	if s[id] == nil {
		return nil, status.Error(codes.NotFound, id)
	}
	return s[id], nil
}

// kubernetes/kubernetes#59206: a container that was made just before the kubelet ended, or whose link somebody removed, has one again.
func TestMissingLinks(t *testing.T) {
	root := t.TempDir()
	l := Links{Dir: filepath.Join(root, "containers")}
	rt, containers := statuses{}, []*runtimev1.Container(nil)
	for _, c := range []struct {
		name  string
		state runtimev1.ContainerState
	}{{"made", runtimev1.ContainerState_CONTAINER_CREATED}, {"runs", runtimev1.ContainerState_CONTAINER_RUNNING}, {"ended", runtimev1.ContainerState_CONTAINER_EXITED}, {"gone", runtimev1.ContainerState_CONTAINER_RUNNING}} {
		containers = append(containers, &runtimev1.Container{
			Id: c.name, State: c.state, Labels: map[string]string{labels.PodName: "p", labels.PodNamespace: "ns", labels.ContainerName: "c"},
		})
		if c.name != "gone" {
			rt[c.name] = &runtimev1.ContainerStatus{LogPath: filepath.Join(root, "ns_p_u/c", c.name)}
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "ns_p_u"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Tend(t.Context(), rt, containers); err != nil {
			t.Error(err)
		}
		clear(rt) // nobody is asked again
	}
	for name, want := range map[string]string{"made": filepath.Join(root, "ns_p_u/c/made"), "runs": filepath.Join(root, "ns_p_u/c/runs"), "ended": "", "gone": ""} {
		if got, _ := os.Readlink(filepath.Join(l.Dir, LinkName("p", "ns", "c", name))); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
