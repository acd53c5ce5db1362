package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/kubelet/images"
	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/runtime"
)

// imageRuntime is what removing an image asks of the runtime.
type imageRuntime interface {
	cri.Images
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error)
}

// RemoveImage removes an image of the node, given by a name or its id, with all its names, which it returns. An image that a
// container uses is not removed.
func RemoveImage(ctx context.Context, dataDir, name string) ([]string, error) {
	rt, err := nodeRuntime(dataDir)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	return removeImage(ctx, rt, name)
}

func removeImage(ctx context.Context, rt imageRuntime, name string) ([]string, error) {
	image, err := findImage(ctx, rt, name)
	if err != nil {
		return nil, err
	}
	names := slices.Concat(image.RepoTags, image.RepoDigests)
	if slices.Contains(names, runtime.PauseImage) {
		return nil, fmt.Errorf("image %s is what every pod's sandbox is made of and stays", name)
	}
	by, err := usersOf(ctx, rt, image)
	if err != nil {
		return nil, err
	}
	if len(by) > 0 {
		return nil, fmt.Errorf("image %s is in use by %s: delete what uses it first", name, enumerate(by))
	}
	if err := rt.RemoveImage(ctx, &runtimev1.ImageSpec{Image: image.Id}); err != nil {
		return nil, err
	}
	if len(image.RepoTags) > 0 {
		return image.RepoTags, nil
	}
	return names, nil
}

// findImage finds an image by what `podo image list` shows: a full or short name, or the first digits of its id.
func findImage(ctx context.Context, rt imageRuntime, name string) (*runtimev1.Image, error) {
	all, err := rt.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	whole := images.WholeName(name)
	var found []*runtimev1.Image
	for _, i := range all {
		digits, ok := strings.CutPrefix(i.Id, "sha256:")
		switch {
		case slices.Contains(i.RepoTags, whole), slices.Contains(i.RepoDigests, whole), i.Id == name:
			return i, nil
		case ok && len(name) >= 4 && strings.HasPrefix(digits, strings.TrimPrefix(name, "sha256:")):
			found = append(found, i)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("there is no image %s on the node: `podo image list` shows which there are", name)
	}
	return nil, fmt.Errorf("%s begins the ids of %d images: give more digits or a name", name, len(found))
}

// usersOf names the pods that use the image for a container or as a volume. Ended containers count, since they may be restarted.
func usersOf(ctx context.Context, rt imageRuntime, image *runtimev1.Image) ([]string, error) {
	refers := slices.Concat([]string{image.Id}, image.RepoTags, image.RepoDigests)
	containers, err := rt.ListContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	var by []string
	for _, c := range containers {
		uses := slices.Contains(refers, c.ImageId) || slices.Contains(refers, c.ImageRef) || slices.Contains(refers, c.GetImage().GetImage())
		if !uses {
			s, err := rt.ContainerStatus(ctx, c.Id)
			if err != nil && !cri.IsNotFound(err) {
				return nil, errors.New("cannot find out what uses the image: " + err.Error())
			}
			uses = slices.ContainsFunc(s.GetMounts(), func(m *runtimev1.Mount) bool {
				return m.GetImage() != nil && slices.Contains(refers, m.GetImage().GetImage())
			})
		}
		if !uses {
			continue
		}
		who := "container " + c.Id
		if pod := c.Labels[labels.PodName]; pod != "" {
			who = "pod " + c.Labels[labels.PodNamespace] + "/" + pod
		}
		if !slices.Contains(by, who) {
			by = append(by, who)
		}
	}
	slices.Sort(by)
	return by, nil
}

// enumerate names a few and counts the rest.
func enumerate(all []string) string {
	const most = 5
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
