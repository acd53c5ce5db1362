package spec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/host/fake"
	"podo.dev/podo/internal/kubelet/worker"
)

func TestSandbox(t *testing.T) {
	n := newTest(t)
	p := testPod(func(p *v1.Pod) {
		p.Spec.ShareProcessNamespace = ptr(true)
		p.Spec.SecurityContext = &v1.PodSecurityContext{
			RunAsUser: ptr(int64(1000)), RunAsGroup: ptr(int64(2000)), FSGroup: ptr(int64(3000)), SupplementalGroups: []int64{4000},
			Sysctls: []v1.Sysctl{{Name: "net/ipv4/tcp_syncookies", Value: "0"}},
		}
		p.Spec.Containers[0].Ports = []v1.ContainerPort{
			{ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1", Protocol: v1.ProtocolTCP}, {ContainerPort: 53, HostPort: 53, Protocol: v1.ProtocolUDP},
		}
		p.Spec.InitContainers = []v1.Container{
			{Name: "i", Ports: []v1.ContainerPort{{ContainerPort: 1, HostPort: 1}}},
			{Name: "s", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways), Ports: []v1.ContainerPort{{ContainerPort: 2, HostPort: 2, Protocol: v1.ProtocolSCTP}}},
		}
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("64Mi")}
	})
	cfg, err := n.Sandbox(p, 2, "/podo/kubepods/podu1")
	if err != nil {
		t.Fatal(err)
	}
	if m := cfg.Metadata; m.Name != "p" || m.Namespace != "ns" || m.Uid != "u1" || m.Attempt != 2 || cfg.Hostname != "p" {
		t.Errorf("metadata %v, host name %s", m, cfg.Hostname)
	}
	if cfg.Labels["app"] != "x" || cfg.Labels["io.kubernetes.pod.uid"] != "u1" || cfg.Annotations["note"] != "y" {
		t.Errorf("labels %v, annotations %v", cfg.Labels, cfg.Annotations)
	}
	if !strings.HasSuffix(cfg.LogDirectory, "/logs/ns_p_u1") {
		t.Errorf("log directory %s", cfg.LogDirectory)
	}
	if _, err := os.Stat(cfg.LogDirectory); err != nil {
		t.Errorf("the runtime makes no log directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(cfg.LogDirectory)), "list/ns_p_u1")); err != nil {
		t.Errorf("nobody knows whose the logs are: %v", err)
	}
	var ports []string
	for _, m := range cfg.PortMappings {
		ports = append(ports, strings.Join([]string{m.HostIp, m.Protocol.String(), resource.NewQuantity(int64(m.HostPort), "").String(), resource.NewQuantity(int64(m.ContainerPort), "").String()}, ":"))
	}
	if want := []string{":SCTP:2:2", "127.0.0.1:TCP:8080:80", ":UDP:53:53"}; !slices.Equal(ports, want) {
		t.Errorf("ports %v, want %v", ports, want)
	}
	l := cfg.Linux
	if l.CgroupParent != "/podo/kubepods/podu1" || l.Sysctls["net.ipv4.tcp_syncookies"] != "0" {
		t.Errorf("linux %v", l)
	}
	s := l.SecurityContext
	if s.RunAsUser.Value != 1000 || s.RunAsGroup.Value != 2000 || !slices.Equal(s.SupplementalGroups, []int64{3000, 4000}) ||
		s.Seccomp.ProfileType != runtimev1.SecurityProfile_RuntimeDefault || s.Privileged ||
		s.NamespaceOptions.Pid != runtimev1.NamespaceMode_POD || s.NamespaceOptions.Network != runtimev1.NamespaceMode_POD {
		t.Errorf("security %v", s)
	}
	if l.Resources.CpuQuota != 50_000 || l.Resources.MemoryLimitInBytes != 64<<20 {
		t.Errorf("resources %v", l.Resources)
	}
}

// A sandbox's own process has the profile that the node has for it, whatever the pod asks for.
func TestSandboxSeccomp(t *testing.T) {
	n := newTest(t)
	n.c.SandboxSeccomp = "/data/pause.json"
	cfg, err := n.Sandbox(testPod(func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}}
	}), 0, "/x")
	if err != nil {
		t.Fatal(err)
	}
	if s := cfg.Linux.SecurityContext.Seccomp; s.ProfileType != runtimev1.SecurityProfile_Localhost || s.LocalhostRef != "/data/pause.json" {
		t.Errorf("seccomp %v", s)
	}
}

