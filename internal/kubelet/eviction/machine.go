package eviction

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/kubelet/disk"
	"podo.dev/podo/internal/kubelet/labels"
)

// Stats is what is asked of the runtime.
type Stats interface {
	ListContainerStats(ctx context.Context, filter *runtimev1.ContainerStatsFilter) ([]*runtimev1.ContainerStats, error)
	ImageFsInfo(ctx context.Context) (*runtimev1.ImageFsInfoResponse, error)
}

// Machine is the Gauge of a real node.
type Machine struct {
	Name    string // whose containers count: the label of package labels
	Runtime Stats
	Files   host.Files
	DataDir string // whose file system is the node's
	// PodsMemory is what all pods together use and may use, in bytes; ok is false when it cannot be told.
	PodsMemory func() (used, limit int64, ok bool)
	// PodProcesses is how many processes a pod has; may be nil.
	PodProcesses func(p *v1.Pod) (int64, error)
	// EmptyDir is where a pod's emptyDir is, Logs where its containers' logs are, each in a directory of its name.
	EmptyDir func(uid types.UID, volume string) string
	Logs     func(pod *v1.Pod) string
	Log      *slog.Logger

	imageFS string
}

var _ Gauge = (*Machine)(nil)

// Node implements Gauge.
func (m *Machine) Node(ctx context.Context) map[Signal]Observation {
	out := map[Signal]Observation{}
	if mem, err := m.meminfo(); err == nil {
		// As upstream counts: memory is available when it is free, or holds file pages that nobody has used for a while.
		out[Memory] = amounts(mem["MemFree"]+mem["Inactive(file)"], mem["MemTotal"], resource.BinarySI)
	} else {
		m.Log.Debug("the memory cannot be measured", "err", err)
	}
	if used, limit, ok := m.podsMemory(); ok {
		out[AllocatableMemory] = amounts(max(0, limit-used), limit, resource.BinarySI)
	}
	m.fileSystem(m.DataDir, NodeFS, NodeFSInodes, out)
	if dir := m.images(ctx); dir != "" {
		m.fileSystem(dir, ImageFS, ImageFSInodes, out)
		m.fileSystem(dir, ContainerFS, ContainerFSInodes, out)
	}
	if used, limit, err := m.processes(); err == nil {
		out[PID] = amounts(max(0, limit-used), limit, resource.DecimalSI)
	}
	return out
}

func amounts(available, capacity int64, format resource.Format) Observation {
	return Observation{*resource.NewQuantity(available, format), *resource.NewQuantity(capacity, format)}
}

func (m *Machine) podsMemory() (used, limit int64, ok bool) {
	if m.PodsMemory == nil {
		return 0, 0, false
	}
	return m.PodsMemory()
}

// meminfo is /proc/meminfo in bytes.
func (m *Machine) meminfo() (map[string]int64, error) {
	text, err := m.Files.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			out[strings.TrimSuffix(f[0], ":")] = n << 10
		}
	}
	if out["MemTotal"] == 0 {
		return nil, errors.New("/proc/meminfo has no MemTotal")
	}
	return out, nil
}

func (m *Machine) fileSystem(dir string, bytes, nodes Signal, out map[Signal]Observation) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		m.Log.Debug("a file system cannot be measured", "dir", dir, "err", err)
		return
	}
	out[bytes] = amounts(int64(s.Bavail)*s.Bsize, int64(s.Blocks)*s.Bsize, resource.BinarySI) //nolint:gosec // far below 2^63
	if s.Files > 0 {                                                                          // some file systems have no fixed number
		out[nodes] = amounts(int64(s.Ffree), int64(s.Files), resource.DecimalSI) //nolint:gosec // as above
	}
}

// Apart implements Gauge. Where the runtime does not tell, it is not.
func (m *Machine) Apart(ctx context.Context) bool {
	var node, images unix.Stat_t
	dir := m.images(ctx)
	return dir != "" && unix.Stat(m.DataDir, &node) == nil && unix.Stat(dir, &images) == nil && node.Dev != images.Dev
}

// images is where the runtime keeps images; it does not move.
func (m *Machine) images(ctx context.Context) string {
	if m.imageFS != "" {
		return m.imageFS
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	info, err := m.Runtime.ImageFsInfo(ctx)
	if err != nil || len(info.GetImageFilesystems()) == 0 {
		return ""
	}
	m.imageFS = info.ImageFilesystems[0].GetFsId().GetMountpoint()
	return m.imageFS
}

// processes are how many tasks there are and may be.
func (m *Machine) processes() (used, limit int64, err error) {
	load, err := m.Files.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, 0, err
	}
	f := strings.Fields(string(load)) // 0.01 0.02 0.03 2/345 6789
	if len(f) < 4 {
		return 0, 0, errors.New("/proc/loadavg has another form")
	}
	_, total, _ := strings.Cut(f[3], "/")
	if used, err = strconv.ParseInt(total, 10, 64); err != nil {
		return 0, 0, err
	}
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		text, err := m.Files.ReadFile(file)
		if err != nil {
			return 0, 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		if limit == 0 || n < limit {
			limit = n
		}
	}
	return used, limit, nil
}

// Pods implements Gauge.
func (m *Machine) Pods(ctx context.Context, pods []*v1.Pod) map[types.UID]Usage {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stats, err := m.Runtime.ListContainerStats(ctx, &runtimev1.ContainerStatsFilter{LabelSelector: map[string]string{labels.Node: m.Name}})
	if err != nil {
		m.Log.Warn("the runtime does not tell what containers use", "err", err)
	}
	byPod := map[types.UID]map[string]ContainerUsage{}
	for _, s := range stats {
		l := s.GetAttributes().GetLabels()
		uid := types.UID(l[labels.PodUID])
		if byPod[uid] == nil {
			byPod[uid] = map[string]ContainerUsage{}
		}
		layer := s.GetWritableLayer()
		byPod[uid][l[labels.ContainerName]] = ContainerUsage{
			Memory: int64(s.GetMemory().GetWorkingSetBytes().GetValue()),                                   //nolint:gosec // far below 2^63
			RootFS: Files{int64(layer.GetUsedBytes().GetValue()), int64(layer.GetInodesUsed().GetValue())}, //nolint:gosec // as above
		}
	}
	out := map[types.UID]Usage{}
	for _, p := range pods {
		out[p.UID] = m.pod(p, byPod[p.UID])
	}
	return out
}

func (m *Machine) pod(p *v1.Pod, containers map[string]ContainerUsage) Usage {
	u := Usage{Containers: map[string]ContainerUsage{}, Volumes: map[string]Files{}, Pages: map[string]int64{}}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.Medium == v1.StorageMediumMemory {
			continue
		}
		bytes, files := disk.Walk(m.EmptyDir(p.UID, v.Name))
		if v.EmptyDir.Medium == v1.StorageMediumDefault {
			u.Volumes[v.Name] = Files{bytes, files}
		} else {
			u.Pages[v.Name] = bytes
		}
	}
	logs := m.Logs(p)
	for name, c := range containers {
		bytes, files := disk.Walk(filepath.Join(logs, name))
		c.Logs = Files{bytes, files}
		u.Containers[name] = c
	}
	if m.PodProcesses != nil {
		n, err := m.PodProcesses(p)
		if err != nil {
			m.Log.Debug("a pod's processes cannot be counted", "pod", p.Namespace+"/"+p.Name, "err", err)
		}
		u.Processes = n
	}
	return u
}
