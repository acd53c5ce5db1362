package spec

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/podlife"
)

func TestContainer(t *testing.T) {
	n := newTest(t)
	p := testPod(func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "v"}, {Name: "ro"}}
		c := &p.Spec.Containers[0]
		c.Command, c.Args, c.WorkingDir = []string{"$(A)", "$(NONE)"}, []string{"$$(A)"}, "/w"
		c.Env = []v1.EnvVar{{Name: "A", Value: "x"}}
		c.Stdin, c.StdinOnce, c.TTY = true, true, true
		c.Lifecycle = &v1.Lifecycle{StopSignal: ptr(v1.SIGUSR1)}
		c.VolumeMounts = []v1.VolumeMount{
			{Name: "v", MountPath: "rel"}, {Name: "ro", MountPath: "/ro"},
			{Name: "v", MountPath: "/sub", SubPath: "s", ReadOnly: true, MountPropagation: ptr(v1.MountPropagationHostToContainer)},
			{Name: "v", MountPath: "/expr", SubPathExpr: "d/$(A)", ReadOnly: true, RecursiveReadOnly: ptr(v1.RecursiveReadOnlyIfPossible)},
		}
	})
	cfg := n.must(t, p)
	if cfg.Metadata.Name != "a" || cfg.Metadata.Attempt != 3 || cfg.LogPath != "a/3.log" || cfg.WorkingDir != "/w" ||
		cfg.Image.Image != "root" || cfg.Image.UserSpecifiedImage != "busybox" || !cfg.Stdin || !cfg.StdinOnce || !cfg.Tty ||
		cfg.StopSignal != runtimev1.Signal_SIGNAL_SIGUSR1 {
		t.Errorf("config %v", cfg)
	}
	if !slices.Equal(cfg.Command, []string{"x", "$(NONE)"}) || !slices.Equal(cfg.Args, []string{"$(A)"}) {
		t.Errorf("command %q, args %q", cfg.Command, cfg.Args)
	}
	if cfg.Labels["io.kubernetes.container.name"] != "a" || cfg.Annotations["io.kubernetes.container.restartCount"] != "3" {
		t.Errorf("labels %v, annotations %v", cfg.Labels, cfg.Annotations)
	}
	want := []*runtimev1.Mount{
		{HostPath: "/volumes/v", ContainerPath: "/rel"},
		{HostPath: "/volumes/ro", ContainerPath: "/ro", Readonly: true},
		{HostPath: "/sub/a/2/v/s", ContainerPath: "/sub", Readonly: true, Propagation: runtimev1.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
		{HostPath: "/sub/a/3/v/d/x", ContainerPath: "/expr", Readonly: true},
	}
	for i, w := range want {
		if got := cfg.Mounts[i]; got.String() != w.String() {
			t.Errorf("mount %d: %v\nwant %v", i, got, w)
		}
	}
	if !hasDir(n.podLogs(p) + "/a") {
		t.Error("the runtime makes no log directory")
	}
}

func TestStopSignal(t *testing.T) {
	for signal, want := range map[v1.Signal]runtimev1.Signal{
		v1.SIGTERM: runtimev1.Signal_SIGNAL_SIGTERM, "SIGRTMIN+3": runtimev1.Signal_SIGNAL_SIGRTMINPLUS3,
		"SIGRTMAX-1": runtimev1.Signal_SIGNAL_SIGRTMAXMINUS1,
	} {
		if got := stopSignal(&v1.Container{Lifecycle: &v1.Lifecycle{StopSignal: &signal}}); got != want {
			t.Errorf("%s is %s", signal, got)
		}
	}
	if got := stopSignal(&v1.Container{}); got != 0 {
		t.Errorf("none is %s", got)
	}
}

func hasDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func TestTerminationMessageFile(t *testing.T) {
	n := newTest(t)
	p := testPod()
	p.Spec.Containers[0].TerminationMessagePath = "msg"
	cfg := n.must(t, p)
	m := cfg.Mounts[len(cfg.Mounts)-1]
	if m.ContainerPath != "/msg" || cfg.Annotations["podo.dev/termination-message-host-path"] != m.HostPath {
		t.Fatalf("mount %v, annotations %v", m, cfg.Annotations)
	}
	info, err := os.Stat(m.HostPath)
	if err != nil || info.Mode() != 0o666 {
		t.Errorf("mode %v, %v: whoever the container runs as may write", info.Mode(), err)
	}
	if err := os.WriteFile(m.HostPath, []byte("of a failed attempt"), 0o666); err != nil {
		t.Fatal(err)
	}
	again := n.must(t, p)
	if b, err := os.ReadFile(again.Mounts[len(again.Mounts)-1].HostPath); err != nil || len(b) != 0 {
		t.Errorf("a new instance finds %q, %v", b, err)
	}
	p.Spec.Containers[0].TerminationMessagePath = ""
	if cfg := n.must(t, p); len(cfg.Mounts) != 1 {
		t.Errorf("mounts %v", cfg.Mounts)
	}
}

func envOf(cfg *runtimev1.ContainerConfig) string {
	var out []string
	for _, kv := range cfg.Envs {
		out = append(out, kv.Key+"="+string(kv.Value))
	}
	return strings.Join(out, "\n")
}