func TestHostNamespaces(t *testing.T) {
	n := newTest(t)
	p := testPod(func(p *v1.Pod) {
		p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.HostIPC = true, true, true
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: ptr(true)}
		p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: ptr(int64(1))}
	})
	cfg, err := n.Sandbox(p, 0, "/x")
	if err != nil {
		t.Fatal(err)
	}
	ns := cfg.Linux.SecurityContext.NamespaceOptions
	node := runtimev1.NamespaceMode_NODE
	if ns.Network != node || ns.Pid != node || ns.Ipc != node || !cfg.Linux.SecurityContext.Privileged || cfg.Hostname != "" {
		t.Errorf("%v, host name %q", cfg.Linux.SecurityContext, cfg.Hostname)
	}
	if cfg.Linux.SecurityContext.RunAsGroup != nil {
		t.Error("a group without a user, which the runtime refuses")
	}
	if !slices.Equal(cfg.DnsConfig.Servers, []string{"10.0.0.53"}) || len(n.events) != 0 {
		t.Errorf("ClusterFirst on the host's network is Default: %v, %v", cfg.DnsConfig, n.events)
	}
	p.Spec.HostUsers = ptr(false)
	if _, err := n.Sandbox(p, 0, "/x"); err == nil {
		t.Error("user namespaces were promised")
	}
}

func TestHostname(t *testing.T) {
	n := newTest(t, func(c *Config) { c.DNS.Domain = "cluster.local" })
	long := strings.Repeat("a", 62) + "-bcd"
	for _, tc := range []struct {
		name   string
		change func(*v1.Pod)
		want   string // or a part of the error
		domain string
	}{
		{"the pod's name", func(*v1.Pod) {}, "p", ""},
		{"its own", func(p *v1.Pod) { p.Spec.Hostname = "h" }, "h", ""},
		{"too long", func(p *v1.Pod) { p.Name = long }, strings.Repeat("a", 62), ""},
		{"in a subdomain", func(p *v1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "s" }, "h", "s.ns.svc.cluster.local"},
		{"as FQDN", func(p *v1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "s", ptr(true) }, "p.s.ns.svc.cluster.local", "s.ns.svc.cluster.local"},
		{"FQDN too long", func(p *v1.Pod) {
			p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("s", 60), ptr(true)
		}, "is too long (64 characters is the max, 83 characters requested)", strings.Repeat("s", 60) + ".ns.svc.cluster.local"},
		{"overridden", func(p *v1.Pod) { p.Spec.HostnameOverride, p.Spec.Subdomain = ptr("a.b"), "s" }, "a.b", ""},
		{"no name", func(p *v1.Pod) { p.Spec.Hostname = "A_" }, `pod Hostname "A_" is not a valid DNS label`, ""},
	} {
		p := testPod(tc.change)
		got, err := n.kernelHostname(p)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want && !(err != nil && strings.Contains(got, tc.want)) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if _, domain, err := n.hostname(p); err == nil && domain != tc.domain {
			t.Errorf("%s: domain %q, want %q", tc.name, domain, tc.domain)
		}
	}
}

