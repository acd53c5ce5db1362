package containergc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/kubelet/labels"
)

const (
	created = runtimev1.ContainerState_CONTAINER_CREATED
	running = runtimev1.ContainerState_CONTAINER_RUNNING
	exited  = runtimev1.ContainerState_CONTAINER_EXITED
)

func container(id, uid, name, sandbox string, state runtimev1.ContainerState, at int64) *runtimev1.Container {
	return &runtimev1.Container{
		Id: id, PodSandboxId: sandbox, State: state, CreatedAt: at * int64(time.Second),
		Labels: map[string]string{labels.PodUID: uid, labels.ContainerName: name, labels.Node: "n"},
	}
}

func sandbox(id, uid string, ready bool, at int64) *runtimev1.PodSandbox {
	s := &runtimev1.PodSandbox{Id: id, CreatedAt: at, State: runtimev1.PodSandboxState_SANDBOX_NOTREADY, Labels: map[string]string{labels.PodUID: uid}}
	if ready {
		s.State = runtimev1.PodSandboxState_SANDBOX_READY
	}
	return s
}

func now() time.Time { return time.Unix(1000, 0) }

func TestPlan(t *testing.T) {
	all := seen{
		containers: []*runtimev1.Container{
			container("a1", "live", "a", "s1", exited, 1), container("a2", "live", "a", "s1", exited, 2), container("a3", "live", "a", "s2", running, 3),
			container("b1", "live", "b", "s2", created, 4), container("b0", "live", "b", "s2", exited, 3),
			container("e1", "ended", "a", "s3", exited, 1), container("g1", "gone", "a", "s5", created, 1), container("r1", "strange", "a", "s6", running, 1),
		},
		sandboxes: []*runtimev1.PodSandbox{
			sandbox("s0", "live", false, 0), sandbox("s1", "live", false, 1), sandbox("s2", "live", true, 2),
			sandbox("s3", "ended", false, 1), sandbox("s4", "down", false, 1), sandbox("s5", "gone", false, 1), sandbox("s6", "strange", true, 1),
		},
		logDirs:  map[types.UID]string{"live": "l", "ended": "e", "gone": "g", "strange": "r", "longgone": "lg"},
		pods:     map[types.UID]bool{"live": false, "ended": true, "down": false},
		complete: true,
	}
	for name, c := range map[string]struct {
		change func(*seen, *Policy)
		want   string
	}{
		"default":                  {func(*seen, *Policy) {}, "[a1 e1 g1] [s0 s3 s5] [g lg]"},
		"sources are not synced":   {func(s *seen, _ *Policy) { s.complete = false }, "[a1 e1] [s0 s3] []"},
		"keep none":                {func(_ *seen, p *Policy) { p.PerContainer = 0 }, "[a1 a2 b0 e1 g1] [s0 s1 s3 s5] [g lg]"},
		"keep all":                 {func(_ *seen, p *Policy) { p.PerContainer = -1 }, "[e1 g1] [s0 s3 s5] [g lg]"},
		"one on the whole node":    {func(_ *seen, p *Policy) { p.Total = 1 }, "[a1 a2 e1 g1] [s0 s1 s3 s5] [g lg]"},
		"the young ones stay":      {func(_ *seen, p *Policy) { p.MinAge = 999 * time.Second }, "[e1 g1] [s0 s3 s5] [g lg]"},
		"everything is too young":  {func(_ *seen, p *Policy) { p.MinAge = time.Hour }, "[] [s0] [lg]"},
		"the whole node has ended": {func(s *seen, _ *Policy) { s.pods = nil }, "[a1 a2 b0 b1 e1 g1] [s0 s1 s3 s4 s5] [e g lg]"},
	} {
		s, p := all, DefaultPolicy()
		c.change(&s, &p)
		got := plan(s, p, now())
		if text := fmt.Sprint(got.containers, got.sandboxes, got.logDirs); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

func TestPlanNeverTakesWhatIsNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uid := rapid.SampledFrom([]string{"p", "q", "r"})
		s := seen{complete: rapid.Bool().Draw(t, "complete"), pods: map[types.UID]bool{}, logDirs: map[types.UID]string{}}
		for _, u := range []types.UID{"p", "q", "r"} {
			if rapid.Bool().Draw(t, "known") {
				s.pods[u] = rapid.Bool().Draw(t, "ended")
			}
			s.logDirs[u] = string(u)
		}
		for i := range rapid.IntRange(0, 12).Draw(t, "containers") {
			s.containers = append(s.containers, container(fmt.Sprint("c", i), uid.Draw(t, "uid"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"),
				fmt.Sprint("s", rapid.IntRange(0, 4).Draw(t, "sandbox")), rapid.SampledFrom([]runtimev1.ContainerState{created, running, exited}).Draw(t, "state"), int64(i)))
		}
		for i := range 5 {
			s.sandboxes = append(s.sandboxes, sandbox(fmt.Sprint("s", i), uid.Draw(t, "uid"), rapid.Bool().Draw(t, "ready"), int64(i)))
		}
		p := Policy{PerContainer: rapid.IntRange(-1, 2).Draw(t, "per"), Total: rapid.IntRange(-1, 5).Draw(t, "total")}
		got := plan(s, p, now())
		taken := map[string]bool{}
		for _, id := range append(got.containers, got.sandboxes...) {
			if taken[id] {
				t.Fatalf("%s is taken twice", id)
			}
			taken[id] = true
		}
		left := map[unit]int{}
		total := 0
		for _, c := range s.containers {
			u := unit{types.UID(c.Labels[labels.PodUID]), c.Labels[labels.ContainerName]}
			switch {
			case c.State == running && taken[c.Id], c.State == created && !s.over(u.uid) && taken[c.Id]:
				t.Fatalf("%s is taken while it is needed", c.Id)
			case c.State == exited && !taken[c.Id]:
				left[u]++
				total++
			}
			if !taken[c.Id] && taken[c.PodSandboxId] {
				t.Fatalf("the sandbox of %s is taken", c.Id)
			}
		}
		for u, n := range left {
			if p.PerContainer >= 0 && n > p.PerContainer || s.over(u.uid) {
				t.Fatalf("%d of %v left", n, u)
			}
		}
		if p.Total >= 0 && total > p.Total {
			t.Fatalf("%d left", total)
		}
		for _, b := range s.sandboxes {
			if b.State == runtimev1.PodSandboxState_SANDBOX_READY && taken[b.Id] {
				t.Fatalf("ready sandbox %s is taken", b.Id)
			}
		}
		for _, d := range got.logDirs {
			if _, known := s.pods[types.UID(d)]; known || !s.complete {
				t.Fatalf("the logs of %s are taken", d)
			}
		}
	})
}

