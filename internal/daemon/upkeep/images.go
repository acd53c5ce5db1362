package upkeep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/daemon/datadir"
)

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
	dir, err := datadir.Existing(dataDir)
	if err != nil {
		return nil, err
	}
	pid, err := dir.Running()
	if err != nil {
		return nil, err
	}
	if pid == 0 {
		return nil, fmt.Errorf("the server of %s does not run: start it with `podo up`", dir.Root)
	}
	ran, err := dir.LastRun()
	if err != nil {
		return nil, err
	}
	return containerd.New(ran.Endpoint)
}
