package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/config/v1beta1"

	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/kubelet/images/pulled"
	"podo.dev/podo/internal/kubelet/userns"
)

// invalid reports honoured fields whose values are impossible.
func invalid(c *v1beta1.KubeletConfiguration) (errs []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	port := func(name string, n, least int32) {
		check(n >= least && n <= 65535, "%s: %d must be between %d and 65535, inclusive", name, n, least)
	}
	address := func(name, s string) {
		_, err := netip.ParseAddr(s)
		check(err == nil, "%s: %q is no IP address", name, s)
	}
	port("port", c.Port, 1)
	port("healthzPort", *c.HealthzPort, 0)
	port("readOnlyPort", c.ReadOnlyPort, 0)
	address("address", c.Address)
	address("healthzBindAddress", c.HealthzBindAddress)
	for _, dns := range c.ClusterDNS {
		address("clusterDNS", dns)
	}
	check(c.MaxPods >= 0, "maxPods: %d must not be a negative number", c.MaxPods)
	check(c.PodsPerCore >= 0, "podsPerCore: %d must not be a negative number", c.PodsPerCore)
	check(c.NodeLeaseDurationSeconds > 0, "nodeLeaseDurationSeconds: %d must be greater than 0", c.NodeLeaseDurationSeconds)
	check(*c.NodeStatusMaxImages >= -1, "nodeStatusMaxImages: %d must be -1 or greater", *c.NodeStatusMaxImages)
	check(c.NodeStatusUpdateFrequency.Duration > 0, "nodeStatusUpdateFrequency must be greater than 0")
	check(c.NodeStatusReportFrequency.Duration > 0, "nodeStatusReportFrequency must be greater than 0")
	check(c.RuntimeRequestTimeout.Duration > 0, "runtimeRequestTimeout must be greater than 0")
	check(*c.PodPidsLimit != 0, "podPidsLimit: 0 leaves no process; -1 means no limit")
	period := c.CPUCFSQuotaPeriod.Duration
	check(period >= time.Millisecond && period <= time.Second, "cpuCFSQuotaPeriod: %v must be between 1ms and 1s, inclusive", period)
	check(slices.Contains([]string{"", "cgroupfs", "systemd"}, c.CgroupDriver), "cgroupDriver: %q must be cgroupfs or systemd", c.CgroupDriver)
	check(c.CgroupRoot == "" || filepath.IsAbs(c.CgroupRoot), "cgroupRoot: %q must begin with a slash", c.CgroupRoot)
	check(filepath.IsAbs(c.PodLogsDir) && filepath.Clean(c.PodLogsDir) == strings.TrimSuffix(c.PodLogsDir, "/"),
		"podLogsDir: %q must be an absolute, normalized path", c.PodLogsDir)
	check(c.StaticPodPath == "" || filepath.IsAbs(c.StaticPodPath), "staticPodPath: %q must begin with a slash", c.StaticPodPath)
	u, err := url.Parse(c.StaticPodURL)
	check(err == nil && (c.StaticPodURL == "" || u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")),
		"staticPodURL: %q must be a URL of http or https", c.StaticPodURL)
	check(c.FileCheckFrequency.Duration > 0, "fileCheckFrequency must be greater than 0")
	check(c.HTTPCheckFrequency.Duration > 0, "httpCheckFrequency must be greater than 0")
	n := c.MaxParallelImagePulls
	check(n == nil || *n >= 1, "maxParallelImagePulls must be a positive number")
	check(n == nil || *n == 1 || !*c.SerializeImagePulls, "maxParallelImagePulls cannot be larger than 1 unless serializeImagePulls is false")
	check(*c.RegistryPullQPS >= 0, "registryPullQPS: %d must not be a negative number", *c.RegistryPullQPS)
	check(c.RegistryBurst >= 0, "registryBurst: %d must not be a negative number", c.RegistryBurst)
	if _, err := ImagePolicy(c); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, imageGC(c)...)
	errs = append(errs, shutdown(c)...)
	errs = append(errs, users(c)...)
	size, err := resource.ParseQuantity(c.ContainerLogMaxSize)
	check(err == nil && size.Value() > 0, "containerLogMaxSize: %q must be a positive size, such as 10Mi", c.ContainerLogMaxSize)
	check(*c.ContainerLogMaxFiles > 1, "containerLogMaxFiles: %d must be greater than 1", *c.ContainerLogMaxFiles)
	check(*c.ContainerLogMaxWorkers > 0, "containerLogMaxWorkers: %d must be greater than or equal to 1", *c.ContainerLogMaxWorkers)
	every := c.ContainerLogMonitorInterval.Duration
	check(every >= 3*time.Second, "containerLogMonitorInterval: %v must be 3s or longer", every)
	if p := c.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
		check(p.Duration >= time.Second && p.Duration <= 5*time.Minute,
			"crashLoopBackOff.maxContainerRestartPeriod: %v must be between 1s and 300s, inclusive", p.Duration)
	}
	errs = append(errs, reservations("kubeReserved", c.KubeReserved)...)
	errs = append(errs, reservations("systemReserved", c.SystemReserved)...)
	check(c.EvictionPressureTransitionPeriod.Duration >= 0, "evictionPressureTransitionPeriod must not be negative")
	if _, err := eviction.Thresholds(c); err != nil {
		errs = append(errs, err)
	}
	f := c.MemoryThrottlingFactor
	check(f == nil || *f > 0 && *f <= 1, "memoryThrottlingFactor: must be greater than 0 and less than or equal to 1.0")
	swap := c.MemorySwap.SwapBehavior
	check(swap == "" || swap == NoSwap || swap == LimitedSwap, "memorySwap.swapBehavior: %q must be one of: \"\", %q or %q", swap, LimitedSwap, NoSwap)
	return append(errs, enforcements(c)...)
}

