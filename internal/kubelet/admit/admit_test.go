package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/worker"
)

func ptr[T any](v T) *T { return &v }

func testNode() *v1.Node {
	n := &v1.Node{}
	n.Name, n.Labels = "n1", map[string]string{"kubernetes.io/os": "linux", "disk": "ssd"}
	n.Status.Allocatable = v1.ResourceList{
		"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"), "ephemeral-storage": resource.MustParse("10Gi"),
		"pods": resource.MustParse("3"), "example.com/gpu": resource.MustParse("1"),
	}
	return n
}

func testPod(uid string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{}
	p.UID, p.Spec.NodeName = types.UID(uid), "n1"
	p.Spec.Containers = []v1.Container{{Name: "a"}}
	for _, c := range change {
		c(p)
	}
	return p
}

func asks(name, q string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceName(name): resource.MustParse(q)}
	}
}

func port(ip string, protocol v1.Protocol, n int32) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{HostIP: ip, HostPort: n, Protocol: protocol})
	}
}

func sysctl(name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
	}
}

func TestCheck(t *testing.T) {
	tainted := testNode()
	tainted.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}, {Key: "s", Effect: v1.TaintEffectNoSchedule}}
	rules := Rules{
		OS: "linux", UnsafeSysctls: []string{"net.core.somaxconn", "kernel.msg*"},
		Own: []Listener{{"127.0.0.1", 6443}, {"10.0.0.1", 6443}, {"0.0.0.0", 10250}},
	}
	const noPorts = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
	for _, tc := range []struct {
		name   string
		pod    *v1.Pod
		node   *v1.Node
		others []*v1.Pod
		want   worker.Rejection // zero: admitted
	}{
		{name: "asks for nothing", pod: testPod("1")},
		{
			name: "C23: more cpu than there is", pod: testPod("1", asks("cpu", "2")), others: []*v1.Pod{testPod("2", asks("cpu", "100m"))},
			want: worker.Rejection{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 2000, used: 100, capacity: 1000"},
		},
		{name: "all that is left", pod: testPod("1", asks("cpu", "900m")), others: []*v1.Pod{testPod("2", asks("cpu", "100m"))}},
		{name: "does not count itself", pod: testPod("1", asks("cpu", "900m")), others: []*v1.Pod{testPod("1", asks("cpu", "900m"))}},
		{
			name: "memory in bytes", pod: testPod("1", asks("memory", "2Gi")),
			want: worker.Rejection{Reason: "OutOfmemory", Message: "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"},
		},
		{
			name: "storage", pod: testPod("1", asks("ephemeral-storage", "11Gi")),
			want: worker.Rejection{Reason: "OutOfephemeral-storage", Message: "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"},
		},
		{
			name: "pods", pod: testPod("1"), others: []*v1.Pod{testPod("2"), testPod("3"), testPod("4")},
			want: worker.Rejection{Reason: "OutOfpods", Message: "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		},
		{
			name: "a device", pod: testPod("1", asks("example.com/gpu", "1")), others: []*v1.Pod{testPod("2", asks("example.com/gpu", "1"))},
			want: worker.Rejection{Reason: "OutOfexample.com/gpu", Message: "Node didn't have enough resource: example.com/gpu, requested: 1, used: 1, capacity: 1"},
		},
		{name: "a device the node does not know", pod: testPod("1", asks("example.com/fpga", "1"))},
		{
			name: "huge pages the node has none of", pod: testPod("1", asks("hugepages-2Mi", "2Mi")),
			want: worker.Rejection{Reason: "OutOfhugepages-2Mi", Message: "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0"},
		},
		{name: "selector matches", pod: testPod("1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })},
		{
			name: "selector", pod: testPod("1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }),
			want: worker.Rejection{Reason: "NodeAffinity", Message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
		},
		{
			name: "another node's", pod: testPod("1", func(p *v1.Pod) { p.Spec.NodeName = "n2" }),
			want: worker.Rejection{Reason: "NodeName", Message: "Predicate NodeName failed: node(s) didn't match the requested node name"},
		},
		{
			name: "same port", pod: testPod("1", port("", "", 80)), others: []*v1.Pod{testPod("2", port("10.0.0.1", v1.ProtocolTCP, 80))},
			want: worker.Rejection{Reason: "NodePorts", Message: noPorts},
		},
		{name: "the API server's port", pod: testPod("1", port("", "", 6443)), want: worker.Rejection{Reason: "NodePorts", Message: noPorts}},
		{name: "the kubelet's port on one address", pod: testPod("1", port("10.0.0.2", "", 10250)), want: worker.Rejection{Reason: "NodePorts", Message: noPorts}},
		{name: "the API server's port on another address", pod: testPod("1", port("10.0.0.2", "", 6443))},
		{name: "the API server's number with another protocol", pod: testPod("1", port("", v1.ProtocolUDP, 6443))},
		{name: "on the host's network", pod: testPod("1", port("", "", 6443), func(p *v1.Pod) { p.Spec.HostNetwork = true })},
		{name: "other protocol", pod: testPod("1", port("", v1.ProtocolUDP, 80)), others: []*v1.Pod{testPod("2", port("", v1.ProtocolTCP, 80))}},
		{name: "other address", pod: testPod("1", port("10.0.0.2", "", 80)), others: []*v1.Pod{testPod("2", port("10.0.0.1", "", 80))}},
		{name: "an init container's port", pod: testPod("1", port("", "", 80)), others: []*v1.Pod{testPod("2", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Ports: []v1.ContainerPort{{HostPort: 80}}}}
		})}},
		{
			name: "a sidecar's port", pod: testPod("1", port("", "", 80)), others: []*v1.Pod{testPod("2", func(p *v1.Pod) {
				p.Spec.InitContainers = []v1.Container{{RestartPolicy: ptr(v1.ContainerRestartPolicyAlways), Ports: []v1.ContainerPort{{HostPort: 80}}}}
			})},
			want: worker.Rejection{Reason: "NodePorts", Message: noPorts},
		},
		{
			name: "untolerated", pod: testPod("1"), node: tainted,
			want: worker.Rejection{Reason: "TaintToleration", Message: "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"},
		},
		{name: "tolerated", node: tainted, pod: testPod("1", func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}} })},
		{name: "static pods run on tainted nodes", node: tainted, pod: testPod("1", func(p *v1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		})},
		{
			name: "os", pod: testPod("1", func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }),
			want: worker.Rejection{Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS"},
		},
		{name: "safe sysctl, written with slashes", pod: testPod("1", sysctl("net/ipv4/tcp_syncookies"))},
		{name: "allowed by name", pod: testPod("1", sysctl("net.core.somaxconn"))},
		{name: "allowed by prefix", pod: testPod("1", sysctl("kernel.msgmax"))},
		{
			name: "unsafe sysctl", pod: testPod("1", sysctl("kernel.sem")),
			want: worker.Rejection{Reason: "SysctlForbidden", Message: `forbidden sysctl: "kernel.sem" not allowlisted`},
		},
		{
			name: "the host's network", pod: testPod("1", sysctl("net.core.somaxconn"), func(p *v1.Pod) { p.Spec.HostNetwork = true }),
			want: worker.Rejection{Reason: "SysctlForbidden", Message: `forbidden sysctl: "net.core.somaxconn" not allowed with host net enabled`},
		},
		{
			name: "AppArmor", pod: testPod("1", func(p *v1.Pod) {
				p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
			}),
			want: worker.Rejection{Reason: "AppArmor", Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		},
		{
			name: "strict groups", pod: testPod("1", func(p *v1.Pod) {
				p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyStrict)}
			}),
			want: worker.Rejection{Reason: "SupplementalGroupsPolicyNotSupported", Message: "SupplementalGroupsPolicy=Strict is not supported in this node"},
		},
	} {
		node := tc.node
		if node == nil {
			node = testNode()
		}
		got := worker.Rejection{}
		if r := (Checker{Node: func() *v1.Node { return node }, Rules: rules}).Admit(tc.pod, tc.others); r != nil {
			got = *r
		}
		if got.Reason != tc.want.Reason || got.Message != tc.want.Message || got.Victims != nil {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.name, got, tc.want)
		}
	}
}

func TestNoNodeYet(t *testing.T) {
	r := Checker{Node: func() *v1.Node { return nil }}.Admit(testPod("1"), nil)
	if r == nil || r.Reason != "InvalidNodeInfo" {
		t.Errorf("Admit = %+v", r)
	}
}

// All pods of a node are looked at whenever one begins, so that what is made for each is made as often as their number squared.
func TestOthersAreNotAddedUpForNothing(t *testing.T) {
	node, others := testNode(), make([]*v1.Pod, 100)
	node.Status.Allocatable["pods"] = resource.MustParse("110")
	for i := range others {
		others[i] = testPod("other", asks("cpu", "1m"))
	}
	alone := testing.AllocsPerRun(10, func() { resources(testPod("1"), node, others[:1]) })
	if among := testing.AllocsPerRun(10, func() { resources(testPod("1"), node, others) }); among > alone {
		t.Errorf("%v allocations among 100 pods, %v beside one", among, alone)
	}
}
