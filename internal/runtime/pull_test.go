//go:build e2e

package runtime_test

import (
	"io"
	"log"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/images"
	"podo.dev/podo/tools/images/archive"
)

// A registry on loopback needs no configuration; what it does not have is told in its own words.
func TestPullFromARegistry(t *testing.T) {
	n := newNode(t, "10.213.81.0/24")
	n.up()
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer srv.Close()
	ref := strings.TrimPrefix(srv.URL, "http://") + "/team/thing:v1"
	img, err := archive.Build(archive.Image{Ref: ref, Arch: runtime.GOARCH, Files: []archive.File{{Path: "/thing", Mode: 0o755, Data: []byte("x")}}})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
	if _, err := n.cri.PullImage(t.Context(), &runtimev1.ImageSpec{Image: ref}, nil, nil); err != nil {
		t.Fatal(err)
	}
	got, err := n.cri.ImageStatus(t.Context(), &runtimev1.ImageSpec{Image: ref})
	if err != nil || got == nil {
		t.Fatalf("after the pull: %v, %v", got, err)
	}
	if got.GetPinned() {
		t.Error("a pulled image is pinned, so that it would never be collected")
	}
	if digest, _ := img.ConfigName(); got.GetId() != digest.String() {
		t.Errorf("image ID %s, want %s", got.GetId(), digest)
	}
	_, err = n.cri.PullImage(t.Context(), &runtimev1.ImageSpec{Image: ref + "-not"}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("an image that is not there: %v", err)
	}
	if err := n.cri.RemoveImage(t.Context(), &runtimev1.ImageSpec{Image: ref}); err != nil {
		t.Error(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	both := ref + "@" + digest.String()
	if _, err := n.cri.PullImage(t.Context(), &runtimev1.ImageSpec{Image: both}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got, err = n.cri.ImageStatus(t.Context(), &runtimev1.ImageSpec{Image: both}); err != nil || !slices.Contains(got.GetRepoDigests(), images.WholeName(both)) {
		t.Errorf("by tag and digest: %v, %v; want %s", got, err, images.WholeName(both))
	}
	if err := n.cri.RemoveImage(t.Context(), &runtimev1.ImageSpec{Image: both}); err != nil {
		t.Error(err)
	}
	all, err := n.cri.ListImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || !all[0].GetPinned() {
		t.Errorf("left: %v, want only the sandbox image, pinned", all)
	}
}
