package spec

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
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
			{Name: "v", MountPath: "rel"},
			{Name: "ro", MountPath: "/ro"},
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
		{v1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: ptr(v1.RecursiveReadOnlyEnabled)}, `failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not supported by the runtime`},
		{v1.VolumeMount{Name: "v", RecursiveReadOnly: ptr(v1.RecursiveReadOnlyIfPossible)}, `failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not read-only`},
		{
			v1.VolumeMount{Name: "v", ReadOnly: true, RecursiveReadOnly: ptr(v1.RecursiveReadOnlyIfPossible), MountPropagation: ptr(v1.MountPropagationHostToContainer)},
			`failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not compatible with propagation "HostToContainer"`,
		},
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

// kubernetes/kubernetes#60341: what is mounted below another volume has a place there, what is below that one a place in that one alone.
func TestNestedMounts(t *testing.T) {
	n := newTest(t)
	n.must(t, testPod(func(p *v1.Pod) {
		for _, name := range []string{"conf", "more", "data", "cut"} {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name})
		}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
			{Name: "data", MountPath: "/conf/x/more/data"},
			{Name: "conf", MountPath: "/conf/x/"},
			{Name: "cut", MountPath: "/conf/x-y", SubPath: "s"},
			{Name: "more", MountPath: "/conf/x/more"},
			{Name: "data", MountPath: "/conf/x-y/data"},
			{Name: "cut", MountPath: "/conf/x/file", SubPath: "s"},
			{Name: "conf", MountPath: "/dev"},
		}
	}))
	want := []string{"conf|more|/volumes/more", "conf|file|/sub/a/5/cut/s", "more|data|/volumes/data", "conf|termination-log|*"}
	for i := range n.places {
		if strings.HasPrefix(n.places[i], "conf|termination-log|/") {
			n.places[i] = "conf|termination-log|*"
		}
	}
	if !slices.Equal(n.places, want) {
		t.Errorf("got %q\nwant %q", n.places, want)
	}
}

// The image of a volume is had for the pod, and not as the image of the container that mounts it: its events are the pod's.
func TestAMountedImageIsThePods(t *testing.T) {
	var as []*v1.Container
	n := newTest(t, func(c *Config) {
		c.Volume = func(_ context.Context, _ *v1.Pod, c *v1.Container, _ *runtimev1.PodSandboxConfig) (string, error) {
			as = append(as, c)
			return "whole/" + c.Image, nil
		}
	})
	c := n.must(t, testPod(func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "i", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "img", PullPolicy: v1.PullNever}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "i", MountPath: "/i"}}
	}))
	if len(as) != 1 || as[0].Name != "" || as[0].Image != "img" || as[0].ImagePullPolicy != v1.PullNever {
		t.Fatalf("it was had as %+v", as)
	}
	if m := c.Mounts[0]; m.Image.GetImage() != "whole/img" || m.ContainerPath != "/i" {
		t.Errorf("%+v", m)
	}
}
