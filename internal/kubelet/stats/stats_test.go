package stats

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"podo.dev/podo/internal/kubelet/labels"
)

type files map[string]string

func (f files) ReadFile(path string) ([]byte, error) {
	if s, ok := f[path]; ok {
		return []byte(s), nil
	}
	return nil, fs.ErrNotExist
}

func (f files) ReadDir(string) ([]string, error) { return nil, fs.ErrNotExist }

type fakeRuntime struct{ fail error }

func (f fakeRuntime) ListContainers(_ context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error) {
	if filter.LabelSelector[labels.Node] != "n" || filter.State.State != runtimev1.ContainerState_CONTAINER_RUNNING {
		return nil, errors.New("only this node's running containers")
	}
	of := func(id, pod, name string) *runtimev1.Container {
		return &runtimev1.Container{Id: id, CreatedAt: 5e9, Labels: map[string]string{
			labels.PodUID: "uid-" + pod, labels.PodName: pod, labels.PodNamespace: "ns", labels.ContainerName: name,
		}}
	}
	return []*runtimev1.Container{of("1", "q", "x"), of("2", "p", "b"), of("3", "p", "a")}, f.fail
}

func (f fakeRuntime) ListContainerStats(context.Context, *runtimev1.ContainerStatsFilter) ([]*runtimev1.ContainerStats, error) {
	of := func(id string, n uint64) *runtimev1.ContainerStats {
		v := &runtimev1.UInt64Value{Value: n * 1e9}
		return &runtimev1.ContainerStats{
			Attributes: &runtimev1.ContainerAttributes{Id: id}, Cpu: &runtimev1.CpuUsage{Timestamp: 7e9, UsageCoreNanoSeconds: v},
			Memory: &runtimev1.MemoryUsage{Timestamp: 7e9, WorkingSetBytes: v}, WritableLayer: &runtimev1.FilesystemUsage{UsedBytes: v},
		}
	}
	return []*runtimev1.ContainerStats{of("2", 2), of("3", 3), of("9", 9)}, nil // one has no numbers yet, one is not ours
}

func source(t *testing.T, rt fakeRuntime) *Source {
	t.Helper()
	s, err := New(Config{
		Node: "n", Runtime: rt, DataDir: t.TempDir(),
		Files: files{
			"/proc/stat":    "cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 1 1 1 1 1\nbtime 1000\n",
			"/proc/meminfo": "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 40 kB\n",
		},
		Pod: func(_, name string) *v1.Pod {
			at := metav1.NewTime(time.Unix(3, 0))
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-p"}, Status: v1.PodStatus{StartTime: &at}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSummary(t *testing.T) {
	w := httptest.NewRecorder()
	source(t, fakeRuntime{}).ServeSummary(w, httptest.NewRequest("GET", "/stats/summary", nil))
	var got v1alpha1.Summary
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("%d %s %v", w.Code, w.Body, err)
	}
	n := got.Node
	if *n.CPU.UsageCoreNanoSeconds != 1710e6 || *n.Memory.WorkingSetBytes != 60<<10 || *n.Memory.UsageBytes != 90<<10 || n.StartTime.Unix() != 1000 ||
		*n.Fs.CapacityBytes == 0 {
		t.Errorf("%+v", n)
	}
	if len(got.Pods) != 2 {
		t.Fatalf("%+v", got.Pods)
	}
	p, q := got.Pods[0], got.Pods[1]
	if p.PodRef.Name != "p" || p.Containers[0].Name != "a" || *p.CPU.UsageCoreNanoSeconds != 5e9 || *p.Memory.WorkingSetBytes != 5e9 ||
		*p.Containers[1].Rootfs.UsedBytes != 2e9 || p.StartTime.Unix() != 3 {
		t.Errorf("%+v", p)
	}
	if q.PodRef.Name != "q" || q.CPU != nil || q.StartTime.Unix() != 5 {
		t.Errorf("%+v", q)
	}
}

func TestResourceMetrics(t *testing.T) {
	scrape := func(rt fakeRuntime) string {
		w := httptest.NewRecorder()
		source(t, rt).Resource().ServeHTTP(w, httptest.NewRequest("GET", "/metrics/resource", nil))
		return w.Body.String()
	}
	got := scrape(fakeRuntime{})
	for _, want := range []string{
		`container_cpu_usage_seconds_total{container="a",namespace="ns",pod="p"} 3 7000`,
		`container_memory_working_set_bytes{container="b",namespace="ns",pod="p"} 2e+09 7000`,
		`container_start_time_seconds{container="x",namespace="ns",pod="q"} 5`,
		`pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 5 7000`,
		`pod_memory_working_set_bytes{namespace="ns",pod="p"} 5e+09 7000`,
		"node_cpu_usage_seconds_total 1.71 ", "node_memory_working_set_bytes 61440 ", "resource_scrape_error 0",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	if got := scrape(fakeRuntime{fail: errors.New("away")}); !strings.Contains(got, "resource_scrape_error 1") {
		t.Error(got)
	}
}