// What containers may do with the node's swap.
const (
	NoSwap      = "NoSwap"
	LimitedSwap = "LimitedSwap"
)

// enforcements says what is wrong with enforceNodeAllocatable.
func enforcements(c *v1beta1.KubeletConfiguration) (errs []error) {
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("enforceNodeAllocatable: "+format, args...))
	}
	seen := map[string]bool{}
	for _, e := range c.EnforceNodeAllocatable {
		if seen[e] {
			wrong("duplicated enforcements %q", e)
		}
		seen[e] = true
		switch e {
		case cm.EnforcePods:
		case cm.EnforceNone:
			if len(c.EnforceNodeAllocatable) > 1 {
				wrong("may not contain additional enforcements when %q is specified", e)
			}
		case cm.EnforceSystem, cm.EnforceSystemCompressible:
			if c.SystemReservedCgroup == "" {
				wrong("systemReservedCgroup must be specified when %q is included", e)
			}
		case cm.EnforceKube, cm.EnforceKubeCompressible:
			if c.KubeReservedCgroup == "" {
				wrong("kubeReservedCgroup must be specified when %q is included", e)
			}
		default:
			wrong("option %q is none of pods, system-reserved, system-reserved-compressible, kube-reserved, kube-reserved-compressible and none", e)
		}
	}
	for _, two := range [][2]string{{cm.EnforceSystem, cm.EnforceSystemCompressible}, {cm.EnforceKube, cm.EnforceKubeCompressible}} {
		if seen[two[0]] && seen[two[1]] {
			wrong("both %q and %q cannot be specified", two[0], two[1])
		}
	}
	return errs
}

// Enforces tells whether the kernel is to be told of a part of the node's division.
func Enforces(c *v1beta1.KubeletConfiguration, what string) bool {
	return slices.Contains(c.EnforceNodeAllocatable, what)
}

// Shares are the parts of the node that the kernel is to hold to what is reserved for them.
func Shares(c *v1beta1.KubeletConfiguration) []cm.Share {
	var out []cm.Share
	system, kube := Reservation(c.SystemReserved), Reservation(c.KubeReserved)
	for _, e := range c.EnforceNodeAllocatable {
		switch e {
		case cm.EnforceSystem, cm.EnforceSystemCompressible:
			out = append(out, cm.SystemShare(c.SystemReservedCgroup, system, e == cm.EnforceSystemCompressible))
		case cm.EnforceKube, cm.EnforceKubeCompressible:
			out = append(out, cm.KubeShare(c.KubeReservedCgroup, kube, e == cm.EnforceKubeCompressible))
		}
	}
	return out
}

// SingleProcessOOMKill tells whether the kernel ends one process alone when a container runs out of memory. cgroup v1 cannot do otherwise.
func SingleProcessOOMKill(c *v1beta1.KubeletConfiguration, cgroupV1 bool) bool {
	return cgroupV1 || c.SingleProcessOOMKill != nil && *c.SingleProcessOOMKill
}

func imageGC(c *v1beta1.KubeletConfiguration) (errs []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	high, low := *c.ImageGCHighThresholdPercent, *c.ImageGCLowThresholdPercent
	least, most := c.ImageMinimumGCAge.Duration, c.ImageMaximumGCAge.Duration
	check(high >= 0 && high <= 100, "imageGCHighThresholdPercent: %d must be between 0 and 100, inclusive", high)
	check(low >= 0 && low <= 100, "imageGCLowThresholdPercent: %d must be between 0 and 100, inclusive", low)
	check(low < high, "imageGCLowThresholdPercent: %d must be less than imageGCHighThresholdPercent %d", low, high)
	check(least >= 0, "imageMinimumGCAge: %v must not be negative", least)
	check(most >= 0, "imageMaximumGCAge: %v must not be negative", most)
	check(most <= 0 || most > least, "imageMaximumGCAge: %v must be greater than imageMinimumGCAge %v", most, least)
	return errs
}

func reservations(field string, m map[string]string) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains([]string{"cpu", "memory", "ephemeral-storage", "pid"}, name) {
			errs = append(errs, fmt.Errorf("%s: cannot reserve %q, only cpu, memory, ephemeral-storage and pid", field, name))
		}
		if q, err := resource.ParseQuantity(m[name]); err != nil || q.Sign() < 0 {
			errs = append(errs, fmt.Errorf("%s[%s]: %q is no amount", field, name, m[name]))
		}
	}
	return errs
}

