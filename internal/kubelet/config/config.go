// Package config reads the kubelet's configuration: a KubeletConfiguration v1beta1 file.
//
// Every field is either honoured, which means that a module of Podo acts on it, or it must have its default and is refused by
// name otherwise. A setting is never taken and then forgotten.
package config

import (
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// honoured names the fields that a module acts on, as the file spells them, with that module.
var honoured = map[string]string{
	"address":                                "server: the node's address when left out",
	"port":                                   "daemon: refused unless it is the flag's",
	"enableDebuggingHandlers":                "server",
	"enableSystemLogHandler":                 "server",
	"enableProfilingHandler":                 "server",
	"enableContentionProfiling":              "server",
	"enableDebugFlagsHandler":                "server",
	"readOnlyPort":                           "server",
	"healthzPort":                            "server",
	"healthzBindAddress":                     "server",
	"nodeStatusUpdateFrequency":              "node",
	"nodeStatusReportFrequency":              "node",
	"nodeLeaseDurationSeconds":               "node",
	"nodeStatusMaxImages":                    "node",
	"registerWithTaints":                     "node",
	"maxPods":                                "node, admit",
	"podsPerCore":                            "node, admit",
	"podPidsLimit":                           "cm",
	"cpuCFSQuota":                            "cm",
	"cpuCFSQuotaPeriod":                      "cm",
	"cgroupRoot":                             "cm",
	"cgroupDriver":                           "daemon: the machine's when left out",
	"kubeReserved":                           "cm",
	"systemReserved":                         "cm",
	"evictionHard":                           "eviction; cm: what nodes keep free is not allocatable",
	"evictionSoft":                           "eviction",
	"evictionSoftGracePeriod":                "eviction",
	"evictionMinimumReclaim":                 "eviction",
	"evictionMaxPodGracePeriod":              "eviction",
	"evictionPressureTransitionPeriod":       "eviction",
	"mergeDefaultEvictionSettings":           "config",
	"allowedUnsafeSysctls":                   "admit",
	"serializeImagePulls":                    "images",
	"maxParallelImagePulls":                  "images",
	"registryPullQPS":                        "images",
	"registryBurst":                          "images",
	"imagePullCredentialsVerificationPolicy": "images",
	"preloadedImagesVerificationAllowlist":   "images",
	"imageGCHighThresholdPercent":            "imagegc",
	"imageGCLowThresholdPercent":             "imagegc",
	"imageMinimumGCAge":                      "imagegc",
	"imageMaximumGCAge":                      "imagegc",
	"containerLogMaxSize":                    "logs",
	"containerLogMaxFiles":                   "logs",
	"containerLogMonitorInterval":            "logs",
	"containerLogMaxWorkers":                 "logs",
	"podLogsDir":                             "spec",
	"clusterDNS":                             "spec",
	"clusterDomain":                          "spec",
	"resolvConf":                             "spec",
	"containerRuntimeEndpoint":               "daemon: where the flag says nothing",
	"runtimeRequestTimeout":                  "cri",
	"staticPodPath":                          "source",
	"staticPodURL":                           "source",
	"staticPodURLHeader":                     "source",
	"fileCheckFrequency":                     "source",
	"httpCheckFrequency":                     "source",
	"crashLoopBackOff":                       "podlife",
	"enforceNodeAllocatable":                 "cm",
	"systemReservedCgroup":                   "cm",
	"kubeReservedCgroup":                     "cm",
	"memoryThrottlingFactor":                 "cm, spec",
	"memorySwap":                             "spec, admit",
	"singleProcessOOMKill":                   "spec",
	"seccompDefault":                         "spec",
	"shutdownGracePeriod":                    "shutdown",
	"shutdownGracePeriodCriticalPods":        "shutdown",
	"shutdownGracePeriodByPodPriority":       "shutdown",
	"failSwapOn":                             "daemon, before anything starts",
	"failCgroupV1":                           "daemon, before anything starts",
	"userNamespaces":                         "userns",
}

// instead names the fields that are not honoured, with what to do in their place. Every field is in one of the two tables.
var instead = map[string]string{
	"tlsCertFile":        "the cluster's own authority issues the kubelet's certificate",
	"tlsPrivateKeyFile":  "the cluster's own authority issues the kubelet's certificate",
	"rotateCertificates": "certificates are renewed by themselves",
	"serverTLSBootstrap": "the cluster's own authority issues the kubelet's certificate",
	"authentication":     "clients are known by certificates of the cluster's own authority",
	"authorization":      "the API server decides",
	"podCIDR":            "use the flag --pod-cidr",
	"logging":            "use the flags -v and --log-format",
	"registerNode":       "a Podo node always registers itself",
	"cgroupsPerQOS":      "pods always have cgroups of their own under their QoS class",

	"enableServer":                              "the API server needs the kubelet's server for logs and exec: keep it, and use address to say where",
	"syncFrequency":                             "remove it: pods are looked after when something happens, not by the clock",
	"tlsCipherSuites":                           "remove it: the Go runtime's own choice is used",
	"tlsCurvePreferences":                       "remove it: the Go runtime's own choice is used",
	"tlsMinVersion":                             "remove it: TLS 1.2 is the least",
	"eventRecordQPS":                            "remove it: events are bounded by source",
	"eventBurst":                                "remove it: events are bounded by source",
	"oomScoreAdj":                               "remove it, and use the service manager that starts podo (OOMScoreAdjust of systemd)",
	"streamingConnectionIdleTimeout":            "remove it: sessions end with their ends",
	"volumeStatsAggPeriod":                      "remove it: volumes are measured when somebody asks",
	"kubeletCgroups":                            "remove it, and use the service manager that starts podo to give it a cgroup",
	"systemCgroups":                             "remove it: processes of others are not moved",
	"cpuManagerPolicy":                          "use none: pods are not given cpus of their own",
	"cpuManagerPolicyOptions":                   "remove it: pods are not given cpus of their own",
	"cpuManagerReconcilePeriod":                 "remove it: pods are not given cpus of their own",
	"memoryManagerPolicy":                       "use None: pods are not given memory of a NUMA node of their own",
	"reservedMemory":                            "use systemReserved: pods are not given memory of a NUMA node of their own",
	"topologyManagerPolicy":                     "use none: nothing of a pod is placed by the machine's topology",
	"topologyManagerScope":                      "remove it: nothing of a pod is placed by the machine's topology",
	"topologyManagerPolicyOptions":              "remove it: nothing of a pod is placed by the machine's topology",
	"qosReserved":                               "remove it: it needs a feature gate that is off by default",
	"hairpinMode":                               "remove it: the bridge of the pods' network is configured by podo",
	"runOnce":                                   "remove it: use static pods",
	"maxOpenFiles":                              "remove it, and use the service manager that starts podo (LimitNOFILE of systemd)",
	"contentType":                               "remove it: objects are shared or go as protobuf",
	"kubeAPIQPS":                                "remove it: requests are not held back",
	"kubeAPIBurst":                              "remove it: requests are not held back",
	"enableControllerAttachDetach":              "keep it true: volumes are attached by the controller",
	"protectKernelDefaults":                     "remove it: the kernel's settings are left alone",
	"makeIPTablesUtilChains":                    "remove it: rules are nftables of podo's own",
	"iptablesMasqueradeBit":                     "remove it: rules are nftables of podo's own",
	"iptablesDropBit":                           "remove it: rules are nftables of podo's own",
	"featureGates":                              "remove it: features are those that are on by default",
	"configMapAndSecretChangeDetectionStrategy": "use Watch",
	"reservedSystemCPUs":                        "use systemReserved: pods are not given cpus of their own",
	"showHiddenMetricsForVersion":               "remove it: no metric is hidden",
	"defaultPodSysctls":                         "remove it, and set sysctls in the pods' security contexts",
	"volumePluginDir":                           "remove it: flexVolume is not supported, use CSI",
	"providerID":                                "remove it, and set spec.providerID of the Node",
	"kernelMemcgNotification":                   "remove it: memory is looked at often enough without",
	"enableSystemLogQuery":                      "keep it false, and use the machine's own journal",
	"memoryReservationPolicy":                   "use None: no memory is kept for requests, memoryThrottlingFactor slows down who takes more",
	"tracing":                                   "remove it, and use podo timeline",
	"localStorageCapacityIsolation":             "keep it true: what pods write is measured and bounded",
	"imageServiceEndpoint":                      "remove it: images are the container runtime's (containerRuntimeEndpoint)",
}

// Parse reads a file's content; empty content means the defaults. It reports everything that is wrong at once.
func Parse(text []byte) (*v1beta1.KubeletConfiguration, error) {
	def := Defaults()
	if strings.TrimSpace(string(text)) == "" {
		return def, nil
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration: %w", err)
	}
	c := &v1beta1.KubeletConfiguration{}
	nested(c)
	strict, err := json.UnmarshalStrict(raw, c)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration: %w", err)
	}
	errs := strict
	if c.APIVersion != def.APIVersion || c.Kind != def.Kind {
		errs = append(errs, fmt.Errorf("apiVersion %q and kind %q must be %s and %s", c.APIVersion, c.Kind, def.APIVersion, def.Kind))
	}
	fill(c, def)
	if *c.MergeDefaultEvictionSettings {
		for signal, value := range def.EvictionHard {
			if _, ok := c.EvictionHard[signal]; !ok {
				c.EvictionHard[signal] = value
			}
		}
	}
	errs = append(errs, refused(c, def)...)
	errs = append(errs, invalid(c)...)
	if len(errs) > 0 {
		return nil, fmt.Errorf("kubelet configuration: %w", errors.Join(errs...))
	}
	return c, nil
}