// C21
func TestExpansionInEnv(t *testing.T) {
	n := newTest(t)
	cfg := n.must(t, testPod(func(p *v1.Pod) {
		p.Spec.Containers[0].Env = []v1.EnvVar{
			{Name: "A", Value: "x"}, {Name: "B", Value: "$(A)-$(Z)"}, {Name: "C", Value: "$(D)"}, {Name: "D", Value: "y"},
			{Name: "E", Value: "$$(A) $$ $$$$"},
		}
	}))
	if got, want := envOf(cfg), "A=x\nB=x-$(Z)\nC=$(D)\nD=y\nE=$(A) $ $$"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "x", "B": "$(A)", "": "empty", "a b": "blank"}
	lookup := func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "x", "$(B)": "$(A)", "a$(A)b$(A)": "axbx", "$(Z)": "$(Z)", "$": "$", "$$": "$", "$$$": "$$",
		"$(": "$(", "$(A": "$(A", "$()": "empty", "$(a b)": "blank", "$A": "$A", "$$(A)": "$(A)", "$$$(A)": "$x", "$(A$(A))": "$(A$(A))", ")$(A)": ")x",
	} {
		if got := expand(in, lookup); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Doubling every $ keeps any text from being expanded.
func TestDoublingEscapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune("$()Ax"))).Draw(t, "s")
		got := expand(strings.ReplaceAll(s, "$", "$$"), func(string) (string, bool) { return "!", true })
		if got != s {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

func TestEnvSources(t *testing.T) {
	n := newTest(t)
	cm := func(name string, optional *bool) *v1.ConfigMapEnvSource {
		return &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: optional}
	}
	cmKey := func(name, key string, optional *bool) *v1.EnvVarSource {
		return &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	sKey := func(name, key string, optional *bool) *v1.EnvVarSource {
		return &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	cfg := n.must(t, testPod(func(p *v1.Pod) {
		c := &p.Spec.Containers[0]
		c.EnvFrom = []v1.EnvFromSource{
			{Prefix: "P_", ConfigMapRef: cm("c", nil)}, {ConfigMapRef: cm("none", ptr(true))},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "s"}}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: ptr(true)}},
		}
		c.Resources.Limits = v1.ResourceList{"memory": resource.MustParse("64Mi")}
		c.Env = []v1.EnvVar{
			{Name: "k", Value: "overrides $(P_k)"},
			{Name: "CM", ValueFrom: cmKey("c", "k", nil)}, {Name: "S", ValueFrom: sKey("s", "k", nil)},
			{Name: "O1", ValueFrom: cmKey("none", "k", ptr(true))}, {Name: "O2", ValueFrom: cmKey("c", "none", ptr(true))},
			{Name: "O3", ValueFrom: sKey("none", "k", ptr(true))}, {Name: "O4", ValueFrom: sKey("s", "none", ptr(true))},
			{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "HOST", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"}}},
			{Name: "MEM", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}},
			{Name: "EMPTY"},
		}
	}))
	want := "P_k=v\nP_not an identifier=x\nk=overrides v\nCM=v\nS=secret\nIP=10.1.0.2\nHOST=192.0.2.1\nMEM=64\nEMPTY="
	if got := envOf(cfg); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, tc := range []struct {
		change func(*v1.Container)
		want   string
	}{
		{func(c *v1.Container) { c.EnvFrom = []v1.EnvFromSource{{ConfigMapRef: cm("x", nil)}} }, `configmap "x" not found`},
		{func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", ValueFrom: cmKey("x", "k", nil)}} }, `configmap "x" not found`},
		{func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", ValueFrom: sKey("x", "k", ptr(false))}} }, `secret "x" not found`},
		{func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", ValueFrom: cmKey("c", "z", nil)}} }, "couldn't find key z in ConfigMap ns/c"},
		{func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", ValueFrom: sKey("s", "z", nil)}} }, "couldn't find key z in Secret ns/s"},
	} {
		_, err := n.of(testPod(func(p *v1.Pod) { tc.change(&p.Spec.Containers[0]) }))
		var f *podlife.Failure
		if !errors.As(err, &f) || f.Reason != "CreateContainerConfigError" || f.Message != tc.want {
			t.Errorf("%#v, want %s", err, tc.want)
		}
	}
}

func TestMountFailures(t *testing.T) {
	n := newTest(t)
	for _, tc := range []struct {
		mount v1.VolumeMount
		want  string
	}{
		{v1.VolumeMount{Name: "none"}, `cannot find volume "none" to mount into container "a"`},
		{v1.VolumeMount{Name: "v", SubPath: "/abs"}, "error SubPath `/abs` must not be an absolute path"},
		{v1.VolumeMount{Name: "v", SubPath: "a/../b"}, "unable to provision SubPath `a/../b`: must not contain '..'"},
		{v1.VolumeMount{Name: "v", SubPathExpr: "$(Z)/$(A)/$(EMPTY)"}, "missing value for EMPTY, Z"},
		{v1.VolumeMount{Name: "v", SubPathExpr: "$(UP)"}, "unable to provision SubPath `..`: must not contain '..'"},
		{v1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: ptr(v1.RecursiveReadOnlyEnabled)}, "failed to resolve recursive read-only mode: not supported by the runtime"},
	} {
		_, err := n.of(testPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v"}}
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "x"}, {Name: "EMPTY"}, {Name: "UP", Value: ".."}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{tc.mount}
		}))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%+v: %v, want %s", tc.mount, err, tc.want)
		}
	}
}