func TestDNS(t *testing.T) {
	cluster := DNS{Cluster: []string{"10.96.0.10"}, Domain: "cluster.local"}
	own := &v1.PodDNSConfig{
		Nameservers: []string{"1.1.1.1", "10.96.0.10"}, Searches: []string{"my.example", "cluster.local"},
		Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr("2")}, {Name: "edns0"}},
	}
	for _, tc := range []struct {
		name   string
		dns    DNS
		change func(*v1.Pod)
		want   string // servers | searches | options
	}{
		{"Default", cluster, func(p *v1.Pod) { p.Spec.DNSPolicy = v1.DNSDefault }, "10.0.0.53|corp.example|timeout:1 rotate"},
		{"ClusterFirst", cluster, func(*v1.Pod) {}, "10.96.0.10|ns.svc.cluster.local svc.cluster.local cluster.local corp.example|ndots:5"},
		{"ClusterFirst without a cluster's", DNS{}, func(*v1.Pod) {}, "10.0.0.53|corp.example|timeout:1 rotate"},
		{"ClusterFirst on the host's network", cluster, func(p *v1.Pod) { p.Spec.HostNetwork = true }, "10.0.0.53|corp.example|timeout:1 rotate"},
		{"ClusterFirstWithHostNet", cluster, func(p *v1.Pod) {
			p.Spec.HostNetwork, p.Spec.DNSPolicy = true, v1.DNSClusterFirstWithHostNet
		}, "10.96.0.10|ns.svc.cluster.local svc.cluster.local cluster.local corp.example|ndots:5"},
		{"Default where resolvConf is empty", DNS{Off: true}, func(p *v1.Pod) { p.Spec.DNSPolicy = v1.DNSDefault }, "127.0.0.1|.|"},
		{"ClusterFirst without a cluster's where resolvConf is empty", DNS{Off: true}, func(*v1.Pod) {}, "127.0.0.1|.|"},
		{"ClusterFirst where resolvConf is empty", DNS{Off: true, Cluster: cluster.Cluster, Domain: cluster.Domain}, func(*v1.Pod) {}, "10.96.0.10|ns.svc.cluster.local svc.cluster.local cluster.local|ndots:5"},
		{"None", cluster, func(p *v1.Pod) { p.Spec.DNSPolicy, p.Spec.DNSConfig = v1.DNSNone, own }, "1.1.1.1 10.96.0.10|my.example cluster.local|ndots:2 edns0"},
		{"merged", cluster, func(p *v1.Pod) { p.Spec.DNSConfig = own }, "10.96.0.10 1.1.1.1|ns.svc.cluster.local svc.cluster.local cluster.local corp.example my.example|ndots:2 edns0"},
	} {
		n := newTest(t, func(c *Config) { c.DNS = tc.dns })
		cfg, err := n.Sandbox(testPod(tc.change), 0, "")
		if err != nil {
			t.Fatal(err)
		}
		d := cfg.DnsConfig
		got := strings.Join(d.Servers, " ") + "|" + strings.Join(d.Searches, " ") + "|" + strings.Join(d.Options, " ")
		if got != tc.want {
			t.Errorf("%s: %s\nwant %s", tc.name, got, tc.want)
		}
	}
	n := newTest(t)
	for attempt := range uint32(2) {
		if _, err := n.Sandbox(testPod(), attempt, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Sandbox(testPod(func(p *v1.Pod) { p.Name, p.UID = "q", "u2" }), 0, ""); err != nil {
		t.Fatal(err)
	}
	const text = `kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`
	want := []string{
		"node Warning MissingClusterDNS " + text, `Warning MissingClusterDNS pod: "p_ns(u1)". ` + text, `Warning MissingClusterDNS pod: "q_ns(u2)". ` + text,
	}
	if !slices.Equal(n.events, want) {
		t.Errorf("events %q, want each pod's once, and the node's", n.events)
	}
}

// What of a node's resolver configuration pods cannot have is told of the node, in upstream's words.
func TestCheckResolvConf(t *testing.T) {
	domains := func(n, each int) string {
		line := "search"
		for i := range n {
			line += " " + strings.Repeat(string(rune('a'+i%26)), each)
		}
		return line + "\n"
	}
	cluster := DNS{Domain: "cluster.local"}
	for _, tc := range []struct {
		dns        DNS
		conf, want string
	}{
		{cluster, domains(29, 1), ""},
		{cluster, domains(30, 1), "Resolv.conf file '/etc/resolv.conf' contains search line consisting of more than 29 domains!"},
		{DNS{}, domains(32, 1), ""},
		{DNS{}, domains(33, 1), "Resolv.conf file '/etc/resolv.conf' contains search line consisting of more than 32 domains!"},
		{cluster, domains(2, 254), `Resolv.conf file "/etc/resolv.conf" contains a search path which length is more than allowed 253 chars!`},
		{cluster, domains(9, 240), "Resolv.conf file '/etc/resolv.conf' contains search line which length is more than allowed 2048 chars!"},
		{DNS{ResolvConf: "/none"}, "", "no such file or directory"},
		{DNS{Off: true}, domains(33, 1), ""},
	} {
		n := newTest(t, func(c *Config) { c.DNS = tc.dns })
		if err := n.host.WriteFile("/etc/resolv.conf", "nameserver 10.0.0.53\n"+tc.conf); err != nil {
			t.Fatal(err)
		}
		n.CheckResolvConf()
		got := strings.Join(n.events, "\n")
		if tc.want == "" && got != "" || tc.want != "" && (!strings.HasPrefix(got, "node Warning CheckLimitsForResolvConf ") || !strings.HasSuffix(got, tc.want)) {
			t.Errorf("%+v, %d bytes: %q, want %q", tc.dns, len(tc.conf), got, tc.want)
		}
	}
}

// What a host's file may hold, as its resolver reads it. kubernetes/kubernetes#112135: a lone dot is no domain to search.
func TestResolvConf(t *testing.T) {
	for text, want := range map[string]string{
		"nameserver 10.0.0.1 # ours\n; search no\nnameserver\nnameserver fe80::1%eth0\n": "10.0.0.1 fe80::1%eth0||",
		"search a.example. b.example\nsearch c.example.\n":                               "|c.example|",
		"search .\n":           "||",
		"search . a.example\n": "|a.example|",
		"options ndots:1 rotate\n\toptions timeout:2 ndots:3\n": "||ndots:3 rotate timeout:2",
	} {
		c := parseResolvConf(text)
		if got := strings.Join(c.Servers, " ") + "|" + strings.Join(c.Searches, " ") + "|" + strings.Join(c.Options, " "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestDNSLimits(t *testing.T) {
	n := newTest(t)
	p := testPod(func(p *v1.Pod) {
		p.Spec.DNSPolicy = v1.DNSNone
		p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"}}
		for i := range 40 {
			p.Spec.DNSConfig.Searches = append(p.Spec.DNSConfig.Searches, strings.Repeat("a", i+1))
		}
		p.Spec.DNSConfig.Searches[3] = strings.Repeat("b", 254)
	})
	cfg, err := n.Sandbox(p, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.DnsConfig.Servers) != 3 || len(cfg.DnsConfig.Searches) != 31 || len(n.events) != 2 {
		t.Errorf("%d servers, %d searches, events %q", len(cfg.DnsConfig.Servers), len(cfg.DnsConfig.Searches), n.events)
	}
}

func TestStubResolverIsPassedBy(t *testing.T) {
	for _, tc := range []struct{ etc, real, want string }{
		{"nameserver 10.0.0.1\n", "x", "/etc/resolv.conf"},
		{"nameserver 127.0.0.53\noptions edns0\n", "nameserver 10.0.0.1\n", "/run/systemd/resolve/resolv.conf"},
		{"nameserver 127.0.0.53\n", "", "/etc/resolv.conf"},
		{"nameserver 127.0.0.1\nnameserver 10.0.0.1\n", "x", "/etc/resolv.conf"},
		{"# empty\n", "x", "/etc/resolv.conf"},
	} {
		h := fake.New(t.TempDir())
		if err := h.WriteFile("/etc/resolv.conf", tc.etc); err != nil {
			t.Fatal(err)
		}
		if tc.real != "" {
			if err := h.WriteFile("/run/systemd/resolve/resolv.conf", tc.real); err != nil {
				t.Fatal(err)
			}
		}
		if got := ResolvConf(h); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.etc, got, tc.want)
		}
	}
}

func TestHostsFile(t *testing.T) {
	n := newTest(t, func(c *Config) { c.DNS.Domain = "cluster.local" })
	p := testPod(func(p *v1.Pod) {
		p.Spec.Subdomain = "s"
		p.Spec.HostAliases = []v1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"x", "y"}}}
	})
	cfg := n.must(t, p)
	i := slices.IndexFunc(cfg.Mounts, func(m *runtimev1.Mount) bool { return m.ContainerPath == "/etc/hosts" })
	if i < 0 {
		t.Fatal("no /etc/hosts")
	}
	want := "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n10.1.0.2\tp.s.ns.svc.cluster.local\tp\n" +
		"\n# Entries added by HostAliases.\n1.2.3.4\tx\ty\n"
	if b, err := os.ReadFile(cfg.Mounts[i].HostPath); err != nil || string(b) != want {
		t.Errorf("%s\n%v, want\n%s", b, err, want)
	}
	// A container that starts beside one that runs leaves the file alone.
	old := time.Unix(1, 0)
	if err := os.Chtimes(cfg.Mounts[i].HostPath, old, old); err != nil {
		t.Fatal(err)
	}
	n.must(t, p)
	if info, err := os.Stat(cfg.Mounts[i].HostPath); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("written again: %v, %v", info, err)
	}
	// Nor is what a container has made of it read, when that is larger than the machine's memory.
	if err := os.Truncate(cfg.Mounts[i].HostPath, 1<<42); err != nil {
		t.Fatal(err)
	}
	n.must(t, p)
	if b, err := os.ReadFile(cfg.Mounts[i].HostPath); err != nil || string(b) != want {
		t.Errorf("after a container made it large: %d bytes, %v", len(b), err)
	}
	if filepath.Base(filepath.Dir(cfg.Mounts[i].HostPath)) != "u1" {
		t.Errorf("at %s, want in the pod's directory", cfg.Mounts[i].HostPath)
	}

	if err := n.host.WriteFile("/etc/hosts", "127.0.0.1 node\n"); err != nil {
		t.Fatal(err)
	}
	p = testPod(func(p *v1.Pod) { p.Spec.HostNetwork = true })
	cfg = n.must(t, p)
	if b, err := os.ReadFile(cfg.Mounts[0].HostPath); err != nil || string(b) != "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n" {
		t.Errorf("on the host's network: %s, %v", b, err)
	}

	p = testPod(func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "v"}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}}
	})
	cfg = n.must(t, p)
	if len(cfg.Mounts) != 2 || cfg.Mounts[0].HostPath != "/volumes/v" || cfg.Mounts[1].ContainerPath != "/dev/termination-log" {
		t.Errorf("the pod's own /etc/hosts counts: %v", cfg.Mounts)
	}
}

