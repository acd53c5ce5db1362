package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Mirror is a registry on loopback that has the made images: tests whose pull policy is Always ask for them there.
type Mirror struct {
	server *httptest.Server
	dir    string
}

// Serve starts one that keeps its blobs below scratch.
func Serve(archives []string, scratch string) (*Mirror, error) {
	dir, err := os.MkdirTemp(scratch, "registry-")
	if err != nil {
		return nil, err
	}
	blobs := registry.WithBlobHandler(registry.NewDiskBlobHandler(dir))
	m := &Mirror{dir: dir, server: httptest.NewServer(registry.New(blobs, registry.Logger(log.New(io.Discard, "", 0))))}
	for _, a := range archives {
		if err := m.push(a); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", a, err), m.Close())
		}
	}
	return m, nil
}

// Close ends it.
func (m *Mirror) Close() error {
	m.server.Close()
	return os.RemoveAll(m.dir)
}

// Use makes a containerd whose registry configuration is in the folder certs ask here for the suite's images.
func (m *Mirror) Use(certs string) error {
	dir := filepath.Join(certs, Registry)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("server = %q\n\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", m.server.URL, m.server.URL)
	return os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(text), 0o644)
}

// push adds an archive's image under its name.
func (m *Mirror) push(file string) error {
	dir, err := os.MkdirTemp(m.dir, "layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := untar(file, dir); err != nil {
		return err
	}
	l, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	index, err := l.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range index.Manifests {
		ref := strings.Replace(d.Annotations["io.containerd.image.name"], Registry, strings.TrimPrefix(m.server.URL, "http://"), 1)
		tag, err := name.NewTag(ref)
		if err != nil {
			return err
		}
		img, err := l.Image(d.Digest)
		if err != nil {
			return err
		}
		if err := remote.Write(tag, img); err != nil {
			return err
		}
	}
	return nil
}

// untar unpacks an archive that this package wrote: regular files only.
func untar(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
			return err
		}
		out, err := root.Create(h.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, t)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}
