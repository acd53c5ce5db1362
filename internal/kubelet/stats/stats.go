// Package stats tells what the node, its pods and their containers use: the summary API and the resource metrics under
// upstream's names. It measures when it is asked, and keeps nothing.
package stats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/kubelet/labels"
)

// ticksPerSecond is the unit of /proc/stat, the same on all Linux machines that matter.
const ticksPerSecond = 100

// Runtime is what the statistics come from.
type Runtime interface {
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	ListContainerStats(ctx context.Context, filter *runtimev1.ContainerStatsFilter) ([]*runtimev1.ContainerStats, error)
}

// Config is what a Source needs.
type Config struct {
	Node    string
	Runtime Runtime
	Files   host.Files
	DataDir string // whose file system is the node's
	// Pod returns a pod of the node, for its start time; nil when unknown.
	Pod func(namespace, name string) *v1.Pod
}

// Validate says what is missing.
func (c *Config) Validate() error {
	if c.Node == "" || c.Runtime == nil || c.Files == nil || c.DataDir == "" || c.Pod == nil {
		return errors.New("stats: Node, Runtime, Files, DataDir and Pod must be set")
	}
	return nil
}

// Source measures.
type Source struct{ cfg Config }

// New makes a Source.
func New(cfg Config) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Source{cfg}, nil
}

// Summary is what everything uses now. What cannot be measured is left out.
func (s *Source) Summary(ctx context.Context) (*v1alpha1.Summary, error) {
	node, err := s.node()
	if err != nil {
		return nil, err
	}
	own := map[string]string{labels.Node: s.cfg.Node}
	running, err := s.cfg.Runtime.ListContainers(ctx, &runtimev1.ContainerFilter{
		LabelSelector: own, State: &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	used, err := s.cfg.Runtime.ListContainerStats(ctx, &runtimev1.ContainerStatsFilter{LabelSelector: own})
	if err != nil {
		return nil, fmt.Errorf("list container statistics: %w", err)
	}
	byID := map[string]*runtimev1.ContainerStats{}
	for _, u := range used {
		byID[u.GetAttributes().GetId()] = u
	}
	out := &v1alpha1.Summary{Node: node, Pods: []v1alpha1.PodStats{}}
	index := map[string]int{}
	for _, c := range running {
		ref := v1alpha1.PodReference{Name: c.Labels[labels.PodName], Namespace: c.Labels[labels.PodNamespace], UID: c.Labels[labels.PodUID]}
		i, ok := index[ref.UID]
		if !ok {
			i = len(out.Pods)
			index[ref.UID] = i
			p := v1alpha1.PodStats{PodRef: ref, StartTime: metav1.NewTime(time.Unix(0, c.CreatedAt))}
			if pod := s.cfg.Pod(ref.Namespace, ref.Name); pod != nil && string(pod.UID) == ref.UID && pod.Status.StartTime != nil {
				p.StartTime = *pod.Status.StartTime
			}
			out.Pods = append(out.Pods, p)
		}
		out.Pods[i].Containers = append(out.Pods[i].Containers, container(c, byID[c.Id]))
	}
	for i := range out.Pods {
		sum(&out.Pods[i])
	}
	slices.SortFunc(out.Pods, func(a, b v1alpha1.PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name))
	})
	return out, nil
}

func container(c *runtimev1.Container, u *runtimev1.ContainerStats) v1alpha1.ContainerStats {
	out := v1alpha1.ContainerStats{Name: c.Labels[labels.ContainerName], StartTime: metav1.NewTime(time.Unix(0, c.CreatedAt))}
	value := func(v *runtimev1.UInt64Value) *uint64 {
		if v == nil {
			return nil
		}
		return &v.Value
	}
	if cpu := u.GetCpu(); cpu != nil {
		out.CPU = &v1alpha1.CPUStats{
			Time: metav1.NewTime(time.Unix(0, cpu.Timestamp)), UsageCoreNanoSeconds: value(cpu.UsageCoreNanoSeconds), UsageNanoCores: value(cpu.UsageNanoCores),
		}
	}
	if m := u.GetMemory(); m != nil {
		out.Memory = &v1alpha1.MemoryStats{
			Time: metav1.NewTime(time.Unix(0, m.Timestamp)), WorkingSetBytes: value(m.WorkingSetBytes), AvailableBytes: value(m.AvailableBytes),
			UsageBytes: value(m.UsageBytes), RSSBytes: value(m.RssBytes), PageFaults: value(m.PageFaults), MajorPageFaults: value(m.MajorPageFaults),
		}
	}
	if fs := u.GetWritableLayer(); fs != nil {
		out.Rootfs = &v1alpha1.FsStats{
			Time: metav1.NewTime(time.Unix(0, fs.Timestamp)), UsedBytes: value(fs.UsedBytes), InodesUsed: value(fs.InodesUsed),
		}
	}
	return out
}

