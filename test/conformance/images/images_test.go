package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"podo.dev/podo/tools/images/archive"
)

// The registry has what the archive has, under the name that the node asks for, and the node is told where.
func TestMirror(t *testing.T) {
	im := archive.Image{Ref: Registry + "/e2e-test-images/kitten:1.8", Arch: "amd64", Files: []archive.File{{Path: "/data.json", Mode: 0o644, Data: []byte("{}")}}}
	file := filepath.Join(t.TempDir(), "kitten.tar")
	if err := archive.Write(file, im); err != nil {
		t.Fatal(err)
	}
	m, err := Serve([]string{file}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	certs := t.TempDir()
	if err := m.Use(certs); err != nil {
		t.Fatal(err)
	}
	hosts, err := os.ReadFile(filepath.Join(certs, Registry, "hosts.toml"))
	if err != nil || !strings.Contains(string(hosts), m.server.URL) {
		t.Errorf("hosts.toml: %q, %v", hosts, err)
	}
	tag, err := name.NewTag(strings.TrimPrefix(m.server.URL, "http://") + "/e2e-test-images/kitten:1.8")
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	want, err := archive.Build(im)
	if err != nil {
		t.Fatal(err)
	}
	is, err := got.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if was, _ := want.Digest(); is != was {
		t.Errorf("the registry has %s, the archive %s", is, was)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.dir); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}

// A program of the machine brings the libraries that it is linked to.
func TestProgramsBringTheirLibraries(t *testing.T) {
	files, err := fromHost(t.Context(), "bash")
	if err != nil {
		t.Skip("this machine has no bash")
	}
	if files[0].Path != "/usr/bin/bash" || len(files) < 2 {
		t.Errorf("%d files, the first is %s", len(files), files[0].Path)
	}
	if _, err := fromHost(t.Context(), "no-such-program"); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("a program that is not there: %v", err)
	}
}