func TestUsers(t *testing.T) {
	n := newTest(t)
	type want struct {
		uid  int64 // -1: not set
		name string
		err  string
	}
	for _, tc := range []struct {
		image     string
		pod       *v1.PodSecurityContext
		container *v1.SecurityContext
		want      want
	}{
		{"numeric", nil, nil, want{uid: -1}},
		{"root", &v1.PodSecurityContext{RunAsUser: ptr(int64(5))}, nil, want{uid: 5}},
		{"root", &v1.PodSecurityContext{RunAsUser: ptr(int64(5))}, &v1.SecurityContext{RunAsUser: ptr(int64(6))}, want{uid: 6}},
		{"root", &v1.PodSecurityContext{RunAsGroup: ptr(int64(5))}, nil, want{uid: 0}},
		{"named", &v1.PodSecurityContext{RunAsGroup: ptr(int64(5))}, nil, want{uid: -1, name: "nobody"}},
		{"numeric", &v1.PodSecurityContext{RunAsNonRoot: ptr(true)}, nil, want{uid: 1000}},
		{"root", &v1.PodSecurityContext{RunAsNonRoot: ptr(true)}, &v1.SecurityContext{RunAsNonRoot: ptr(false)}, want{uid: -1}},
		{
			"root", &v1.PodSecurityContext{RunAsNonRoot: ptr(true)}, &v1.SecurityContext{RunAsUser: ptr(int64(0))},
			want{err: `container's runAsUser breaks non-root policy (pod: "p_ns(u1)", container: a)`},
		},
		{
			"root", &v1.PodSecurityContext{RunAsNonRoot: ptr(true)}, nil,
			want{err: `container has runAsNonRoot and image will run as root (pod: "p_ns(u1)", container: a)`},
		},
		{
			"zero", nil, &v1.SecurityContext{RunAsNonRoot: ptr(true)},
			want{err: `container has runAsNonRoot and image will run as root (pod: "p_ns(u1)", container: a)`},
		},
		{
			"named", nil, &v1.SecurityContext{RunAsNonRoot: ptr(true)},
			want{err: `container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is non-root (pod: "p_ns(u1)", container: a)`},
		},
	} {
		p := testPod(func(p *v1.Pod) {
			p.Spec.SecurityContext, p.Spec.Containers[0].SecurityContext = tc.pod, tc.container
		})
		sc, err := n.security(t.Context(), p, &p.Spec.Containers[0], tc.image)
		if tc.want.err != "" || err != nil {
			if err == nil || err.Error() != tc.want.err {
				t.Errorf("%s: %v, want %s", tc.image, err, tc.want.err)
			}
			continue
		}
		uid := int64(-1)
		if sc.RunAsUser != nil {
			uid = sc.RunAsUser.Value
		}
		if uid != tc.want.uid || sc.RunAsUsername != tc.want.name {
			t.Errorf("%s %v %v: user %d %q, want %+v", tc.image, tc.pod, tc.container, uid, sc.RunAsUsername, tc.want)
		}
	}
}

