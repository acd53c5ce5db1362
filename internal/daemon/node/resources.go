package node

import (
	"context"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/config"
	"podo.dev/podo/internal/kubelet/metrics"
	nodestatus "podo.dev/podo/internal/kubelet/node"
)

// buildResources finds out the node's capacity and allocatable resources, and makes the cgroups.
func (k *run) buildResources() (err error) {
	c := k.c.Kubelet
	if k.machine, err = cm.ReadMachine(k.c.Host); err != nil {
		return err
	}
	storage, err := nodestatus.StorageBytes(k.c.DataDir)
	if err != nil {
		return err
	}
	k.capacity = k.machine.Capacity()
	k.capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(storage, resource.DecimalSI)
	k.capacity[v1.ResourcePods] = *resource.NewQuantity(config.PodLimit(c, k.machine.CPUs), resource.DecimalSI)
	reserved := cm.Reserved{Kube: config.Reservation(c.KubeReserved), System: config.Reservation(c.SystemReserved), Eviction: c.EvictionHard}
	if k.allocate, err = cm.Allocatable(k.capacity, reserved); err != nil {
		return err
	}
	root := k.c.CgroupRoot
	if c.CgroupRoot != "" && c.CgroupRoot != "/" {
		root = c.CgroupRoot
	}
	var pids int64 = -1
	if c.PodPidsLimit != nil {
		pids = *c.PodPidsLimit
	}
	var forSystem cm.Reserved
	if config.Enforces(c, cm.EnforcePods) {
		forSystem = reserved
	}
	layout, err := cm.DetectLayout(k.c.Host)
	if err != nil {
		return err
	}
	if !layout.V2 {
		k.nodeEvent(v1.EventTypeWarning, "CgroupV1", "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. "+
			"Please migrate to cgroup v2. More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1")
	}
	k.counts = metrics.New(layout.V2)
	k.c.Runtime.Observe(k.counts.Call)
	k.cgroups, err = cm.New(cm.Config{
		Host: k.c.Host, Root: root, Driver: k.driver(), Pods: k.machine.ForPods(k.capacity, forSystem), PodPidsLimit: pids,
		Operated:  k.counts.CgroupOperated,
		PageSizes: k.machine.PageSizes(), ThrottlingFactor: c.MemoryThrottlingFactor,
		NoCPUQuota: c.CPUCFSQuota != nil && !*c.CPUCFSQuota, QuotaPeriod: c.CPUCFSQuotaPeriod.Duration, Logger: k.log().of("cm"),
	})
	if err != nil {
		return err
	}
	return k.cgroups.Enforce(config.Shares(c), k.enforced)
}

func (k *run) enforced(message string) {
	k.nodeEvent(v1.EventTypeNormal, "NodeAllocatableEnforced", message)
}

// limitPods limits all pods together to their allocatable resources, as soon as the kernel accepts it.
func (k *run) limitPods(ctx context.Context, ready func()) error {
	ready()
	for {
		err := k.cgroups.LimitPods()
		if err == nil {
			k.enforced("Updated Node Allocatable limit across pods")
			return nil
		}
		k.nodeEvent(v1.EventTypeWarning, "FailedNodeAllocatableEnforcement", err.Error())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Minute):
		}
	}
}

// swapped warns that volumes in memory may reach a disk, if there is swap.
func (k *run) swapped() {
	swaps, err := k.c.Host.ReadFile("/proc/swaps")
	if err != nil || strings.Count(strings.TrimSpace(string(swaps)), "\n") == 0 { // the first line is the heading
		return
	}
	k.nodeEvent(v1.EventTypeWarning, "PossibleMemoryBackedVolumesOnDisk", "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) "+
		"might be swapped to disk and should no longer be considered secure.")
}

// driver is the configured cgroup driver; by default it follows the runtime, which follows the machine.
func (k *run) driver() cm.Driver {
	if k.c.Systemd {
		return cm.Systemd
	}
	return cm.Cgroupfs
}
