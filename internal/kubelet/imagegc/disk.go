package imagegc

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Locator tells where the runtime keeps its images.
type Locator interface {
	ImageFsInfo(ctx context.Context) (*runtimev1.ImageFsInfoResponse, error)
}

// FileSystem measures the file system that holds the runtime's images, which must be mounted here at the same place.
func FileSystem(r Locator) func(ctx context.Context) (capacity, available int64, err error) {
	return func(ctx context.Context) (capacity, available int64, err error) {
		info, err := r.ImageFsInfo(ctx)
		if err != nil {
			return 0, 0, err
		}
		if len(info.GetImageFilesystems()) == 0 {
			return 0, 0, errors.New("the runtime does not tell where it keeps images")
		}
		dir := info.ImageFilesystems[0].GetFsId().GetMountpoint()
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			return 0, 0, fmt.Errorf("measure the images' file system at %q: %w", dir, err)
		}
		return int64(s.Blocks) * s.Bsize, int64(s.Bavail) * s.Bsize, nil //nolint:gosec // far below 2^63
	}
}
