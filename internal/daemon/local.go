package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/runtime/payload"
)

// What root can do on the node's machine without the API server.

// Kubectl puts the carried kubectl into the data directory and returns its path.
func Kubectl(dataDir string) (string, error) {
	p, err := payload.Embedded()
	if err != nil {
		return "", err
	}
	bin := Dirs{Root: dataDir}.Bin()
	if _, err := os.Stat(dataDir); err != nil || !writable(dataDir) {
		// Without access to a data directory (another machine's cluster, a plain user) it goes to the user's cache.
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		bin = filepath.Join(cache, "podo", "bin")
	}
	return p.Program(context.Background(), bin, "kubectl")
}

// ImportImage loads an archive's images into the node and returns their names.
func ImportImage(ctx context.Context, dataDir, file string) ([]string, error) {
	archive, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	rt, err := nodeRuntime(dataDir)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	names, err := rt.Import(ctx, archive)
	if err != nil && strings.Contains(err.Error(), "archive/tar: invalid tar header") {
		return nil, errors.New("this is no archive of images: make one with `docker save`, or as an OCI layout in a tar file")
	}
	return names, err
}

// Image is one image name of the node.
type Image struct {
	Name  string
	ID    string // short
	Bytes uint64
}

// ListImages lists the node's images by name.
func ListImages(ctx context.Context, dataDir string) ([]Image, error) {
	rt, err := nodeRuntime(dataDir)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	list, err := rt.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	var images []Image
	for _, i := range list {
		names := i.RepoTags
		if len(names) == 0 {
			names = i.RepoDigests
		}
		for _, name := range names {
			images = append(images, Image{Name: name, ID: shortID(i.Id), Bytes: i.Size})
		}
	}
	return images, nil
}

func shortID(id string) string {
	const prefix, digits = len("sha256:"), 12
	if len(id) > prefix+digits {
		return id[prefix : prefix+digits]
	}
	return id
}

func nodeRuntime(dataDir string) (*containerd.Client, error) {
	dirs, err := existing(dataDir)
	if err != nil {
		return nil, err
	}
	pid, err := Running(dirs)
	if err != nil {
		return nil, err
	}
	if pid == 0 {
		return nil, fmt.Errorf("the server of %s does not run: start it with `podo up`", dirs.Root)
	}
	ran, err := lastRun(dirs)
	if err != nil {
		return nil, err
	}
	return containerd.New(ran.Endpoint)
}

func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
