package upkeep

import (
	"fmt"
	"strings"
	"testing"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri/fake"
	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/runtime"
)

func TestRemoveImage(t *testing.T) {
	rt := fake.New()
	for _, name := range []string{"docker.io/library/used:1", "docker.io/library/mounted:1", "docker.io/library/free:1", "docker.io/library/other:1", runtime.PauseImage} {
		rt.Offer(fake.Image{Name: name, Size: 10})
		if _, err := rt.PullImage(t.Context(), &runtimev1.ImageSpec{Image: name}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	sandbox := &runtimev1.PodSandboxConfig{Metadata: &runtimev1.PodSandboxMetadata{Name: "p", Namespace: "ns", Uid: "u"}}
	box, err := rt.RunPodSandbox(t.Context(), sandbox, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		_, err = rt.CreateContainer(t.Context(), box, &runtimev1.ContainerConfig{
			Metadata: &runtimev1.ContainerMetadata{Name: fmt.Sprint("c", i)}, Image: &runtimev1.ImageSpec{Image: "used:1"},
			Labels: map[string]string{labels.PodName: fmt.Sprint("p", i), labels.PodNamespace: "ns"},
			Mounts: []*runtimev1.Mount{{ContainerPath: "/v", Image: &runtimev1.ImageSpec{Image: "docker.io/library/mounted:1"}}},
		}, sandbox)
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"used:1":           "image used:1 is in use by pod ns/p0, pod ns/p1, pod ns/p2, pod ns/p3, pod ns/p4 and 2 more: delete what uses it first",
		"mounted:1":        "image mounted:1 is in use by pod ns/p0",
		"absent":           "there is no image absent on the node: `podo image list` shows which there are",
		"Not A Name":       "there is no image Not A Name",
		runtime.PauseImage: "is what every pod's sandbox is made of and stays",
	} {
		if _, err := removeImage(t.Context(), rt, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if names, err := removeImage(t.Context(), rt, "free:1"); err != nil || len(names) != 1 || names[0] != "docker.io/library/free:1" {
		t.Errorf("%v %v", names, err)
	}
	other, err := rt.ImageStatus(t.Context(), &runtimev1.ImageSpec{Image: "other:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := removeImage(t.Context(), rt, shortID(other.Id)); err != nil {
		t.Error(err)
	}
	left, err := rt.ListImages(t.Context())
	if err != nil || len(left) != 3 {
		t.Errorf("%d images are left, want 3: %v", len(left), err)
	}
}
