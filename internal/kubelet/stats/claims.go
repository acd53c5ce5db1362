package stats

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

var (
	claimLabels    = []string{"namespace", "persistentvolumeclaim"}
	claimCapacity  = prometheus.NewDesc("kubelet_volume_stats_capacity_bytes", "[ALPHA] Capacity in bytes of the volume", claimLabels, nil)
	claimAvailable = prometheus.NewDesc("kubelet_volume_stats_available_bytes", "[ALPHA] Number of available bytes in the volume", claimLabels, nil)
	claimUsed      = prometheus.NewDesc("kubelet_volume_stats_used_bytes", "[ALPHA] Number of used bytes in the volume", claimLabels, nil)
	claimInodes    = prometheus.NewDesc("kubelet_volume_stats_inodes", "[ALPHA] Maximum number of inodes in the volume", claimLabels, nil)
	claimFree      = prometheus.NewDesc("kubelet_volume_stats_inodes_free", "[ALPHA] Number of free inodes in the volume", claimLabels, nil)
	claimTaken     = prometheus.NewDesc("kubelet_volume_stats_inodes_used", "[ALPHA] Number of used inodes in the volume", claimLabels, nil)
)

// claims tells what the claims of the node's pods use, as the summary has it.
type claims struct {
	s    *Source
	pods func() []*v1.Pod
}

// Claims is a collector of what the claims of some pods use. A claim that several pods use is reported once.
func (s *Source) Claims(pods func() []*v1.Pod) prometheus.Collector { return claims{s, pods} }

func (claims) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{claimCapacity, claimAvailable, claimUsed, claimInodes, claimFree, claimTaken} {
		out <- d
	}
}

func (c claims) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	told := map[v1alpha1.PVCReference]bool{}
	for _, pod := range c.pods() {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }) {
			continue
		}
		now := metav1.NewTime(c.s.cfg.Now())
		measure := func() []v1alpha1.VolumeStats { return measureVolumes(pod, c.s.cfg.Volumes(pod.UID), now) }
		for _, v := range c.s.volumes.of(ctx, pod.UID, now.Time, measure) {
			if v.PVCRef == nil || told[*v.PVCRef] {
				continue
			}
			told[*v.PVCRef] = true
			for desc, n := range map[*prometheus.Desc]*uint64{
				claimCapacity: v.CapacityBytes, claimAvailable: v.AvailableBytes, claimUsed: v.UsedBytes,
				claimInodes: v.Inodes, claimFree: v.InodesFree, claimTaken: v.InodesUsed,
			} {
				if n != nil {
					out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(*n), v.PVCRef.Namespace, v.PVCRef.Name)
				}
			}
		}
	}
}
