package eviction_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/kubelet/labels"
)

// node is a made-up node: what it measures is set by the test. The manager asks from its own goroutine.
type node struct {
	mu     sync.Mutex
	free   string
	usage  map[types.UID]eviction.Usage
	pods   []*v1.Pod
	short  eviction.Signal // what of is left free; memory when left out
	apart  bool
	story  []string
	killed types.UID
}

func (n *node) Node(context.Context) map[eviction.Signal]eviction.Observation {
	n.mu.Lock()
	defer n.mu.Unlock()
	return map[eviction.Signal]eviction.Observation{cmp.Or(n.short, eviction.Memory): {Available: resource.MustParse(n.free), Capacity: resource.MustParse("8Gi")}}
}

func (n *node) Apart(context.Context) bool { return n.apart }

func (n *node) Pods(context.Context, []*v1.Pod) map[types.UID]eviction.Usage { return n.usage }

func (n *node) tell(format string, args ...any) {
	n.change(func() { n.story = append(n.story, fmt.Sprintf(format, args...)) })
}

func (n *node) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// Under pressure one pod goes at a time: the next only when the last has ended, or has had half a minute.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{free: "1Gi", usage: map[types.UID]eviction.Usage{}}
		for i, name := range []string{"small", "big"} {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}}
			n.pods = append(n.pods, p)
			n.usage[p.UID] = eviction.Usage{Containers: map[string]eviction.ContainerUsage{"a": {Memory: int64(i+1) << 30}}}
		}
		m, err := eviction.New(eviction.Config{
			Thresholds: []eviction.Threshold{{Signal: eviction.Memory, Value: eviction.Value{Quantity: resource.MustParse("100Mi")}}},
			Transition: time.Minute, Gauge: n,
			Active: func() (out []*v1.Pod) {
				n.change(func() { out = append(out, n.pods...) })
				return out
			},
			Ended: func(uid types.UID) (ended bool) {
				n.change(func() { ended = uid == n.killed })
				return ended
			},
			Evict: func(p *v1.Pod, limited bool, message string, grace time.Duration) {
				n.tell("evict %s %v %s", p.Name, limited, grace)
				n.change(func() { n.pods = n.pods[:len(n.pods)-1] }) // the test's pods rank from last to first
			},
			Event: func(p *v1.Pod, notes map[string]string, _, reason, message string) {
				n.tell("%s %s: %s%s", p.Name, reason, message, notes["starved_resource"])
			},
			NodeEvent: func(_, reason, message string) { n.tell("node %s: %s", reason, message) },
			Changed:   func() { n.tell("changed") },
			Log:       slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- m.Run(ctx, func() {}) }()
		expect := func(after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			var got string
			n.change(func() { got, n.story = strings.Join(n.story, "\n"), nil })
			if got != strings.Join(want, "\n") {
				t.Fatalf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
		}
		expect(11 * time.Second)
		n.change(func() { n.free = "50Mi" })
		expect(10*time.Second, "changed", "node EvictionThresholdMet: Attempting to reclaim memory",
			"big Evicted: The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container a was using 2Gi, request is 0, has larger consumption of memory. memory",
			"evict big false 1s")
		expect(20 * time.Second) // big has not ended
		n.change(func() { n.killed = "big" })
		expect(10*time.Second, "node EvictionThresholdMet: Attempting to reclaim memory",
			"small Evicted: The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container a was using 1Gi, request is 0, has larger consumption of memory. memory",
			"evict small false 1s")
		n.change(func() { n.free = "4Gi" })
		expect(30 * time.Second)
		if c := m.Conditions(); len(c) != 1 || c[0] != v1.NodeMemoryPressure {
			t.Errorf("%v", c)
		}
		expect(time.Minute, "changed")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// kubernetes/kubernetes#118172: how long a pod has that goes for a soft threshold: what it asks for, up to the most; a negative most is none.
func TestGraceOfSoftThresholds(t *testing.T) {
	for most, want := range map[time.Duration]time.Duration{-time.Second: 20 * time.Second, 0: 0, 10 * time.Second: 10 * time.Second, time.Minute: 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			asks, got := int64(20), time.Duration(-1)
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}, Spec: v1.PodSpec{TerminationGracePeriodSeconds: &asks}}
			m, err := eviction.New(eviction.Config{
				Thresholds: []eviction.Threshold{{Signal: eviction.Memory, Soft: true, Value: eviction.Value{Quantity: resource.MustParse("100Mi")}}},
				Transition: time.Minute, MaxGrace: most, Gauge: &node{free: "50Mi"}, Log: slog.New(slog.DiscardHandler),
				Active: func() []*v1.Pod { return []*v1.Pod{p} }, Ended: func(types.UID) bool { return false },
				Evict:     func(_ *v1.Pod, _ bool, _ string, grace time.Duration) { got = grace },
				Event:     func(*v1.Pod, map[string]string, string, string, string) {},
				NodeEvent: func(string, string, string) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- m.Run(ctx, func() {}) }()
			time.Sleep(11 * time.Second)
			cancel()
			if err := <-done; err != nil || got != want {
				t.Errorf("at most %v: %v, want %v; %v", most, got, want, err)
			}
		})
	}
}

