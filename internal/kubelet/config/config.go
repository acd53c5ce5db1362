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

// honoured names the fields that modules act on, by their names in the file, and who does.
var honoured = map[string]string{
	"address":                                "server",
	"port":                                   "server",
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
	"cgroupDriver":                           "cm",
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
	"containerRuntimeEndpoint":               "cri",
	"runtimeRequestTimeout":                  "cri",
	"staticPodPath":                          "source",
	"staticPodURL":                           "source",
	"staticPodURLHeader":                     "source",
	"fileCheckFrequency":                     "source",
	"httpCheckFrequency":                     "source",
	"crashLoopBackOff":                       "podlife",
	"failSwapOn":                             "daemon, before anything starts",
	"failCgroupV1":                           "daemon, before anything starts",
}

// instead says for some fields that are not honoured what to do in their place.
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
}

// Parse reads a file's content; empty content means the defaults. All that is wrong is said at once.
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
