package node

import (
	"context"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/config"
	"podo.dev/podo/internal/kubelet/containergc"
	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/kubelet/imagegc"
	"podo.dev/podo/internal/kubelet/logs"
	"podo.dev/podo/internal/kubelet/shutdown"
	"podo.dev/podo/internal/kubelet/volume"
	"podo.dev/podo/internal/podlife"
)

func (k *run) buildHousekeeping() (err error) {
	c := k.c.Kubelet
	linking := k.linking()
	k.gc, err = containergc.New(containergc.Config{
		Runtime: linking, TendLinks: linking.tend, Log: k.log().of("containergc"), Node: k.c.Name, Pods: k.kubelet.Collectable,
		LogRoot: c.PodLogsDir, LogList: k.logList(), Alone: k.kubelet.Alone, Policy: containergc.DefaultPolicy(), NodeEvent: k.nodeEvent, Messages: k.volumes.Layout().Container,
	})
	if err != nil {
		return err
	}
	k.imageGC, err = imagegc.New(imagegc.Config{
		Runtime: k.c.Runtime, Disk: imagegc.FileSystem(k.c.Runtime), NodeEvent: k.nodeEvent, Log: k.log().of("imagegc"), Seen: k.pulled.Keep,
		Removed: k.counts.ImageCollected,
		Policy: imagegc.Policy{
			High: int(*c.ImageGCHighThresholdPercent), Low: int(*c.ImageGCLowThresholdPercent),
			MinAge: c.ImageMinimumGCAge.Duration, MaxAge: c.ImageMaximumGCAge.Duration,
		},
	})
	if err != nil {
		return err
	}
	k.rotator, err = logs.NewRotator(logs.RotatorConfig{
		Runtime: k.c.Runtime, Log: k.log().of("logs"), MaxSize: config.LogMaxSize(c), MaxFiles: int(*c.ContainerLogMaxFiles),
		Workers: int(*c.ContainerLogMaxWorkers), Every: c.ContainerLogMonitorInterval.Duration,
	})
	return err
}

// logList is the folder that tells this node's log directories from those of other kubelets in the same place.
func (k *run) logList() string {
	if k.c.OwnLogs {
		return ""
	}
	return filepath.Join(k.c.Dir, "podlogs")
}

func (k *run) buildEviction() error {
	c := k.c.Kubelet
	thresholds, err := eviction.Thresholds(c)
	if err != nil {
		return err
	}
	log := k.log().of("eviction")
	k.evict, err = eviction.New(eviction.Config{
		Thresholds: thresholds, Transition: c.EvictionPressureTransitionPeriod.Duration,
		MaxGrace: time.Duration(c.EvictionMaxPodGracePeriod) * time.Second,
		Gauge: &eviction.Machine{
			Name: k.c.Name, Runtime: k.c.Runtime, Files: k.c.Host, DataDir: k.c.DataDir, PodsMemory: k.cgroups.PodsMemory,
			PodProcesses: k.cgroups.Processes,
			EmptyDir:     volume.Layout{Root: k.c.Dir}.EmptyDir,
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
		Counted: func(s eviction.Signal) { k.counts.Evicted(string(s)) },
		Short:   func(s eviction.Signal, age time.Duration) { k.counts.Shortage(string(s), age) },
		Event:   k.annotated, NodeEvent: k.nodeEvent, Changed: k.node.Poke,
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

// buildShutdown makes the manager that ends pods before the machine goes off.
func (k *run) buildShutdown() (err error) {
	k.down, err = shutdown.New(shutdown.Config{
		Groups: shutdown.Groups(k.c.Kubelet), Connect: shutdown.ConnectSystem,
		Pods: k.living, Signal: k.kubelet.Signal,
		AwaitEnds: func(ctx context.Context, uids []types.UID) {
			k.kubelet.AwaitEnds(ctx, uids)
			k.status.AwaitEnds(ctx, uids)
		},
		Changed: k.node.Poke, NodeEvent: k.nodeEvent, Log: k.log().of("shutdown"),
		Began: k.counts.ShutdownBegan, Ended: k.counts.ShutdownEnded,
	})
	return err
}

// living are the pods of which something runs or is about to.
func (k *run) living() []*v1.Pod {
	var out []*v1.Pod
	for _, s := range k.kubelet.Workers() {
		if s.Stage < podlife.Releasing {
			out = append(out, s.Pod)
		}
	}
	return out
}
