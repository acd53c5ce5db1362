package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/kubelet/config/v1beta1"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func parse(t *testing.T, body string) *v1beta1.KubeletConfiguration {
	t.Helper()
	c, err := Parse([]byte(head + body))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmptyMeansDefaults(t *testing.T) {
	for _, text := range []string{"", " \n", head, head + "maxPods: 0\nsyncFrequency: 0s\nauthentication: {}\nlogging: {}\n"} {
		c, err := Parse([]byte(text))
		if err != nil || !reflect.DeepEqual(c, Defaults()) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if errs := invalid(Defaults()); len(errs) != 0 {
		t.Error(errs)
	}
}

func TestHonouredFieldsKeepWhatTheFileSays(t *testing.T) {
	c := parse(t, `
maxPods: 50
podsPerCore: 5
port: 10350
serializeImagePulls: false
maxParallelImagePulls: 3
kubeReserved: {cpu: 100m}
evictionHard: {memory.available: 5%}
containerLogMaxSize: 1Mi
containerLogMaxFiles: 2
crashLoopBackOff: {maxContainerRestartPeriod: 20s}
nodeStatusReportFrequency: 1m
podLogsDir: /var/log/pods/
userNamespaces: {idsPerPod: 131072}
`)
	if n, d := IDsPerPod(c), IDsPerPod(Defaults()); n != 131072 || d != 65536 {
		t.Errorf("%d ids for each pod, %d by default", n, d)
	}
	kube := Reservation(c.KubeReserved)
	got := fmt.Sprint(c.MaxPods, c.Port, ParallelPulls(c), PodLimit(c, 4), PodLimit(c, 64), kube.Cpu(), c.EvictionHard, LogMaxSize(c),
		*c.ContainerLogMaxFiles, c.CrashLoopBackOff.MaxContainerRestartPeriod.Duration, c.NodeStatusReportFrequency.Duration)
	if want := "50 10350 3 20 50 100m map[memory.available:5%] 1048576 2 20s 1m0s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if c.NodeStatusUpdateFrequency.Duration != 10*time.Second || ParallelPulls(Defaults()) != 1 {
		t.Error("a default got lost")
	}
}