// An ephemeral container may be privileged, in a sandbox that was made before it came.
func TestPrivilegedEphemeralContainer(t *testing.T) {
	n := newTest(t)
	for _, privileged := range []bool{false, true} {
		cfg, err := n.Sandbox(testPod(func(p *v1.Pod) {
			d := v1.EphemeralContainer{}
			d.SecurityContext = &v1.SecurityContext{Privileged: &privileged}
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{d}
		}), 0, "")
		if err != nil || cfg.Linux.SecurityContext.Privileged != privileged {
			t.Errorf("%v: %v, %v", privileged, cfg.GetLinux().GetSecurityContext(), err)
		}
	}
}

// A pod of its own users has them in its sandbox, its containers and what is mounted into them; its RuntimeClass says which handler is asked.
func TestUsersAndHandler(t *testing.T) {
	users := &runtimev1.UserNamespace{Mode: runtimev1.NamespaceMode_POD, Uids: []*runtimev1.IDMapping{{HostId: 65536, Length: 65536}}}
	asked := "-"
	n := newTest(t, func(c *Config) {
		c.Users = func(_ *v1.Pod, handler string) (*runtimev1.UserNamespace, error) { asked = handler; return users, nil }
		c.Handler = func(class string) (string, error) {
			if class != "slow" {
				return "", errors.New("no such class")
			}
			return "vm", nil
		}
	})
	p := testPod()
	for _, own := range []bool{false, true} {
		if own {
			p.Spec.HostUsers = ptr(false)
		}
		cfg, err := n.Sandbox(p, 0, "/x")
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Linux.SecurityContext.NamespaceOptions.UsernsOptions; (got != nil) != own {
			t.Errorf("the sandbox of a pod of its own users (%v): %v", own, got)
		}
		c, err := n.Container(t.Context(), worker.ContainerInput{Pod: p, Container: &p.Spec.Containers[0], ImageRef: "i", PodIPs: []string{"10.0.0.1"}, Sandbox: cfg})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Linux.SecurityContext.NamespaceOptions.UsernsOptions; (got != nil) != own || len(c.Mounts) == 0 {
			t.Errorf("the container of a pod of its own users (%v): %v, %v", own, got, c.Mounts)
		}
		for _, m := range c.Mounts {
			if (len(m.UidMappings) != 0) != own {
				t.Errorf("%v: %s is mapped %v", own, m.ContainerPath, m.UidMappings)
			}
		}
	}
	p.Spec.RuntimeClassName = ptr("slow")
	if h, err := n.Handler(p); h != "vm" || err != nil {
		t.Error(h, err)
	}
	if _, err := n.Sandbox(p, 0, "/x"); err != nil || asked != "vm" {
		t.Error(asked, err)
	}
	p.Spec.RuntimeClassName = ptr("none")
	if _, err := n.Handler(p); err == nil {
		t.Error("a class that is not there")
	}
}