type fakeRuntime struct {
	Runtime
	seen
	did  []string
	fail string
}

func (f *fakeRuntime) ListContainers(_ context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error) {
	if filter.LabelSelector[labels.Node] != "n" {
		return nil, errors.New("another node's containers are asked for")
	}
	return f.containers, nil
}

func (f *fakeRuntime) ListPodSandbox(context.Context, *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error) {
	return f.sandboxes, nil
}

func (f *fakeRuntime) do(what, id string) error {
	if id == f.fail {
		return errors.New("no")
	}
	f.did = append(f.did, what+" "+id)
	return nil
}

func (f *fakeRuntime) RemoveContainer(_ context.Context, id string) error { return f.do("rm", id) }
func (f *fakeRuntime) StopPodSandbox(_ context.Context, id string) error  { return f.do("stop", id) }

func (f *fakeRuntime) RemovePodSandbox(_ context.Context, id string) error { return f.do("rmp", id) }

func TestCollect(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"ns_gone_g", "ns_live_l", "something else", "a_b"} {
		if err := os.MkdirAll(filepath.Join(root, dir, "c"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	rt := &fakeRuntime{fail: "c1", seen: seen{
		containers: []*runtimev1.Container{container("c1", "x", "a", "s1", exited, 1), container("c2", "g", "a", "s2", exited, 1)},
		sandboxes:  []*runtimev1.PodSandbox{sandbox("s2", "g", false, 1)},
	}}
	c, err := New(Config{
		Runtime: rt, Log: slog.New(slog.DiscardHandler), Node: "n", LogRoot: root, Policy: DefaultPolicy(),
		Pods: func() (map[types.UID]bool, bool) { return map[types.UID]bool{"l": false}, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Collect(t.Context()); err == nil || !strings.Contains(err.Error(), "container c1: no") {
		t.Errorf("%v", err)
	}
	if got := strings.Join(rt.did, ", "); got != "rm c2, stop s2, rmp s2" {
		t.Error(got)
	}
	left, _ := filepath.Glob(filepath.Join(root, "*"))
	if len(left) != 3 {
		t.Errorf("%v", left)
	}
}

// What fails is told of the node in its regular turn, and not each time that somebody asks.
func TestAFailureIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &fakeRuntime{fail: "c1", seen: seen{containers: []*runtimev1.Container{container("c1", "x", "a", "s1", exited, 1)}}}
		var told []string
		c, err := New(Config{
			Runtime: rt, Log: slog.New(slog.DiscardHandler), Node: "n", Policy: DefaultPolicy(),
			Pods:      func() (map[types.UID]bool, bool) { return nil, true },
			NodeEvent: func(kind, reason, message string) { told = append(told, kind+" "+reason+" "+message) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx, func() {}) //nolint:errcheck // it returns none
		c.Poke()
		time.Sleep(90 * time.Second)
		synctest.Wait()
		cancel()
		if want := []string{"Warning ContainerGCFailed container c1: no"}; !slices.Equal(told, want) {
			t.Errorf("%q, want %q", told, want)
		}
	})
}

// The logs of a pod that has come back since the look stay.
func TestLogsOfAPodThatCameBack(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"ns_gone_g", "ns_back_b"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(Config{
		Runtime: &fakeRuntime{}, Log: slog.New(slog.DiscardHandler), Node: "n", LogRoot: root, Policy: DefaultPolicy(),
		Pods: func() (map[types.UID]bool, bool) { return nil, true },
		Alone: func(uid types.UID, remove func()) bool {
			if uid == "b" {
				return false
			}
			remove()
			return true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "*")); len(left) != 1 || filepath.Base(left[0]) != "ns_back_b" {
		t.Errorf("left %v", left)
	}
}

// Where others have logs too, what is this node's goes when its pod is gone.
func TestLogsBesideOthers(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"logs/ns_gone_g/c", "logs/ns_other_o/c", "logs/ns_live_l/c", "list/ns_gone_g", "list/ns_live_l", "list/ns_lost_x"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(Config{
		Runtime: &fakeRuntime{}, Log: slog.New(slog.DiscardHandler), Node: "n", Policy: DefaultPolicy(),
		LogRoot: filepath.Join(root, "logs"), LogList: filepath.Join(root, "list"),
		Pods: func() (map[types.UID]bool, bool) { return map[types.UID]bool{"l": true}, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(root, "*", "*"))
	for i := range left {
		left[i], _ = filepath.Rel(root, left[i])
	}
	if want := []string{"list/ns_live_l", "logs/ns_live_l", "logs/ns_other_o"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v, %v; want %v", left, err, want)
	}
}

// kubernetes/kubernetes#91765, #106735: what instances of a container left that are gone goes too, not what the ones that are there have, nor
// what the next one may have already; of a container of which there is none, all stays.
func TestFilesOfGoneInstances(t *testing.T) {
	root := t.TempDir()
	put := func(names ...string) {
		for _, name := range names {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	stay := []string{
		"logs/ns_p_p/a/9.log", "logs/ns_p_p/a/9.log.20260102-030405", "logs/ns_p_p/a/11.log", "logs/ns_p_p/a/12.log", "logs/ns_p_p/a/notes",
		"logs/ns_p_p/b/0.log", "logs/ns_p_p/new/3.log", "messages/p/a/00000009", "messages/p/a/0000000b", "messages/p/a/0000000c",
	}
	put(stay...)
	put("logs/ns_p_p/a/8.log", "logs/ns_p_p/a/0.log.20260102-030405.gz", "logs/ns_p_p/a/10.log", "messages/p/a/00000008", "messages/p/a/00000000")
	instance := func(id, name string, n uint32, state runtimev1.ContainerState) *runtimev1.Container {
		c := container(id, "p", name, "s1", state, int64(n))
		c.Metadata = &runtimev1.ContainerMetadata{Name: name, Attempt: n}
		return c
	}
	rt := &fakeRuntime{seen: seen{
		containers: []*runtimev1.Container{instance("a9", "a", 9, exited), instance("a11", "a", 11, running), instance("b0", "b", 0, running)},
		sandboxes:  []*runtimev1.PodSandbox{sandbox("s1", "p", true, 1)},
	}}
	c, err := New(Config{
		Runtime: rt, Log: slog.New(slog.DiscardHandler), Node: "n", LogRoot: filepath.Join(root, "logs"), Policy: DefaultPolicy(),
		Pods: func() (map[types.UID]bool, bool) { return map[types.UID]bool{"p": false}, true },
		Messages: func(uid types.UID, container string) string {
			return filepath.Join(root, "messages", string(uid), container)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, pattern := range []string{"logs/*/*/*", "messages/*/*/*"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, f := range found {
			name, _ := filepath.Rel(root, f)
			left = append(left, name)
		}
	}
	slices.Sort(left)
	slices.Sort(stay)
	if !slices.Equal(left, stay) {
		t.Errorf("left\n%s\nwant\n%s", strings.Join(left, "\n"), strings.Join(stay, "\n"))
	}
}