// What no pod needs goes before a pod does where that lies on the file system that is full, and only there.
func TestReclaim(t *testing.T) {
	for _, c := range []struct {
		signal    eviction.Signal
		apart     bool
		reclaimed bool
	}{
		{eviction.NodeFS, false, true},
		{eviction.ImageFS, false, true},
		{eviction.NodeFS, true, false},
		{eviction.ImageFS, true, true},
		{eviction.ImageFSInodes, true, true},
		{eviction.PID, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}
			var reclaimed, evicted bool
			m, err := eviction.New(eviction.Config{
				Thresholds: []eviction.Threshold{{Signal: c.signal, Value: eviction.Value{Quantity: resource.MustParse("100Mi")}}},
				Transition: time.Minute, Gauge: &node{free: "50Mi", short: c.signal, apart: c.apart}, Log: slog.New(slog.DiscardHandler),
				Active: func() []*v1.Pod { return []*v1.Pod{p} }, Ended: func(types.UID) bool { return false },
				Evict:     func(*v1.Pod, bool, string, time.Duration) { evicted = true },
				Reclaim:   func(context.Context) { reclaimed = true },
				Event:     func(*v1.Pod, map[string]string, string, string, string) {},
				NodeEvent: func(string, string, string) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- m.Run(ctx, func() {}) }()
			time.Sleep(11 * time.Second)
			cancel()
			if err := <-done; err != nil || reclaimed != c.reclaimed || !evicted {
				t.Errorf("%s, apart %v: reclaimed %v, want %v; evicted %v; %v", c.signal, c.apart, reclaimed, c.reclaimed, evicted, err)
			}
		})
	}
}

type stats []*runtimev1.ContainerStats

func (s stats) ListContainerStats(context.Context, *runtimev1.ContainerStatsFilter) ([]*runtimev1.ContainerStats, error) {
	return s, nil
}

func (stats) ImageFsInfo(context.Context) (*runtimev1.ImageFsInfoResponse, error) {
	return &runtimev1.ImageFsInfoResponse{ImageFilesystems: []*runtimev1.FilesystemUsage{{FsId: &runtimev1.FilesystemIdentifier{Mountpoint: "/"}}}}, nil
}

// The real machine tells every signal, and a directory's size with hard links counted once.
func TestMachine(t *testing.T) {
	dir := t.TempDir()
	m := &eviction.Machine{
		Name: "n", Files: linux.New(), DataDir: dir, Log: slog.New(slog.DiscardHandler),
		Runtime: stats{{
			Attributes: &runtimev1.ContainerAttributes{Labels: map[string]string{labels.PodUID: "u", labels.ContainerName: "a"}},
			WritableLayer: &runtimev1.FilesystemUsage{
				UsedBytes: &runtimev1.UInt64Value{Value: 4096}, InodesUsed: &runtimev1.UInt64Value{Value: 3},
			},
		}},
		PodProcesses: func(*v1.Pod) (int64, error) { return 7, nil },
		PodsMemory:   func() (int64, int64, bool) { return 1, 10, true },
		EmptyDir:     func(_ types.UID, volume string) string { return filepath.Join(dir, volume) },
		Logs:         func(*v1.Pod) string { return filepath.Join(dir, "none") },
	}
	seen := m.Node(t.Context())
	for _, s := range []eviction.Signal{eviction.Memory, eviction.AllocatableMemory, eviction.NodeFS, eviction.ImageFS, eviction.PID} {
		o, ok := seen[s]
		if !ok || o.Available.Sign() <= 0 || o.Capacity.Cmp(o.Available) < 0 {
			t.Errorf("%s: %+v %v", s, o, ok)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "v"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "v", "f")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(file, file+"2"); err != nil {
		t.Fatal(err)
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}}}
	u := m.Pods(t.Context(), []*v1.Pod{p})["u"]
	if got := u.Volumes["v"]; got.Bytes < 1<<20 || got.Bytes > 1<<20+64<<10 || got.Inodes != 2 {
		t.Errorf("%+v", u)
	}
	if got := u.Containers["a"].RootFS; got != (eviction.Files{Bytes: 4096, Inodes: 3}) || u.Processes != 7 {
		t.Errorf("%+v", u)
	}
	if m.Apart(t.Context()) != (device(t, dir) != device(t, "/")) {
		t.Error("apart")
	}
}

func device(t *testing.T, dir string) uint64 {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Dev
}