// Reservation reads kubeReserved or systemReserved of a parsed configuration.
func Reservation(m map[string]string) v1.ResourceList {
	out := v1.ResourceList{}
	for name, value := range m {
		if q, err := resource.ParseQuantity(value); err == nil { // Parse has refused others
			out[v1.ResourceName(name)] = q
		}
	}
	return out
}

// LogMaxSize is containerLogMaxSize of a parsed configuration, in bytes.
func LogMaxSize(c *v1beta1.KubeletConfiguration) int64 {
	q, err := resource.ParseQuantity(c.ContainerLogMaxSize)
	if err != nil {
		return 0 // Parse has refused it
	}
	return q.Value()
}

// ParallelPulls is how many images may be pulled at once; 0 is no limit.
func ParallelPulls(c *v1beta1.KubeletConfiguration) int {
	switch {
	case *c.SerializeImagePulls:
		return 1
	case c.MaxParallelImagePulls == nil:
		return 0
	}
	return int(*c.MaxParallelImagePulls)
}

// ImagePolicy says which images that are there a pod must show that it may have.
func ImagePolicy(c *v1beta1.KubeletConfiguration) (pulled.Policy, error) {
	return pulled.NewPolicy(c.ImagePullCredentialsVerificationPolicy, c.PreloadedImagesVerificationAllowlist)
}

// PodLimit is how many pods may run on a machine with cpus processors.
func PodLimit(c *v1beta1.KubeletConfiguration, cpus int) int64 {
	limit := int64(c.MaxPods)
	if c.PodsPerCore > 0 {
		limit = min(limit, int64(c.PodsPerCore)*int64(cpus))
	}
	return limit
}

// Unfit says why the configuration does not allow this machine; nil when it does.
func Unfit(c *v1beta1.KubeletConfiguration, swapOn, cgroupV1 bool) error {
	switch {
	case *c.FailSwapOn && swapOn:
		return fmt.Errorf("running with swap on is not supported: turn swap off (swapoff -a) or set failSwapOn to false in the kubelet configuration")
	case cgroupV1 && c.SingleProcessOOMKill != nil && !*c.SingleProcessOOMKill:
		return fmt.Errorf("singleProcessOOMKill: cgroup v1 cannot end a container's processes together: use a host with cgroup v2 or remove it from the kubelet configuration")
	case *c.FailCgroupV1 && cgroupV1:
		return fmt.Errorf("kubelet is configured to not run on a host using cgroup v1: use a host with cgroup v2 or set failCgroupV1 to false in the kubelet configuration")
	}
	return nil
}

// shutdown reports what is wrong with the grace periods of a shutdown of the machine.
func shutdown(c *v1beta1.KubeletConfiguration) (errs []error) {
	all, critical := c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration
	if len(c.ShutdownGracePeriodByPodPriority) > 0 && (all > 0 || critical > 0) {
		errs = append(errs, errors.New("shutdownGracePeriodByPodPriority: cannot be given beside shutdownGracePeriod"))
	}
	if critical > all {
		errs = append(errs, fmt.Errorf("shutdownGracePeriodCriticalPods: %v must be <= shutdownGracePeriod %v", critical, all))
	}
	for name, d := range map[string]time.Duration{"shutdownGracePeriod": all, "shutdownGracePeriodCriticalPods": critical} {
		if d != 0 && d < time.Second {
			errs = append(errs, fmt.Errorf("%s: %v must be either zero or otherwise >= 1 sec", name, d))
		}
	}
	for _, g := range c.ShutdownGracePeriodByPodPriority {
		if g.ShutdownGracePeriodSeconds < 0 {
			errs = append(errs, fmt.Errorf("shutdownGracePeriodByPodPriority: %d seconds for priority %d must not be a negative number", g.ShutdownGracePeriodSeconds, g.Priority))
		}
	}
	return errs
}

// users says what is wrong with how many ids each pod with a user namespace has.
func users(c *v1beta1.KubeletConfiguration) (errs []error) {
	if c.UserNamespaces == nil || c.UserNamespaces.IDsPerPod == nil {
		return nil
	}
	n := *c.UserNamespaces.IDsPerPod
	if n < userns.Unit || n > 1<<32-1 || n%userns.Unit != 0 {
		errs = append(errs, fmt.Errorf("userNamespaces.idsPerPod: %d must be a multiple of %d from %d on, and less than %d", n, userns.Unit, userns.Unit, int64(1)<<32))
	}
	return errs
}

// IDsPerPod is how many users and groups a pod with a user namespace has.
func IDsPerPod(c *v1beta1.KubeletConfiguration) uint32 {
	if c.UserNamespaces == nil || c.UserNamespaces.IDsPerPod == nil {
		return userns.Unit
	}
	return uint32(*c.UserNamespaces.IDsPerPod)
}
