package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

var _ worker.Probes = (*Manager)(nil)

// bench is a Manager in a bubble, with a checker whose answers the test scripts by the probe's command.
type bench struct {
	*Manager
	pod    *v1.Pod
	start  time.Time
	mu     sync.Mutex
	answer map[string]func(n int) (Result, error) // n counts from 1
	runs   map[string]int
	story  []string
	turns  []string // as the timeline has them
}

func (b *bench) Check(_ context.Context, p *v1.Probe, _ Target) (Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := p.Exec.Command[0]
	b.runs[name]++
	return b.answer[name](b.runs[name])
}

func (b *bench) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.story = append(b.story, fmt.Sprintf("%v ", time.Since(b.start))+fmt.Sprintf(format, args...))
}

func (b *bench) turned(r timeline.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns = append(b.turns, strings.TrimSpace(fmt.Sprintf("%v %s %s -> %s %s", time.Since(b.start), r.Subject, r.From, r.To, r.Cause)))
}

func (b *bench) told() string { b.mu.Lock(); defer b.mu.Unlock(); return strings.Join(b.story, "\n") }

func (b *bench) count(name string) int { b.mu.Lock(); defer b.mu.Unlock(); return b.runs[name] }

func ok(int) (Result, error) { return Result{OK: true}, nil }
func no(int) (Result, error) { return Result{Output: "no"}, nil }

func probe(name string, period, failures int32) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{name}}},
		PeriodSeconds: period, FailureThreshold: failures, SuccessThreshold: 1, TimeoutSeconds: 1,
	}
}

func bubble(t *testing.T, body func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := &bench{
			start: time.Now(), runs: map[string]int{}, answer: map[string]func(int) (Result, error){"startup": ok, "live": ok, "ready": ok},
			pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}},
		}
		m, err := New(ctx, Config{
			Checker: b, Append: b.turned, Log: slog.New(slog.DiscardHandler),
			Turned: func(uid types.UID, e podlife.ProbeTurned) { b.say("%s %s %s %v", uid, e.ID, e.Probe, e.OK) },
			Event:  func(_ *v1.Pod, c, _, reason, message string) { b.say("%s %s: %s", c, reason, message) },
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Manager = m
		body(b)
		cancel()
		m.Wait()
	})
}

