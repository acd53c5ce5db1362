package stats

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"podo.dev/podo/internal/kubelet/disk"
)

const (
	volumesEvery = time.Minute     // between two walks of a pod's volumes
	volumesWait  = 2 * time.Second // for one walk: a volume of a server that is away may hang
)

// volumes are what was last found out about pods' volumes.
type volumes struct {
	mu    sync.Mutex
	known map[types.UID]*measured
}

// measured is one pod's. One goroutine at a time measures it, and a hanging volume may hold that up.
type measured struct {
	at    time.Time
	done  chan struct{} // of the walk that goes on; nil: none does
	stats []v1alpha1.VolumeStats
}

// of measures a pod's volumes when that is due, and waits a while for it.
func (v *volumes) of(ctx context.Context, uid types.UID, now time.Time, measure func() []v1alpha1.VolumeStats) []v1alpha1.VolumeStats {
	v.mu.Lock()
	m := v.known[uid]
	if m == nil {
		m = &measured{}
		v.known[uid] = m
	}
	if m.done == nil && (m.at.IsZero() || now.Sub(m.at) >= volumesEvery) {
		done := make(chan struct{})
		m.done = done
		go func() {
			stats := measure()
			v.mu.Lock()
			m.stats, m.at, m.done = stats, now, nil
			v.mu.Unlock()
			close(done)
		}()
	}
	for known, k := range v.known {
		if k.done == nil && now.Sub(k.at) > 10*volumesEvery && known != uid {
			delete(v.known, known)
		}
	}
	done := m.done
	v.mu.Unlock()
	if done != nil {
		wait := time.NewTimer(volumesWait)
		defer wait.Stop()
		select {
		case <-done:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return m.stats
}

// storage fills in a pod's files: its volumes, its containers' logs, and the sum of what is on the node's disk.
func (s *Source) storage(ctx context.Context, p *v1alpha1.PodStats) {
	now := metav1.NewTime(s.cfg.Now())
	node, err := disk.Of(s.cfg.DataDir)
	if err != nil {
		return
	}
	pod := s.cfg.Pod(p.PodRef.Namespace, p.PodRef.Name)
	if pod != nil && pod.UID == uidOf(p) {
		p.VolumeStats = s.volumes.of(ctx, pod.UID, now.Time, func() []v1alpha1.VolumeStats { return measureVolumes(pod, s.cfg.Volumes(pod.UID), now) })
	}
	total := fsStats(node, now)
	var bytes, files uint64
	add := func(f *v1alpha1.FsStats) {
		if f != nil && f.UsedBytes != nil {
			bytes += *f.UsedBytes
		}
		if f != nil && f.InodesUsed != nil {
			files += *f.InodesUsed
		}
	}
	images, imagesErr := disk.Of(s.imageDir(ctx))
	logs := s.cfg.Logs(p.PodRef.Namespace, p.PodRef.Name, uidOf(p))
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Rootfs != nil && imagesErr == nil {
			c.Rootfs.CapacityBytes, c.Rootfs.AvailableBytes = &images.Capacity, &images.Available
			c.Rootfs.Inodes, c.Rootfs.InodesFree = &images.Inodes, &images.InodesFree
		}
		b, n := disk.Walk(filepath.Join(logs, c.Name))
		used, inodes := uint64(b), uint64(n) //nolint:gosec // never negative
		log := fsStats(node, now)
		log.UsedBytes, log.InodesUsed = &used, &inodes
		c.Logs = log
		add(c.Logs)
		add(c.Rootfs)
	}
	for i := range p.VolumeStats {
		if onDisk(pod, p.VolumeStats[i].Name) {
			add(&p.VolumeStats[i].FsStats)
		}
	}
	total.UsedBytes, total.InodesUsed = &bytes, &files
	p.EphemeralStorage = total
}

// onDisk tells whether a volume is part of the node's disk that goes with the pod.
func onDisk(pod *v1.Pod, name string) bool {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
	return i >= 0 && pod.Spec.Volumes[i].EmptyDir != nil && pod.Spec.Volumes[i].EmptyDir.Medium == v1.StorageMediumDefault
}

func measureVolumes(pod *v1.Pod, root string, now metav1.Time) []v1alpha1.VolumeStats {
	var out []v1alpha1.VolumeStats
	kinds, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	for _, kind := range kinds {
		names, err := os.ReadDir(filepath.Join(root, kind.Name()))
		if err != nil {
			continue
		}
		for _, name := range names {
			dir := filepath.Join(root, kind.Name(), name.Name())
			i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name.Name() })
			fs, err := disk.Of(dir)
			if i < 0 || err != nil {
				continue
			}
			v := v1alpha1.VolumeStats{Name: name.Name(), FsStats: *fsStats(fs, now)}
			if !disk.Mounted(dir) {
				b, n := disk.Walk(dir)
				used, inodes := uint64(b), uint64(n) //nolint:gosec // never negative
				v.UsedBytes, v.InodesUsed = &used, &inodes
			}
			if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
				v.PVCRef = &v1alpha1.PVCReference{Name: claim.ClaimName, Namespace: pod.Namespace}
			} else if pod.Spec.Volumes[i].Ephemeral != nil {
				v.PVCRef = &v1alpha1.PVCReference{Name: pod.Name + "-" + name.Name(), Namespace: pod.Namespace}
			}
			out = append(out, v)
		}
	}
	return out
}

func fsStats(f disk.FileSystem, now metav1.Time) *v1alpha1.FsStats {
	return &v1alpha1.FsStats{
		Time: now, CapacityBytes: &f.Capacity, AvailableBytes: &f.Available, UsedBytes: &f.Used,
		Inodes: &f.Inodes, InodesFree: &f.InodesFree, InodesUsed: &f.InodesUsed,
	}
}

// imageDir is where the runtime keeps its images.
func (s *Source) imageDir(ctx context.Context) string {
	s.mu.Lock()
	dir := s.imageFS
	s.mu.Unlock()
	if dir != "" {
		return dir
	}
	info, err := s.cfg.Runtime.ImageFsInfo(ctx)
	if err != nil || len(info.GetImageFilesystems()) == 0 {
		return ""
	}
	dir = info.ImageFilesystems[0].GetFsId().GetMountpoint()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.imageFS = dir
	return dir
}
