package e2e

import (
	"os"
	"os/exec"
	"runtime"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/rogpeppe/go-internal/testscript"

	"podo.dev/podo/tools/images/archive"
)

// lister FILE: write the archive of the image localhost/podo/lister:dev, a client-go program alone (folder lister).
func cmdLister(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: lister FILE")
	}
	program, err := buildLister()
	ts.Check(err)
	ts.Check(archive.Write(ts.MkAbs(args[0]), archive.Image{
		Ref: "localhost/podo/lister:dev", Arch: runtime.GOARCH,
		Files: []archive.File{
			{Path: "/lister", Mode: 0o755, Data: program},
			{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/lister\nnobody:x:65534:65534:nobody:/:/lister\n")},
		},
		Config: v1.Config{Entrypoint: []string{"/lister"}, User: "65534:65534"},
	}))
}

// buildLister compiles it as bin/podo is compiled, so that they share packages.
var buildLister = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "podo-lister-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", dir+"/lister", "podo.dev/podo/test/e2e/lister")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(dir + "/lister")
})