// sum gives a pod what its containers use together.
func sum(p *v1alpha1.PodStats) {
	slices.SortFunc(p.Containers, func(a, b v1alpha1.ContainerStats) int { return cmp.Compare(a.Name, b.Name) })
	add := func(to **uint64, v *uint64) {
		if v == nil {
			return
		}
		if *to == nil {
			*to = new(uint64)
		}
		**to += *v
	}
	for _, c := range p.Containers {
		if c.CPU != nil {
			if p.CPU == nil {
				p.CPU = &v1alpha1.CPUStats{Time: c.CPU.Time}
			}
			add(&p.CPU.UsageCoreNanoSeconds, c.CPU.UsageCoreNanoSeconds)
			add(&p.CPU.UsageNanoCores, c.CPU.UsageNanoCores)
		}
		if c.Memory != nil {
			if p.Memory == nil {
				p.Memory = &v1alpha1.MemoryStats{Time: c.Memory.Time}
			}
			add(&p.Memory.WorkingSetBytes, c.Memory.WorkingSetBytes)
			add(&p.Memory.UsageBytes, c.Memory.UsageBytes)
			add(&p.Memory.RSSBytes, c.Memory.RSSBytes)
		}
	}
}

// node measures the machine.
func (s *Source) node() (v1alpha1.NodeStats, error) {
	now := metav1.Now()
	out := v1alpha1.NodeStats{NodeName: s.cfg.Node}
	stat, err := s.cfg.Files.ReadFile("/proc/stat")
	if err != nil {
		return out, fmt.Errorf("measure the cpus: %w", err)
	}
	for line := range strings.Lines(string(stat)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 5 && f[0] == "cpu":
			var busy uint64
			for i, v := range f[1:min(len(f), 9)] {
				if n, err := strconv.ParseUint(v, 10, 64); err == nil && i != 3 && i != 4 { // neither idle nor waiting for disks
					busy += n
				}
			}
			busy *= uint64(time.Second) / ticksPerSecond
			out.CPU = &v1alpha1.CPUStats{Time: now, UsageCoreNanoSeconds: &busy}
		case len(f) == 2 && f[0] == "btime":
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				out.StartTime = metav1.NewTime(time.Unix(n, 0))
			}
		}
	}
	mem, err := s.cfg.Files.ReadFile("/proc/meminfo")
	if err != nil {
		return out, fmt.Errorf("measure the memory: %w", err)
	}
	kb := map[string]uint64{}
	for line := range strings.Lines(string(mem)) {
		if f := strings.Fields(line); len(f) >= 2 {
			kb[strings.TrimSuffix(f[0], ":")], _ = strconv.ParseUint(f[1], 10, 64)
		}
	}
	usage, available := (kb["MemTotal"]-kb["MemFree"])<<10, kb["MemAvailable"]<<10
	working := (kb["MemTotal"] - kb["MemAvailable"]) << 10
	out.Memory = &v1alpha1.MemoryStats{Time: now, UsageBytes: &usage, AvailableBytes: &available, WorkingSetBytes: &working}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.cfg.DataDir, &fs); err == nil {
		size := uint64(fs.Bsize) //nolint:gosec // never negative
		capacity, free, used := fs.Blocks*size, fs.Bavail*size, (fs.Blocks-fs.Bfree)*size
		inodes, inodesFree, inodesUsed := fs.Files, fs.Ffree, fs.Files-fs.Ffree
		out.Fs = &v1alpha1.FsStats{
			Time: now, CapacityBytes: &capacity, AvailableBytes: &free, UsedBytes: &used, Inodes: &inodes, InodesFree: &inodesFree, InodesUsed: &inodesUsed,
		}
	}
	return out, nil
}

// ServeSummary serves /stats/summary.
func (s *Source) ServeSummary(w http.ResponseWriter, r *http.Request) {
	sum, err := s.Summary(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b, err := json.MarshalIndent(sum, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