func TestSecurity(t *testing.T) {
	n := newTest(t)
	if err := n.host.WriteFile("/sys/devices/system/cpu/cpu1/thermal_throttle/x", ""); err != nil {
		t.Fatal(err)
	}
	n = &testNode{Builder: must(New(n.c))}
	p := testPod()
	sc := n.must(t, p).Linux.SecurityContext
	if sc.Seccomp.ProfileType != runtimev1.SecurityProfile_Unconfined || sc.NoNewPrivs || sc.Privileged || sc.ReadonlyRootfs ||
		sc.Capabilities != nil || sc.Apparmor != nil || !slices.Contains(sc.MaskedPaths, "/proc/kcore") ||
		!slices.Contains(sc.MaskedPaths, "/sys/devices/system/cpu/cpu1/thermal_throttle") || !slices.Contains(sc.ReadonlyPaths, "/proc/sys") {
		t.Errorf("defaults %v", sc)
	}
	p.Spec.SecurityContext = &v1.PodSecurityContext{
		SeccompProfile:  &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}, FSGroup: ptr(int64(7)),
		SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyStrict),
	}
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
		Privileged: ptr(true), ReadOnlyRootFilesystem: ptr(true), AllowPrivilegeEscalation: ptr(false), ProcMount: ptr(v1.UnmaskedProcMount),
		Capabilities:   &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("x.json")},
		SELinuxOptions: &v1.SELinuxOptions{Level: "s0"},
	}
	sc = n.must(t, p).Linux.SecurityContext
	if sc.Seccomp.LocalhostRef != "/seccomp/x.json" || sc.Apparmor.ProfileType != runtimev1.SecurityProfile_Unconfined || !sc.NoNewPrivs ||
		!sc.Privileged || !sc.ReadonlyRootfs || sc.MaskedPaths != nil || sc.ReadonlyPaths != nil || sc.SelinuxOptions.Level != "s0" ||
		!slices.Equal(sc.Capabilities.AddCapabilities, []string{"NET_ADMIN"}) || !slices.Equal(sc.Capabilities.DropCapabilities, []string{"ALL"}) ||
		!slices.Equal(sc.SupplementalGroups, []int64{7}) || sc.SupplementalGroupsPolicy != runtimev1.SupplementalGroupsPolicy_Strict {
		t.Errorf("set %v", sc)
	}
	p.Spec.Containers[0].SecurityContext = nil
	if sc := n.must(t, p).Linux.SecurityContext; sc.Seccomp.ProfileType != runtimev1.SecurityProfile_RuntimeDefault {
		t.Errorf("the pod's profile: %v", sc.Seccomp)
	}
	n = newTest(t, func(c *Config) { c.SeccompDefault = true })
	if sc := n.must(t, testPod()).Linux.SecurityContext; sc.Seccomp.ProfileType != runtimev1.SecurityProfile_RuntimeDefault {
		t.Errorf("the node's default: %v", sc.Seccomp)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestResources(t *testing.T) {
	n := newTest(t)
	p := testPod(func(p *v1.Pod) {
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{
			Requests: v1.ResourceList{"memory": resource.MustParse("1Gi")},
			Limits:   v1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("2Gi"), "hugepages-2Mi": resource.MustParse("4Mi")},
		}
	})
	r := n.Resources(p, &p.Spec.Containers[0])
	if r.CpuShares != 1536 || r.CpuPeriod != 100_000 || r.CpuQuota != 150_000 || r.MemoryLimitInBytes != 2<<30 || r.OomScoreAdj != 900 ||
		len(r.HugepageLimits) != 1 || r.HugepageLimits[0].PageSize != "2MB" || r.HugepageLimits[0].Limit != 4<<20 || r.Unified != nil || r.MemorySwapLimitInBytes != 0 {
		t.Errorf("resources %v", r)
	}
	r = newTest(t, func(c *Config) { c.SwapLimited, c.NoCPUQuota = true, true }).Resources(p, &p.Spec.Containers[0])
	if r.CpuQuota != 0 || r.CpuPeriod != 0 || r.MemorySwapLimitInBytes != 2<<30 {
		t.Errorf("v1 without quotas %v", r)
	}
	r = newTest(t, func(c *Config) { c.SwapLimited, c.CgroupV2 = true, true }).Resources(p, &p.Spec.Containers[0])
	if r.Unified["memory.oom.group"] != "1" || r.Unified["memory.swap.max"] != "0" || r.MemorySwapLimitInBytes != 0 {
		t.Errorf("v2 %v", r)
	}
}

func TestOOMScore(t *testing.T) {
	gi := func(n string) v1.ResourceList {
		return v1.ResourceList{"memory": resource.MustParse(n), "cpu": resource.MustParse("1")}
	}
	requests := func(n string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = gi(n) }
	}
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want int64
	}{
		{"best effort", testPod(), 1000},
		{"guaranteed", testPod(func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = gi("1Gi") }), -997},
		{"a tenth of the node", testPod(requests("1Gi")), 900},
		{"all of the node", testPod(requests("10Gi")), 3},
		{"almost nothing", testPod(requests("1Ki")), 999},
		{"critical", testPod(requests("1Gi"), func(p *v1.Pod) {
			p.Spec.Priority, p.Spec.PriorityClassName = ptr(int32(2000001000)), "system-node-critical"
		}), -997},
		{"the pod's request is shared", testPod(requests("1Gi"), func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "b"})
			p.Spec.Resources = &v1.ResourceRequirements{Requests: gi("5Gi")}
		}), 700},
	} {
		if got := oomScore(tc.pod, &tc.pod.Spec.Containers[0], 10<<30); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	sidecar := testPod(requests("2Gi"), func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways)}}
	})
	if got := oomScore(sidecar, &sidecar.Spec.InitContainers[0], 10<<30); got != 800 {
		t.Errorf("a sidecar goes no sooner than what it serves: %d, want 800", got)
	}
}
