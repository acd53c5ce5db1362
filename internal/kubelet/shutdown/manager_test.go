package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/podlife"
)

func testPod(name string, priority, grace int64) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.UID = name, types.UID(name)
	if n := int32(priority); n != 0 {
		p.Spec.Priority = &n
	}
	p.Spec.TerminationGracePeriodSeconds = &grace
	return p
}

func TestTurns(t *testing.T) {
	seconds := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	pods := []*v1.Pod{
		testPod("none", 0, 1), testPod("below", -5, 1), testPod("ten", 10, 1), testPod("eleven", 11, 1), testPod("hundred", 100, 1),
		testPod("critical", systemCritical, 1), testPod("node-critical", systemCritical+1000, 1),
	}
	for _, tc := range []struct {
		config v1beta1.KubeletConfiguration
		want   string
	}{
		{v1beta1.KubeletConfiguration{}, ""},
		{
			v1beta1.KubeletConfiguration{ShutdownGracePeriod: seconds(30), ShutdownGracePeriodCriticalPods: seconds(10)},
			"20s none below ten eleven hundred; 10s critical node-critical; ",
		},
		{
			v1beta1.KubeletConfiguration{ShutdownGracePeriodByPodPriority: []v1beta1.ShutdownGracePeriodByPodPriority{
				{Priority: 100, ShutdownGracePeriodSeconds: 3}, {Priority: 0, ShutdownGracePeriodSeconds: 1}, {Priority: 10, ShutdownGracePeriodSeconds: 2},
			}},
			"1s none below; 2s ten eleven; 3s hundred critical node-critical; ",
		},
	} {
		groups := Groups(&tc.config)
		got := ""
		if len(groups) == 0 {
			if tc.want != "" {
				t.Errorf("no groups, want %s", tc.want)
			}
			continue
		}
		for i, turn := range turns(groups, pods) {
			got += groups[i].Period.String()
			for _, p := range turn {
				got += " " + p.Name
			}
			got += "; "
		}
		if got != tc.want {
			t.Errorf("%s\nwant %s", got, tc.want)
		}
	}
}

// node is the rest of a node: pods that end some time after they are told.
type node struct {
	mu    sync.Mutex
	began time.Time
	takes map[types.UID]time.Duration
	ends  map[types.UID]time.Time
	story []string
}

func (n *node) tell(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.story = append(n.story, fmt.Sprintf("%v ", time.Since(n.began).Round(time.Second))+fmt.Sprintf(format, args...))
}

func (n *node) signal(uid types.UID, ev podlife.Event) {
	s := ev.(podlife.StopAsked)
	n.tell("%s has %v: %s %s", uid, *s.Grace, s.Why, s.Reason)
	n.ends[uid] = time.Now().Add(min(*s.Grace, n.takes[uid]))
}

func (n *node) await(ctx context.Context, uids []types.UID) {
	for _, uid := range uids {
		select {
		case <-time.After(time.Until(n.ends[uid])):
		case <-ctx.Done():
			return
		}
	}
}

// bell is a logind of tests.
type bell struct {
	n     *node
	delay time.Duration
	rings chan bool
}

func (b *bell) Delay() (time.Duration, error)   { return b.delay, nil }
func (b *bell) Raise(d time.Duration) error     { b.n.tell("raised to %v", d); b.delay = d; return nil }
func (b *bell) Inhibit() (io.Closer, error)     { b.n.tell("locked"); return b, nil }
func (b *bell) Shutdowns() (<-chan bool, error) { return b.rings, nil }
func (b *bell) Close() error                    { b.n.tell("released"); return nil }

// A shutdown from its beginning to its being called off: who ends when, for how long logind waits, and what the node says of itself.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{began: time.Now(), ends: map[types.UID]time.Time{}, takes: map[types.UID]time.Duration{
			"quick": 2 * time.Second, "slow": time.Hour, "critical": 3 * time.Second,
		}}
		b := &bell{n: n, delay: 5 * time.Second, rings: make(chan bool)}
		tries := 0
		var m *Manager
		m, err := New(Config{
			Groups: []Group{{0, 20 * time.Second}, {1000, 50 * time.Second}, {systemCritical, 10 * time.Second}},
			Connect: func() (Logind, error) {
				if tries++; tries == 1 {
					return nil, errors.New("no bus yet")
				}
				return b, nil
			},
			Pods: func() []*v1.Pod {
				return []*v1.Pod{testPod("critical", systemCritical, 30), testPod("quick", 0, 30), testPod("slow", 0, 15)}
			},
			Signal: n.signal, AwaitEnds: n.await,
			Changed:   func() { n.tell("down: %v", m.Down()) },
			NodeEvent: func(_, reason, message string) { n.tell("%s %s", reason, message) },
			Log:       slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); _ = m.Run(ctx, func() {}) }()
		time.Sleep(40 * time.Second)
		b.rings <- true
		b.rings <- false
		synctest.Wait()
		if m.Down() {
			t.Error("it was called off")
		}
		cancel()
		<-over
		want := []string{
			"30s raised to 1m20s", "30s locked",
			"40s Shutdown Shutdown manager detected shutdown event", "40s down: true",
			"40s quick has 20s: NodeShutdown Terminated", "40s slow has 15s: NodeShutdown Terminated",
			"55s critical has 10s: NodeShutdown Terminated", "58s released",
			"58s Shutdown Shutdown manager detected shutdown cancellation", "58s down: false", "58s locked",
			"58s released", "58s released", // the lock and the connection
		}
		if !slices.Equal(n.story, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(n.story, "\n"), strings.Join(want, "\n"))
		}
	})
}