// Names are the fields that a configuration's text sets. What is wrong with it Parse tells.
func Names(text []byte) map[string]bool {
	fields := map[string]any{}
	_ = yaml.Unmarshal(text, &fields)
	names := map[string]bool{}
	for name := range fields {
		names[name] = true
	}
	return names
}

// fill gives fields that the file leaves out their defaults.
func fill(c, def *v1beta1.KubeletConfiguration) {
	have, want := reflect.ValueOf(c).Elem(), reflect.ValueOf(def).Elem()
	for i := range have.NumField() {
		if have.Field(i).IsZero() {
			have.Field(i).Set(want.Field(i))
		}
	}
}

// refused names the fields that differ from their default although no module acts on them.
func refused(c, def *v1beta1.KubeletConfiguration) (errs []error) {
	have, want := reflect.ValueOf(c).Elem(), reflect.ValueOf(def).Elem()
	for i := range have.NumField() {
		name := jsonName(have.Type().Field(i))
		if name == "" || honoured[name] != "" || equality.Semantic.DeepEqual(have.Field(i).Interface(), want.Field(i).Interface()) {
			continue
		}
		why := instead[name]
		if why == "" {
			why = "remove it"
		}
		errs = append(errs, fmt.Errorf("%s: Podo does not support another value than the default: %s", name, why))
	}
	sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
	return errs
}

// jsonName is a field's name in the file; "" for the type's own name and version.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
