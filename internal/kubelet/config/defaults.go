package config

import (
	"runtime"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsv1 "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubelet/config/v1beta1"
)

// Defaults is the configuration that an empty file means: upstream's defaults for Linux, except that Podo runs on machines with
// swap and with cgroup v1 unless told not to.
func Defaults() *v1beta1.KubeletConfiguration {
	c := &v1beta1.KubeletConfiguration{
		EnableServer:                           ptr(true),
		PodLogsDir:                             "/var/log/pods",
		SyncFrequency:                          span(time.Minute),
		FileCheckFrequency:                     span(20 * time.Second),
		HTTPCheckFrequency:                     span(20 * time.Second),
		Address:                                "0.0.0.0",
		Port:                                   10250,
		RegistryPullQPS:                        ptr[int32](5),
		RegistryBurst:                          10,
		ImagePullCredentialsVerificationPolicy: v1beta1.NeverVerifyPreloadedImages,
		EventRecordQPS:                         ptr[int32](50),
		EventBurst:                             100,
		EnableDebuggingHandlers:                ptr(true),
		HealthzPort:                            ptr[int32](10248),
		HealthzBindAddress:                     "127.0.0.1",
		OOMScoreAdj:                            ptr[int32](-999),
		StreamingConnectionIdleTimeout:         span(4 * time.Hour),
		NodeStatusUpdateFrequency:              span(10 * time.Second),
		NodeStatusReportFrequency:              span(5 * time.Minute),
		NodeLeaseDurationSeconds:               40,
		ImageMinimumGCAge:                      span(2 * time.Minute),
		ImageGCHighThresholdPercent:            ptr[int32](85),
		ImageGCLowThresholdPercent:             ptr[int32](80),
		VolumeStatsAggPeriod:                   span(time.Minute),
		CgroupsPerQOS:                          ptr(true),
		CPUManagerPolicy:                       "none",
		CPUManagerReconcilePeriod:              span(10 * time.Second),
		MemoryManagerPolicy:                    v1beta1.NoneMemoryManagerPolicy,
		TopologyManagerPolicy:                  v1beta1.NoneTopologyManagerPolicy,
		TopologyManagerScope:                   v1beta1.ContainerTopologyManagerScope,
		RuntimeRequestTimeout:                  span(2 * time.Minute),
		HairpinMode:                            v1beta1.PromiscuousBridge,
		MaxPods:                                110,
		PodPidsLimit:                           ptr[int64](-1),
		ResolverConfig:                         ptr("/etc/resolv.conf"),
		CPUCFSQuota:                            ptr(true),
		CPUCFSQuotaPeriod:                      ptr(span(100 * time.Millisecond)),
		NodeStatusMaxImages:                    ptr[int32](50),
		MaxOpenFiles:                           1000000,
		ContentType:                            "application/vnd.kubernetes.protobuf",
		KubeAPIQPS:                             ptr[int32](50),
		KubeAPIBurst:                           100,
		SerializeImagePulls:                    ptr(true),
		EvictionPressureTransitionPeriod:       span(5 * time.Minute),
		MergeDefaultEvictionSettings:           ptr(false),
		EnableControllerAttachDetach:           ptr(true),
		MakeIPTablesUtilChains:                 ptr(true),
		IPTablesMasqueradeBit:                  ptr[int32](14),
		IPTablesDropBit:                        ptr[int32](15),
		FailSwapOn:                             ptr(false), // upstream: true
		FailCgroupV1:                           ptr(false), // upstream: true
		ContainerLogMaxSize:                    "10Mi",
		ContainerLogMaxFiles:                   ptr[int32](5),
		ContainerLogMaxWorkers:                 ptr[int32](1),
		ContainerLogMonitorInterval:            ptr(span(10 * time.Second)),
		ConfigMapAndSecretChangeDetectionStrategy: v1beta1.WatchChangeDetectionStrategy,
		EnforceNodeAllocatable:                    []string{"pods"},
		VolumePluginDir:                           "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
		EnableSystemLogHandler:                    ptr(true),
		EnableSystemLogQuery:                      ptr(false),
		EnableProfilingHandler:                    ptr(true),
		EnableDebugFlagsHandler:                   ptr(true),
		SeccompDefault:                            ptr(false),
		MemoryReservationPolicy:                   v1beta1.NoneMemoryReservationPolicy,
		RegisterNode:                              ptr(true),
		LocalStorageCapacityIsolation:             ptr(true),
		EvictionHard:                              evictionHard(),
	}
	nested(c)
	c.APIVersion, c.Kind = v1beta1.SchemeGroupVersion.String(), "KubeletConfiguration"
	return c
}

// nested sets the defaults inside of structs, which a file may set in part.
func nested(c *v1beta1.KubeletConfiguration) {
	c.Authentication.Anonymous.Enabled = ptr(false)
	c.Authentication.Webhook = v1beta1.KubeletWebhookAuthentication{Enabled: ptr(true), CacheTTL: span(2 * time.Minute)}
	c.Authorization.Mode = v1beta1.KubeletAuthorizationModeWebhook
	c.Authorization.Webhook = v1beta1.KubeletWebhookAuthorization{
		CacheAuthorizedTTL: span(5 * time.Minute), CacheUnauthorizedTTL: span(30 * time.Second),
	}
	c.CrashLoopBackOff.MaxContainerRestartPeriod = ptr(span(5 * time.Minute))
	logsv1.SetRecommendedLoggingConfiguration(&c.Logging)
}

// evictionHard are the thresholds of hard eviction. A file that names any replaces them all.
func evictionHard() map[string]string {
	out := map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "15%",
	}
	if runtime.GOOS == "linux" {
		out["nodefs.inodesFree"], out["imagefs.inodesFree"] = "5%", "5%"
	}
	return out
}

func ptr[T any](v T) *T { return &v }

func span(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
