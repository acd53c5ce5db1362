package oom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"podo.dev/podo/internal/host/fake"
)

// The kernel's own words, of version 6: a container's limit, a child whose pod is limited, the machine.
const (
	ofContainer = `stress invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=984
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-1.scope,mems_allowed=0,oom_memcg=/kubepods/burstable/pod1/c1,task_memcg=/kubepods/burstable/pod1/c1,task=stress,pid=4242,uid=1000
Memory cgroup out of memory: Killed process 4242 (stress) total-vm:134660kB, anon-rss:65024kB, file-rss:1024kB, shmem-rss:0kB, UID:1000 pgtables:176kB oom_score_adj:984`
	ofMachine = `oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=eats (all) of it,pid=77,uid=0
Out of memory: Killed process 77 (eats (all) of it) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0`
)

func TestKills(t *testing.T) {
	var p Parser
	var got []string
	for line := range strings.Lines(ofContainer + "\nusb 1-1: new device\n" + ofMachine + "\n" +
		"Memory cgroup out of memory: Killed process 5 (late), UID 0\nOut of memory: Killed process none (x)\n") {
		if k, ok := p.Line(strings.TrimSuffix(line, "\n")); ok {
			got = append(got, fmt.Sprintf("%s %d limit %q in %q", k.Process, k.PID, k.Limited, k.Victim))
		}
	}
	want := []string{
		`stress 4242 limit "/kubepods/burstable/pod1/c1" in "/kubepods/burstable/pod1/c1"`,
		`eats (all) of it 77 limit "" in "/user.slice"`, `late 5 limit "?" in ""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// The node is told of when the machine ran out, not when a container reached its own limit.
func TestSystemOOM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fake.New(t.TempDir())
		var told []string
		w := Watcher{Host: h, Log: slog.New(slog.DiscardHandler), NodeEvent: func(_, reason, message string) { told = append(told, reason+": "+message) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx, func() {}) }()
		for line := range strings.SplitSeq(ofContainer+"\n"+ofMachine, "\n") {
			h.SayKernel(line)
		}
		synctest.Wait()
		if want := []string{"SystemOOM: System OOM encountered, victim process: eats (all) of it, pid: 77"}; !slices.Equal(told, want) {
			t.Errorf("told %q", told)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A machine that keeps its log to itself is no reason not to run pods.
func TestNoKernelLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fake.New(t.TempDir())
		h.Fail("kernel log", "", errors.New("operation not permitted"))
		ready := false
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Watcher{Host: h, Log: slog.New(slog.DiscardHandler)}.Run(ctx, func() { ready = true })
		}()
		synctest.Wait()
		if len(done) > 0 || !ready {
			t.Error("it does not wait for the end, or never was ready")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
