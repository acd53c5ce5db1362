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

func (a *agent) buildEviction() error {
	s, c := a.s, a.s.node.config
	thresholds, err := eviction.Thresholds(c)
	if err != nil {
		return err
	}
	log := a.log().of("eviction")
	a.evict, err = eviction.New(eviction.Config{
		Thresholds: thresholds, Transition: c.EvictionPressureTransitionPeriod.Duration,
		MaxGrace: time.Duration(c.EvictionMaxPodGracePeriod) * time.Second,
		Gauge: &eviction.Machine{
			Name: s.cfg.NodeName, Runtime: s.node.runtime, Files: s.node.host, DataDir: s.cfg.DataDir, PodsMemory: a.cgroups.PodsMemory,
			EmptyDir: volume.Layout{Root: s.dirs.Kubelet()}.EmptyDir,
			Logs: func(p *v1.Pod) string {
				return filepath.Join(c.PodLogsDir, p.Namespace+"_"+p.Name+"_"+string(p.UID))
			},
			Log: log,
		},
		Active: a.kubelet.Active, Ended: a.kubelet.Ended,
		Evict: func(p *v1.Pod, limited bool, message string, grace time.Duration) {
			why := podlife.Evicted
			if limited {
				why = podlife.OverLimit
			}
			a.kubelet.Signal(p.UID, podlife.StopAsked{Why: why, Reason: "Evicted", Message: message, Grace: &grace})
		},
		Event: a.event, NodeEvent: a.nodeEvent, Changed: a.node.Poke,
		Reclaim: func(ctx context.Context) {
			if err := a.gc.Collect(ctx); err != nil {
				log.Warn("dead containers could not be removed", "err", err)
			}
			if err := a.imageGC.FreeAll(ctx); err != nil {
				log.Warn("unused images could not be removed", "err", err)
			}
		},
		Log: log,
	})
	return err
}