func TestWhatIsNotHonouredIsRefusedByName(t *testing.T) {
	for body, want := range map[string]string{
		"cpuManagerPolicy: static":                     "cpuManagerPolicy: Podo does not support another value than the default: use none",
		"authentication: {anonymous: {enabled: true}}": "authentication: Podo does not support another value than the default: clients are known",
		"featureGates: {Foo: true}":                    "featureGates: ",
		"enableServer: false":                          "enableServer: ",
		"readOnlyPort: 70000":                          "readOnlyPort: 70000 must be between 0 and 65535",
		"maxPod: 5":                                    `unknown field "maxPod"`,
		"MaxPods: 5":                                   `unknown field "MaxPods"`,
		"maxPods: 5\nmaxPods: 6":                       `"maxPods" already set`,
		"maxPods: many":                                "cannot unmarshal string",
		"maxPods: -1":                                  "maxPods: -1 must not be a negative number",
		"port: 70000":                                  "port: 70000 must be between 1 and 65535",
		"clusterDNS: [dns.local]":                      `clusterDNS: "dns.local" is no IP address`,
		"maxParallelImagePulls: 2":                     "unless serializeImagePulls is false",
		"imageGCHighThresholdPercent: 101":             "imageGCHighThresholdPercent: 101 must be between 0 and 100, inclusive",
		"imageGCLowThresholdPercent: -1":               "imageGCLowThresholdPercent: -1 must be between 0 and 100, inclusive",
		"imageGCLowThresholdPercent: 85":               "imageGCLowThresholdPercent: 85 must be less than imageGCHighThresholdPercent 85",
		"imageMinimumGCAge: -1s":                       "imageMinimumGCAge: -1s must not be negative",
		"imageMaximumGCAge: -1s":                       "imageMaximumGCAge: -1s must not be negative",
		"registryPullQPS: -1":                          "registryPullQPS: -1 must not be a negative number",
		"registryBurst: -1":                            "registryBurst: -1 must not be a negative number",
		"containerLogMaxWorkers: -1":                   "containerLogMaxWorkers: -1 must be greater than or equal to 1",
		"imagePullCredentialsVerificationPolicy: Some": "imagePullCredentialsVerificationPolicy: \"Some\" must be NeverVerify",
		"preloadedImagesVerificationAllowlist: [a]":    "preloadedImagesVerificationAllowlist: can't set for",
		"imageMaximumGCAge: 2m":                        "imageMaximumGCAge: 2m0s must be greater than imageMinimumGCAge 2m0s",
		"containerLogMaxFiles: 1":                      "containerLogMaxFiles: 1 must be greater than 1",
		"containerLogMaxSize: big":                     `containerLogMaxSize: "big"`,
		"evictionHard: {memory.free: 1Gi}":             `unknown eviction signal "memory.free"`,
		"evictionHard: {memory.available: 101%}":       "must be between 0% and 100%",
		"systemReserved: {pods: \"1\"}":                `cannot reserve "pods"`,
		"cpuCFSQuotaPeriod: 2s":                        "cpuCFSQuotaPeriod: 2s must be between 1ms and 1s",
		"cgroupDriver: other":                          "cgroupDriver",
		"kind: Other":                                  "already set",
		"memoryThrottlingFactor: 1.5":                  "memoryThrottlingFactor: must be greater than 0",
		"memorySwap: {swapBehavior: All}":              `memorySwap.swapBehavior: "All" must be one of`,
		"enforceNodeAllocatable: [system-reserved]":    "systemReservedCgroup must be specified",
		"enforceNodeAllocatable: [none, pods]":         "may not contain additional enforcements",
		"enforceNodeAllocatable: [nodes]":              `option "nodes" is none of`,
		"userNamespaces: {idsPerPod: 1000}":            "userNamespaces.idsPerPod: 1000 must be a multiple of 65536",
		"userNamespaces: {idsPerPod: 4294967296}":      "userNamespaces.idsPerPod: 4294967296 must be",
		"shutdownGracePeriod: 500ms":                   "shutdownGracePeriod: 500ms must be either zero or otherwise >= 1 sec",
		"shutdownGracePeriodCriticalPods: 10s":         "shutdownGracePeriodCriticalPods: 10s must be <= shutdownGracePeriod 0s",
		"shutdownGracePeriod: 9s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 9}]": "cannot be given beside",
	} {
		_, err := Parse([]byte(head + body))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	_, err := Parse([]byte("maxPods: 5\n"))
	if err == nil || !strings.Contains(err.Error(), "apiVersion") {
		t.Errorf("a file without a kind: %v", err)
	}
	_, err = Parse([]byte(head + "cpuManagerPolicy: static\nport: 0\nrunOnce: true\nmaxPods: -2\n"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("not everything was said at once: %v", err)
	}
}

func TestNamesInTablesAreFieldsAndNothingIsBoth(t *testing.T) {
	fields := map[string]bool{}
	typ := reflect.TypeFor[v1beta1.KubeletConfiguration]()
	for i := range typ.NumField() {
		fields[jsonName(typ.Field(i))] = true
	}
	for name := range honoured {
		if !fields[name] || instead[name] != "" {
			t.Errorf("honoured %q is no field, or also refused", name)
		}
	}
	for name := range instead {
		if !fields[name] {
			t.Errorf("%q is no field", name)
		}
	}
	for name := range fields {
		if name != "" && honoured[name] == "" && instead[name] == "" {
			t.Errorf("%q is neither honoured nor refused with what to do instead", name)
		}
	}
}

// A field is honoured by code that reads it, outside of what parses and checks it.
func TestHonouredFieldsAreRead(t *testing.T) {
	var all strings.Builder
	for _, dir := range []string{"../../daemon", "..", "."} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		below, err := filepath.Glob(dir + "/*/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range append(files, below...) {
			if name := filepath.Base(f); strings.HasSuffix(name, "_test.go") || name == "defaults.go" {
				continue
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			_, text, _ := strings.Cut(string(b), "// invalid says which honoured fields") // of validate.go what comes after the checks
			if text == "" {
				text = string(b)
			} else {
				_, text, _ = strings.Cut(text, "\n}\n")
			}
			all.WriteString(text)
		}
	}
	typ := reflect.TypeFor[v1beta1.KubeletConfiguration]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if honoured[jsonName(f)] != "" && !regexp.MustCompile(`\b\w+\.`+f.Name+`\b`).MatchString(all.String()) {
			t.Errorf("%s is said to be honoured by %s, and nothing reads it", jsonName(f), honoured[jsonName(f)])
		}
	}
}

func TestUnfit(t *testing.T) {
	if err := Unfit(Defaults(), true, true); err != nil {
		t.Errorf("swap and cgroup v1 are fine by default: %v", err)
	}
	c := parse(t, "failSwapOn: true\nfailCgroupV1: true\n")
	if err := Unfit(c, true, false); err == nil || !strings.Contains(err.Error(), "swapoff") {
		t.Error(err)
	}
	if err := Unfit(c, false, true); err == nil || !strings.Contains(err.Error(), "cgroup v1") {
		t.Error(err)
	}
	if err := Unfit(c, false, false); err != nil {
		t.Error(err)
	}
}
