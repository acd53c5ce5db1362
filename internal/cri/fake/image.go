package fake

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Image is an image for tests to offer.
type Image struct {
	Name  string
	Size  uint64
	Cmd   []string      // what runs when a container names no command
	Pull  time.Duration // how long a pull takes
	Local bool          // present without a pull
	// Pinned is what the kubelet must not collect, such as an imported image.
	Pinned bool
}

// Offer makes an image pullable, and present when it is local.
func (r *Runtime) Offer(i Image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := fullName(i.Name)
	img := &image{name: name, size: i.Size, id: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(name))), cmd: i.Cmd, pull: i.Pull, pinned: i.Pinned}
	r.remote[name] = img
	if i.Local {
		r.images[name] = img
	}
}

// Withdraw takes an image out of the registry; what is present stays.
func (r *Runtime) Withdraw(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.remote, fullName(name))
}

// fullName completes a reference as runtimes do.
func fullName(name string) string {
	if strings.HasPrefix(name, "sha256:") {
		return name
	}
	first, _, slash := strings.Cut(name, "/")
	switch {
	case !slash:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	}
	if base := name[strings.LastIndex(name, "/")+1:]; !strings.ContainsAny(base, ":@") {
		name += ":latest"
	}
	return name
}

func (r *Runtime) findImage(ref string) *image {
	if img := r.images[fullName(ref)]; img != nil {
		return img
	}
	for _, img := range r.images {
		if img.id == ref || strings.HasSuffix(ref, "@"+img.id) {
			return img
		}
	}
	return nil
}

func (i *image) proto() *runtimev1.Image {
	return &runtimev1.Image{
		Id: i.id, RepoTags: []string{i.name}, RepoDigests: []string{i.name[:strings.LastIndex(i.name, ":")] + "@" + i.id}, Size: i.size,
		Pinned: i.pinned,
	}
}

// ListImages lists what is present.
func (r *Runtime) ListImages(ctx context.Context) ([]*runtimev1.Image, error) {
	after, err := r.enter(ctx, "ListImages", "")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runtimev1.Image
	for _, n := range sortedKeys(r.images) {
		out = append(out, r.images[n].proto())
	}
	return out, after(nil)
}

// ImageStatus is nil for an image that is not present.
func (r *Runtime) ImageStatus(ctx context.Context, spec *runtimev1.ImageSpec) (*runtimev1.Image, error) {
	after, err := r.enter(ctx, "ImageStatus", spec.GetImage())
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	img := r.findImage(spec.GetImage())
	if img == nil {
		return nil, after(nil)
	}
	return img.proto(), after(nil)
}

// PullImage takes the image's time.
func (r *Runtime) PullImage(ctx context.Context, spec *runtimev1.ImageSpec, _ *runtimev1.AuthConfig, _ *runtimev1.PodSandboxConfig) (string, error) {
	after, err := r.enter(ctx, "PullImage", spec.GetImage())
	if err != nil {
		return "", err
	}
	name := fullName(spec.GetImage())
	r.mu.Lock()
	img := r.remote[name]
	r.mu.Unlock()
	if img == nil {
		return "", after(status.Errorf(codes.NotFound, "failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", name, name, name))
	}
	if err := sleep(ctx, img.pull); err != nil {
		return "", err
	}
	r.mu.Lock()
	r.images[name] = img
	r.mu.Unlock()
	return img.id, after(nil)
}

// RemoveImage removes by name or id.
func (r *Runtime) RemoveImage(ctx context.Context, spec *runtimev1.ImageSpec) error {
	after, err := r.enter(ctx, "RemoveImage", spec.GetImage())
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if img := r.findImage(spec.GetImage()); img != nil {
		delete(r.images, img.name)
	}
	return after(nil)
}

// ImageFsInfo is an empty disk.
func (r *Runtime) ImageFsInfo(ctx context.Context) (*runtimev1.ImageFsInfoResponse, error) {
	after, err := r.enter(ctx, "ImageFsInfo", "")
	if err != nil {
		return nil, err
	}
	return &runtimev1.ImageFsInfoResponse{ImageFilesystems: []*runtimev1.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &runtimev1.FilesystemIdentifier{Mountpoint: "/"},
		UsedBytes: &runtimev1.UInt64Value{}, InodesUsed: &runtimev1.UInt64Value{},
	}}}, after(nil)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
