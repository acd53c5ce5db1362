// Package archive makes small container images and writes them as OCI archives: one layer, one platform, and nothing in them
// that depends on when or where they were made, so that equal input gives equal bytes and equal digests.
package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is one entry of an image's file system. Directories above it are made when they are not listed.
type File struct {
	Path string      // absolute, inside the image
	Mode os.FileMode // permissions, with os.ModeDir for a directory, os.ModeSticky and os.ModeSetuid where wanted
	Data []byte      // a regular file's content
	Link string      // symbolic link target; wins over Data
}

// Image is what to build.
type Image struct {
	Ref    string // full name with tag, e.g. localhost/podo/hello:dev
	Arch   string // GOARCH
	Files  []File
	Config v1.Config // entry point, environment, ports
}

// epoch is the time of everything in an image.
var epoch = time.Unix(0, 0).UTC()

// Build makes the image.
func Build(im Image) (v1.Image, error) {
	layer, err := layerOf(im.Files)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", im.Ref, err)
	}
	base := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	img, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, configOf(img, im))
}

func configOf(img v1.Image, im Image) *v1.ConfigFile {
	cf, err := img.ConfigFile()
	if err != nil { // the image is in memory: only a bug gets here
		panic(err)
	}
	cf = cf.DeepCopy()
	cf.Architecture, cf.OS, cf.Created, cf.Config = im.Arch, "linux", v1.Time{Time: epoch}, im.Config
	cf.History = []v1.History{{Created: v1.Time{Time: epoch}, CreatedBy: "podo tools/images"}}
	return cf
}

// layerOf packs files, parents first, in order of their paths.
func layerOf(files []File) (v1.Layer, error) {
	all := map[string]File{}
	for _, f := range files {
		p := strings.TrimPrefix(path.Clean("/"+f.Path), "/")
		all[p] = f
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if _, ok := all[d]; !ok {
				all[d] = File{Path: d, Mode: os.ModeDir | 0o755}
			}
		}
	}
	paths := make([]string, 0, len(all))
	for p := range all {
		paths = append(paths, p)
	}
	sort.Strings(paths)

	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, p := range paths {
		if err := writeFile(tw, p, all[p]); err != nil {
			return nil, err
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

func writeFile(tw *tar.Writer, name string, f File) error {
	h := &tar.Header{Name: name, Mode: int64(f.Mode.Perm()), ModTime: epoch, Format: tar.FormatPAX}
	if f.Mode&os.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	if f.Mode&os.ModeSetuid != 0 {
		h.Mode |= 0o4000
	}
	switch {
	case f.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
	case f.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	default:
		h.Typeflag, h.Size = tar.TypeReg, int64(len(f.Data))
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeReg {
		_, err := tw.Write(f.Data)
		return err
	}
	return nil
}

// Write writes the image as an OCI archive (a tar of an OCI layout, its reference in the annotations that containerd and others
// read) to file, atomically.
func Write(file string, im Image) error {
	img, err := Build(im)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "podo-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = p.AppendImage(img, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          im.Ref,
		"org.opencontainers.image.ref.name": im.Ref,
	}))
	if err != nil {
		return err
	}
	return tarDir(file, dir)
}

// tarDir packs the regular files below dir, in order of their names, into file.
func tarDir(file, dir string) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	tw := tar.NewWriter(tmp)
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		return writeFile(tw, filepath.ToSlash(rel), File{Mode: 0o644, Data: data})
	})
	if err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
