package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func sample() Image {
	return Image{
		Ref: "localhost/podo/sample:dev", Arch: "amd64",
		Files: []File{
			{Path: "/usr/bin/tool", Mode: 0o755, Data: []byte("program")},
			{Path: "/bin/sh", Link: "/usr/bin/tool"},
			{Path: "/tmp", Mode: os.ModeDir | os.ModeSticky | 0o777},
		},
		Config: v1.Config{Entrypoint: []string{"/usr/bin/tool"}},
	}
}

func TestSameInputSameBytes(t *testing.T) {
	dir := t.TempDir()
	var all [][]byte
	for _, name := range []string{"a.tar", "b.tar"} {
		if err := Write(filepath.Join(dir, name), sample()); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Error("two archives of the same image differ")
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestArchiveNamesItsImage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.tar")
	if err := Write(file, sample()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var index v1.IndexManifest
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "index.json" {
			if err := json.NewDecoder(tr).Decode(&index); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["io.containerd.image.name"] != "localhost/podo/sample:dev" {
		t.Errorf("index: %+v", index)
	}
}

func TestLayerHasParentsFirst(t *testing.T) {
	img, err := Build(sample())
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: %v, %v", layers, err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name)
		if h.Name == "tmp/" && h.Mode != 0o1777 {
			t.Errorf("/tmp has mode %o", h.Mode)
		}
		if h.Name == "bin/sh" && h.Linkname != "/usr/bin/tool" {
			t.Errorf("/bin/sh points to %q", h.Linkname)
		}
	}
	want := []string{"bin/", "bin/sh", "tmp/", "usr/", "usr/bin/", "usr/bin/tool"}
	if !slices.Equal(got, want) {
		t.Errorf("entries %v, want %v", got, want)
	}
}