func settle(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestStartupGoesFirstAndThresholdsCount(t *testing.T) {
	bubble(t, func(b *bench) {
		c := &v1.Container{Name: "a", StartupProbe: probe("startup", 1, 10), LivenessProbe: probe("live", 5, 3), ReadinessProbe: probe("ready", 2, 2)}
		c.ReadinessProbe.SuccessThreshold = 2
		c.StartupProbe.InitialDelaySeconds = 3
		b.answer["startup"] = func(n int) (Result, error) { return Result{OK: n == 2, Output: "not yet"}, nil }
		b.answer["live"] = func(n int) (Result, error) { return Result{OK: n < 3, Output: "dead"}, nil }
		b.SetProbes(b.pod, c, "id", "ip", podlife.AllProbes)
		settle(time.Minute)
		want := strings.Join([]string{
			"3s a Unhealthy: Startup probe failed: not yet",
			"4s u id startup true",
			"4s u id liveness true",
			"6s u id readiness true",
			"14s a Unhealthy: Liveness probe failed: dead",
			"19s a Unhealthy: Liveness probe failed: dead",
			"24s a Unhealthy: Liveness probe failed: dead",
			"24s u id liveness false",
		}, "\n")
		if got := b.told(); got != want {
			t.Errorf("\n%s\nwant\n%s", got, want)
		}
		if n := b.count("live"); n != 5 {
			t.Errorf("liveness ran %d times: it must end once it has failed", n)
		}
	})
}

func TestTerminationKeepsReadinessOnly(t *testing.T) {
	bubble(t, func(b *bench) {
		c := &v1.Container{Name: "a", LivenessProbe: probe("live", 1, 1), ReadinessProbe: probe("ready", 1, 1)}
		b.SetProbes(b.pod, c, "id", "ip", podlife.AllProbes)
		settle(2500 * time.Millisecond)
		b.SetProbes(b.pod, c, "id", "ip", podlife.ReadinessOnly)
		b.mu.Lock()
		b.answer["live"], b.answer["ready"] = no, no // C09: the handler of TERM takes the file away
		b.mu.Unlock()
		live := b.count("live")
		settle(5 * time.Second)
		if got := b.told(); !strings.HasSuffix(got, "3s u id readiness false\n4s a Unhealthy: Readiness probe failed: no\n5s a Unhealthy: Readiness probe failed: no\n6s a Unhealthy: Readiness probe failed: no\n7s a Unhealthy: Readiness probe failed: no") ||
			strings.Contains(got, "Liveness probe failed") {
			t.Error(got)
		}
		b.SetProbes(b.pod, c, "id", "ip", podlife.NoProbes)
		ready := b.count("ready")
		settle(time.Minute)
		if b.count("live") != live || b.count("ready") != ready {
			t.Error("probes ran after they were ended")
		}
	})
}

func TestProbeThatCannotRunIsNoResult(t *testing.T) {
	bubble(t, func(b *bench) {
		c := &v1.Container{Name: "a", ReadinessProbe: probe("ready", 10, 1)}
		b.answer["ready"] = func(n int) (Result, error) {
			switch {
			case n < 3, n > 3 && n < 7:
				return Result{}, errors.New("the runtime is away")
			case n > 7 && n < 11:
				return Result{Began: true}, errors.New("unexpected EOF")
			}
			return Result{OK: true, Warn: "elsewhere"}, nil
		}
		b.SetProbes(b.pod, c, "id", "ip", podlife.AllProbes)
		settle(35 * time.Second)
		want := "0s a ProbeWarning: Readiness probe warning: elsewhere\n0s u id readiness true\n" +
			"10s a Unhealthy: Readiness probe errored and resulted in unknown state: the runtime is away\n" +
			"20s a ProbeWarning: Readiness probe warning: elsewhere\n" +
			"30s a Unhealthy: Readiness probe errored and resulted in failure state: unexpected EOF"
		if got := b.told(); got != want {
			t.Errorf("\n%s\nwant\n%s", got, want)
		}
		turns := "0s a/readiness unknown -> ok\n10s a/readiness ok -> error the runtime is away\n20s a/readiness error -> ok\n30s a/readiness ok -> error unexpected EOF"
		if got := strings.Join(b.turns, "\n"); got != turns {
			t.Errorf("the timeline has\n%s\nwant\n%s", got, turns)
		}
	})
}

func TestAfterARestartWhatIsKnownStays(t *testing.T) {
	bubble(t, func(b *bench) {
		yes := true
		b.pod.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: "a", ContainerID: "containerd://id", Started: &yes,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(b.start.Add(-time.Hour))}},
		}}
		c := &v1.Container{Name: "a", StartupProbe: probe("startup", 1, 1), ReadinessProbe: probe("ready", 10, 1)}
		c.ReadinessProbe.InitialDelaySeconds = 60
		b.SetProbes(b.pod, c, "id", "ip", podlife.AllProbes)
		settle(10 * time.Second)
		if b.count("startup") != 0 || b.count("ready") != 1 {
			t.Errorf("startup ran %d times, readiness %d", b.count("startup"), b.count("ready"))
		}
		b.SetProbes(b.pod, c, "another", "ip", podlife.AllProbes) // a new life of the container knows nothing
		settle(time.Second)
		if b.count("startup") != 1 {
			t.Error("a new container took over the old one's start")
		}
	})
}

// kubernetes/kubernetes#58853: a container that was started later than it is, since the clock was set back, is probed after its delay all the same.
func TestAClockThatIsSetBack(t *testing.T) {
	bubble(t, func(b *bench) {
		b.pod.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: "a", ContainerID: "containerd://id",
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(b.start.Add(time.Hour))}},
		}}
		c := &v1.Container{Name: "a", ReadinessProbe: probe("ready", 10, 1)}
		c.ReadinessProbe.InitialDelaySeconds = 5
		b.SetProbes(b.pod, c, "id", "ip", podlife.AllProbes)
		settle(4 * time.Second)
		early := b.count("ready")
		settle(2 * time.Second)
		if early != 0 || b.count("ready") != 1 {
			t.Errorf("%d runs before the delay has passed, %d then", early, b.count("ready"))
		}
	})
}

// A verdict turns exactly when its threshold of equal results in a row is reached, and never to what it is.
func TestTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &v1.Probe{FailureThreshold: int32(rapid.IntRange(1, 4).Draw(t, "failures")), SuccessThreshold: int32(rapid.IntRange(1, 3).Draw(t, "successes"))}
		var got tally
		var all []bool
		verdict := "unknown"
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			all = append(all, rapid.Bool().Draw(t, "result"))
			last := all[len(all)-1]
			need := int(p.FailureThreshold)
			if last {
				need = int(p.SuccessThreshold)
			}
			streak := 0
			for i := len(all) - 1; i >= 0 && all[i] == last; i-- {
				streak++
			}
			want := streak >= need && verdict != fmt.Sprint(last)
			if want {
				verdict = fmt.Sprint(last)
			}
			if turned := got.add(last, p); turned != want {
				t.Fatalf("%v: turned %v, want %v", all, turned, want)
			}
			if got.known && fmt.Sprint(got.ok) != verdict || !got.known && verdict != "unknown" {
				t.Fatalf("%v: verdict %+v, want %s", all, got, verdict)
			}
		}
	})
}
