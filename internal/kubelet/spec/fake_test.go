package spec

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/host/fake"
	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/downward"
	"podo.dev/podo/internal/kubelet/volume"
	"podo.dev/podo/internal/kubelet/worker"
)

func ptr[T any](v T) *T { return &v }

type api struct {
	maps    map[string]*v1.ConfigMap
	secrets map[string]*v1.Secret
}

func (a api) ConfigMap(ns, name string) (*v1.ConfigMap, error) {
	if x := a.maps[ns+"/"+name]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmap"}, name)
}

func (a api) Secret(ns, name string) (*v1.Secret, error) {
	if x := a.secrets[ns+"/"+name]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secret"}, name)
}

// volumes are at /volumes/<name>; those named "ro..." are read-only.
type volumes struct {
	root   string
	places *[]string
}

func (v volumes) Layout() volume.Layout { return volume.Layout{Root: v.root} }

func (v volumes) Path(pod *v1.Pod, name string) (string, bool, error) {
	for _, x := range pod.Spec.Volumes {
		if x.Name == name {
			return "/volumes/" + name, strings.HasPrefix(name, "ro"), nil
		}
	}
	return "", false, fmt.Errorf("no volume %s", name)
}

func (v volumes) Device(_ *v1.Pod, name string) (string, bool, error) {
	return "/dev/" + name, strings.HasPrefix(name, "ro"), nil
}

func (v volumes) SubPath(_ *v1.Pod, container string, index int, volume, sub string) (string, error) {
	return fmt.Sprintf("/sub/%s/%d/%s/%s", container, index, volume, sub), nil
}

func (v volumes) MakePlace(_ *v1.Pod, volume, at, like string) error {
	*v.places = append(*v.places, volume+"|"+at+"|"+like)
	return nil
}

type images map[string]*runtimev1.Image

func (i images) ImageStatus(_ context.Context, image *runtimev1.ImageSpec) (*runtimev1.Image, error) {
	return i[image.Image], nil
}

type testNode struct {
	*Builder
	host   *fake.Host
	events []string
	places []string // what MakePlace was asked for
}

func newTest(t *testing.T, change ...func(*Config)) *testNode {
	t.Helper()
	root := t.TempDir()
	n := &testNode{host: fake.New(filepath.Join(root, "host"))}
	if err := n.host.WriteFile("/etc/resolv.conf", "nameserver 10.0.0.53\nsearch corp.example.\noptions timeout:1 rotate\n"); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Node: "n1", LogDir: filepath.Join(root, "logs"), LogList: filepath.Join(root, "list"), Files: n.host, Volumes: volumes{root, &n.places}, Logger: slog.New(slog.DiscardHandler),
		Machine: cm.Machine{CPUs: 2, Memory: 10 << 30, HugePages: map[string]int64{"2MB": 0}},
		Objects: api{
			maps:    map[string]*v1.ConfigMap{"ns/c": {Data: map[string]string{"k": "v", "not an identifier": "x"}}},
			secrets: map[string]*v1.Secret{"ns/s": {Data: map[string][]byte{"k": []byte("secret")}}},
		},
		Images: images{
			"root": {}, "numeric": {Uid: &runtimev1.Int64Value{Value: 1000}}, "named": {Username: "nobody"},
			"zero": {Uid: &runtimev1.Int64Value{}},
		},
		Facts: func() downward.Facts {
			return downward.Facts{HostIPs: []string{"192.0.2.1"}, Allocatable: v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi")}}
		},
		Event: func(_ *v1.Pod, _, kind, reason, message string) {
			n.events = append(n.events, kind+" "+reason+" "+message)
		},
		NodeEvent:  func(kind, reason, message string) { n.events = append(n.events, "node "+kind+" "+reason+" "+message) },
		SeccompDir: "/seccomp",
	}
	for _, f := range change {
		f(&c)
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Builder = b
	return n
}

func testPod(change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = "p", "ns", "u1"
	p.Labels = map[string]string{"app": "x"}
	p.Annotations = map[string]string{"note": "y"}
	p.Spec.DNSPolicy = v1.DNSClusterFirst
	p.Spec.NodeName = "n1"
	p.Spec.Containers = []v1.Container{{Name: "a", Image: "busybox", TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile}}
	for _, c := range change {
		c(p)
	}
	return p
}

// of builds the configuration of the pod's first container.
func (n *testNode) of(pod *v1.Pod) (*runtimev1.ContainerConfig, error) {
	return n.Container(context.Background(), worker.ContainerInput{
		Pod: pod, Container: &pod.Spec.Containers[0], Attempt: 3, ImageRef: "root", PodIPs: []string{"10.1.0.2"},
	})
}

func (n *testNode) must(t *testing.T, pod *v1.Pod) *runtimev1.ContainerConfig {
	t.Helper()
	cfg, err := n.of(pod)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
