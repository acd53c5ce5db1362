package daemon

import (
	"context"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/kubelet/volume"
	"podo.dev/podo/internal/podlife"
)

func (k *kubeletRun) buildEviction() error {
	p, c := k.p, k.p.node.config
	thresholds, err := eviction.Thresholds(c)
	if err != nil {
		return err
	}
	log := k.log().of("eviction")
	k.evict, err = eviction.New(eviction.Config{
		Thresholds: thresholds, Transition: c.EvictionPressureTransitionPeriod.Duration,
		MaxGrace: time.Duration(c.EvictionMaxPodGracePeriod) * time.Second,
		Gauge: &eviction.Machine{
			Name: p.cfg.NodeName, Runtime: p.node.runtime, Files: p.node.host, DataDir: p.cfg.DataDir, PodsMemory: k.cgroups.PodsMemory,
			EmptyDir: volume.Layout{Root: p.dirs.Kubelet()}.EmptyDir,
			Logs: func(p *v1.Pod) string {
				return filepath.Join(c.PodLogsDir, p.Namespace+"_"+p.Name+"_"+string(p.UID))
			},
			Log: log,
		},
		Active: k.kubelet.Active, Ended: k.kubelet.Ended,
		Evict: func(p *v1.Pod, limited bool, message string, grace time.Duration) {
			why := podlife.Evicted
			if limited {
				why = podlife.OverLimit
			}
			k.kubelet.Signal(p.UID, podlife.StopAsked{Why: why, Reason: "Evicted", Message: message, Grace: &grace})
		},
		Event: k.event, NodeEvent: k.nodeEvent, Changed: k.node.Poke,
		Reclaim: func(ctx context.Context) {
			if err := k.gc.Collect(ctx); err != nil {
				log.Warn("dead containers could not be removed", "err", err)
			}
			if err := k.imageGC.FreeAll(ctx); err != nil {
				log.Warn("unused images could not be removed", "err", err)
			}
		},
		Log: log,
	})
	return err
}
