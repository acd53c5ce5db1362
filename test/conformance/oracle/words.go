package oracle

import (
	"math"
	"strings"
)

// What mutations choose from: values that rules look at, by the name of the field that they go into.
var (
	integers = []int64{
		0, 0, 1, 1, 2, 3, 10, 30, 80, 443, 8080, 100, 101, 644, 420, 0o777, 0o1000, 1000, 65535, 65536, -1, -2, -1000,
		math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64, math.MinInt32, 1 << 40, 2147483000, 600, 3600,
	}
	quantities = []string{"0", "1", "2", "100m", "1m", "1Gi", "64Mi", "128Mi", "2Mi", "3Mi", "1.5", "500", "-1", "-100m", "0.0001", "1k", "1e3", "10Gi", "1500m"}
	objects    = []string{`{}`, `{"a":1}`, `{"spec":{"template":{}}}`, `{"a":[null,{"b":"c"}]}`}
	long       = strings.Repeat("a", 300)
	texts      = []string{
		"", "a", "b", "x-y", "A", "a_b", "-a", "a-", "a.b", "a..b", "1", "1.2.3.4", "::1", "01.2.3.4", "10.0.0.0/8", "2001:db8::/64", "/abs", "/", "..",
		"../x", "a/../b", "./a", "a/b", "a/b/c", "a:b", "a b", " a", "é", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253),
		strings.Repeat("a", 254), long, "example.com/foo", "kubernetes.io/foo", "foo.k8s.io/bar", "Example.com/foo", "/foo", "foo/", "metadata.name",
		"metadata.labels", "metadata.labels['a']", "metadata.annotations['A/b']", "metadata.annotations", "spec.nodeName", "status.podIP", "status.podIPs",
		"limits.cpu", "requests.memory", "limits.hugepages-2Mi", "limits.foo", "localhost/x", "unconfined", "runtime/default", "http", "HTTP", "true", "system:a", "a%b",
		"NodeName", "http://example.com", "https://example.com/x", "$(A)", "%", "*", "\x00", "a=b", "cpu", "memory", "Always", "None",
	}
	byField = map[string][]string{
		"FieldPath":           {"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.labels['a']", "metadata.annotations['a']", "metadata.annotations['a b']", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "status.phase", "spec.bad", "metadata.labels['']"},
		"IP":                  {"1.2.3.4", "::1", "01.2.3.4", "fe80::1", "1.2.3", "::ffff:1.2.3.4", "127.0.0.1", "224.0.0.1"},
		"IPs":                 {"1.2.3.4", "::1"},
		"HostIP":              {"1.2.3.4", "::1", "127.0.0.1", "0.0.0.0", "01.2.3.4", "x"},
		"PodIP":               {"1.2.3.4", "::1", "01.2.3.4", "x"},
		"Nameservers":         {"1.2.3.4", "::1", "01.2.3.4", "x", "8.8.8.8"},
		"Searches":            {"a.b", "a.b.", ".", "A.b", "a_b", "", "-a", long},
		"MountPath":           {"/a", "/b", "a", "/a:b", "/", "..", "/var/run"},
		"DevicePath":          {"/dev/a", "/a", "a/../b", ""},
		"Path":                {"a", "/a", "a/b", "../a", "..", "..a", "a/..", "a/../b", "", "/x/../y", "ab:c", "./x", "/a//b", "/a/./b", "/a/..", "/a/.", "/a%2fb"},
		"SubPath":             {"a", "/a", "../a", "a/../b", "a/b", ""},
		"SubPathExpr":         {"$(A)", "$(A)/b", "/a", "../a", ""},
		"Image":               {"busybox", "busybox:1", "busybox:latest", "a/b@sha256:0000000000000000000000000000000000000000000000000000000000000000", " busybox", "BAD", ""},
		"Key":                 {"a", "example.com/foo", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "kubernetes.io/hostname", "a b", "", "-a", "A_B", "metadata.name", "topology.kubernetes.io/zone", "beta.kubernetes.io/arch", "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"},
		"Operator":            {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "bad"},
		"TopologyKey":         {"kubernetes.io/hostname", "topology.kubernetes.io/zone", "a b", ""},
		"Medium":              {"", "Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi", "HugePages-x", "bad"},
		"Host":                {"example.com", "1.2.3.4", "a b", "", "*.example.com", "*.x", "a.*", "*"},
		"Hosts":               {"example.com", "*.example.com", "*", "a b", ""},
		"Controller":          {"example.com/x", "example.com", "a/b/c", "", long},
		"HostPort":            {"80"},
		"LocalhostProfile":    {"a", "/a", "../a", "a/b", "", " ", long},
		"Hostname":            {"a", "a.b", "A", "-a", long},
		"Subdomain":           {"a", "a.b", "A"},
		"PriorityClassName":   {"a", "system-node-critical", "system-cluster-critical", "A_"},
		"NodeName":            {"n1", "a.b", "A_", long},
		"Audience":            {"a", ""},
		"SignerName":          {"example.com/foo", "kubernetes.io/x", "a", "a/b/c", "kubernetes.io/kube-apiserver-client-pod"},
		"KeyType":             {"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA"},
		"Finalizers":          {"kubernetes", "foregroundDeletion", "orphan", "example.com/foo", "foo", "a b"},
		"Driver":              {"csi.example.com", "a", "A.b", "", long},
		"Type":                {"kubernetes.io/service-account-token", "kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth", "kubernetes.io/tls", "Opaque", "bootstrap.kubernetes.io/token", "Normal", "Warning", "RollingUpdate", "Recreate", "OnDelete", "x"},
		"ProviderID":          {"a://b", "x"},
		"PodCIDR":             {"10.0.0.0/24", "10.0.0.1/24", "fd00::/64", "x", "010.0.0.0/24"},
		"PodCIDRs":            {"10.0.0.0/24", "fd00::/64", "x", "10.1.0.0/24"},
		"ReportingController": {"example.com/foo", "kubelet", "a b", ""},
		"ReportingInstance":   {"a", "", long},
		"Action":              {"Pulled", "", long},
		"Reason":              {"Started", "", long},
		// Services and what is behind them.
		"ClusterIP":                {"", "None", "10.96.0.1", "fd00::1", "010.96.0.1", "x"},
		"ClusterIPs":               {"", "None", "10.96.0.1", "fd00::1", "10.96.0.2", "x"},
		"ExternalIPs":              {"1.2.3.4", "::1", "127.0.0.1", "169.254.0.1", "01.2.3.4", "0.0.0.0", "x"},
		"LoadBalancerIP":           {"1.2.3.4", "fd00::1", "01.2.3.4", "x"},
		"LoadBalancerSourceRanges": {"10.0.0.0/8", " 10.0.0.0/8", "10.0.0.1/8", "fd00::/64", "x"},
		"LoadBalancerClass":        {"example.com/lb", "internal", "a b", ""},
		"ExternalName":             {"example.com", "example.com.", "1.2.3.4", "", "a_b", "-a"},
		"TrafficDistribution":      {"PreferClose", "PreferSameZone", "PreferSameNode", "x", ""},
		"AppProtocol":              {"http", "kubernetes.io/h2c", "a b", "", long},
		"TargetPort":               {"http", "a-very-long-port-name", "-a", "80", "", "HTTP"},
		"Addresses":                {"10.0.0.1", "10.0.0.2", "fd00::1", "127.0.0.1", "169.254.1.1", "010.0.0.1", "example.com", "x_"},
		"CIDR":                     {"10.0.0.0/8", "10.0.0.1/8", "fd00::/64", "010.0.0.0/8", "::ffff:10.0.0.0/112", "10.1.2.0/24", "x", ""},
		"Except":                   {"10.1.0.0/16", "10.0.0.0/8", "10.1.2.0/24", "10.1.2.3/24", "fd00::/80", "011.0.0.0/9", "x", ""},
		"CIDRs":                    {"10.96.0.0/16", "fd00::/108", "10.96.0.1/16", "010.96.0.0/16", "::ffff:10.0.0.0/112", "x"},
		"Resource":                 {"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.hugepages-2Mi", "requests.hugepages-1Gi", "limits.x", "requests.example.com/foo", "services", "pods"},
		"Group":                    {"", "apps", "a b"},
		"Zone":                     {"a", "a b", "", long},
		// Rules of access.
		"Verbs":           {"get", "list", "*", "use", "", "bind"},
		"APIGroups":       {"", "apps", "*", "rbac.authorization.k8s.io"},
		"APIGroup":        {"", "rbac.authorization.k8s.io", "apps", "snapshot.storage.k8s.io", "a b"},
		"Resources":       {"pods", "pods/log", "*", "*/scale", ""},
		"ResourceNames":   {"a", ""},
		"NonResourceURLs": {"/healthz", "/healthz/*", "*", "a", ""},
		"Kind":            {"User", "Group", "ServiceAccount", "Role", "ClusterRole", "PersistentVolumeClaim", "VolumeSnapshot", "Pod", "Node", "x", ""},
		// Work to be done.
		"Schedule":         {"* * * * *", "0 3 * * 1-5", "@daily", "@every 1h30m", "@x", "TZ=UTC 0 0 * * *", "CRON_TZ=Europe/Berlin @hourly", "TZ=0", "* * * *", "61 * * * *", "a", ""},
		"TimeZone":         {"Etc/UTC", "Europe/Berlin", "Local", "local", "utc", "Mars/Olympus", "/Etc", "../Etc", "-a/b", "America/Argentina/Buenos_Aires", "a-name-that-is-too-long", ""},
		"ManagedBy":        {"kubernetes.io/job-controller", "example.com/a", "example.com", "a b/c", "example.com/a?b", "", long + ".com/a"},
		"SucceededIndexes": {"0", "1,3-5,7", "3-3", "5-3", "0-1-2", "a", "1,1", "2,0", "-1", "99", "0-99", "1,,2", ""},
		"CompletedIndexes": {"0", "0,3-4", "1", "1,2", "3-3", "a", "99", ""},
		"FailedIndexes":    {"0", "1", "0-1", "2-4", "b", "1,0", "99", ""},
		"ContainerName":    {"c", "i", "x", ""},
		// Volumes and classes.
		"StorageClassName": {"", "a", "A_", "standard"},
		"VolumeName":       {"", "a", "A_"},
		"Handler":          {"runc", "a.b", "A", "", "a_b", long},
		"MountOptions":     {"ro", "", "a b"},
		"FSType":           {"ext4", ""},
	}
	resourceNames = []string{
		"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi", "hugepages-x", "pods", "storage", "example.com/gpu", "bad name", "kubernetes.io/foo", "requests.cpu", "requests.example.com/gpu", "limits.memory", "requests.storage",
		"count/pods", "count/deployments.apps", "services.nodeports", "services", "persistentvolumeclaims", "gold.storageclass.storage.k8s.io/requests.storage", "attachable-volumes-x", "scheduling.k8s.io/foo", "native.kubernetes.io/x", "Memory", "",
	}
	annotationsKnown = []string{
		"a", "example.com/foo", "kubernetes.io/config.mirror", "kubernetes.io/config.source", "container.apparmor.security.beta.kubernetes.io/a",
		"container.apparmor.security.beta.kubernetes.io/c", "seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/c",
		"security.alpha.kubernetes.io/sysctls", "controller.kubernetes.io/pod-deletion-cost", "scheduler.alpha.kubernetes.io/preferAvoidPods", "scheduler.alpha.kubernetes.io/tolerations",
		"kubernetes.io/enforce-mountable-secrets", "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid", "pod.beta.kubernetes.io/init-containers",
		"autoscaling.alpha.kubernetes.io/x", "A_b", "a b", "", "/x", "node.alpha.kubernetes.io/ttl", "volumes.kubernetes.io/controller-managed-attach-detach", "endpoints.kubernetes.io/over-capacity",
		"batch.kubernetes.io/cronjob-scheduled-timestamp", "service.kubernetes.io/topology-mode",
		"service.alpha.kubernetes.io/tolerate-unready-endpoints", "service.kubernetes.io/topology-aware-hints", "service.beta.kubernetes.io/load-balancer-source-ranges",
		"volume.beta.kubernetes.io/storage-class", "volume.beta.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/mount-options", "pv.kubernetes.io/bind-completed",
		"rbac.authorization.kubernetes.io/autoupdate", "endpoints.kubernetes.io/last-change-trigger-time",
		"deprecated.deployment.rollback.to",
		"kubernetes.io/ingress.class", "ingressclass.kubernetes.io/is-default-class",
	}
	labelKeys   = []string{"a", "app", "example.com/foo", "kubernetes.io/hostname", "node-role.kubernetes.io/worker", "kubernetes.io/role", "kubernetes.io/metadata.name", "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by", "service.kubernetes.io/headless", "beta.kubernetes.io/arch", "beta.kubernetes.io/os", "failure-domain.beta.kubernetes.io/zone", "a b", "", "-a", "A/b/c", long}
	keysByField = map[string][]string{
		"Limits": resourceNames, "Requests": resourceNames, "Capacity": resourceNames, "Allocatable": resourceNames, "Overhead": resourceNames, "AllocatedResources": resourceNames,
		"Hard": resourceNames, "Used": resourceNames, "Max": resourceNames, "Min": resourceNames, "Default": resourceNames, "DefaultRequest": resourceNames,
		"MaxLimitRequestRatio": resourceNames, "PodFixed": resourceNames, "AllocatedResourceStatuses": resourceNames, "Selector": labelKeys,
		"DeprecatedTopology": {"kubernetes.io/hostname", "topology.kubernetes.io/zone", "a b"},
		"Annotations":        annotationsKnown, "Labels": labelKeys, "NodeSelector": labelKeys, "MatchLabels": labelKeys,
		"Data":       {"a", "a.b", ".a", "..", "..a", "a/b", "", ".dockercfg", ".dockerconfigjson", "tls.crt", "tls.key", "ssh-privatekey", "username", "password"},
		"BinaryData": {"a", "a.b", ".a", "..", "a/b", ""}, "StringData": {"a", "a/b", ".dockercfg", ".dockerconfigjson", "tls.crt", "username"},
		"VolumeAttributes": {"a"},
	}
)
