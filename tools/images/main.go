// Command images builds the project's own container images as OCI archives. `make images` runs it from the repository's root; no
// registry is needed: the busybox image is Debian's busybox-static, the hello image a Go program of this repository.
package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"podo.dev/podo/tools/images/archive"
)

func main() {
	out := flag.String("out", "bin/images", "folder to write the archives to")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, im := range []struct {
		file string
		make func() (archive.Image, error)
	}{{"busybox.tar", busybox}, {"hello.tar", hello}} {
		img, err := im.make()
		if err != nil {
			return fmt.Errorf("%s: %w", im.file, err)
		}
		file := filepath.Join(out, im.file)
		if err := archive.Write(file, img); err != nil {
			return fmt.Errorf("%s: %w", im.file, err)
		}
		fmt.Printf("%s holds %s\n", file, img.Ref)
	}
	return nil
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// busybox is a userland of one static program with a link for each of its applets.
func busybox() (archive.Image, error) {
	const program = "/bin/busybox"
	data, err := os.ReadFile(program)
	if err == nil {
		err = static(data)
	}
	if err != nil {
		return archive.Image{}, fmt.Errorf("%s from Debian's busybox-static is needed (apt-get install busybox-static): %w", program, err)
	}
	list, err := exec.Command(program, "--list-full").Output()
	if err != nil {
		return archive.Image{}, fmt.Errorf("%s --list-full: %w", program, err)
	}
	files := []archive.File{
		{Path: program, Mode: 0o755, Data: data},
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnogroup:x:65534:\n")},
		{Path: "/tmp", Mode: os.ModeDir | os.ModeSticky | 0o777},
		{Path: "/var/tmp", Mode: os.ModeDir | os.ModeSticky | 0o777},
		{Path: "/root", Mode: os.ModeDir | 0o700},
		{Path: "/bin/sh", Link: program},
	}
	for applet := range strings.FieldsSeq(string(list)) {
		if p := "/" + strings.TrimPrefix(applet, "/"); p != program {
			files = append(files, archive.File{Path: p, Link: program})
		}
	}
	return archive.Image{
		Ref: "localhost/podo/busybox:dev", Arch: runtime.GOARCH, Files: files,
		Config: v1.Config{Env: []string{searchPath}, Cmd: []string{"sh"}},
	}, nil
}

// hello is the program beside this one, alone in its image.
func hello() (archive.Image, error) {
	dir, err := os.MkdirTemp("", "podo-hello-")
	if err != nil {
		return archive.Image{}, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "hello")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", program, "./tools/images/hello")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return archive.Image{}, fmt.Errorf("go build: %w", err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return archive.Image{}, err
	}
	return archive.Image{
		Ref: "localhost/podo/hello:dev", Arch: runtime.GOARCH,
		Files: []archive.File{
			{Path: "/hello", Mode: 0o755, Data: data},
			{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/hello\nnobody:x:65534:65534:nobody:/:/hello\n")},
			{Path: "/tmp", Mode: os.ModeDir | os.ModeSticky | 0o777},
		},
		Config: v1.Config{
			Env: []string{searchPath}, Entrypoint: []string{"/hello"}, User: "65534:65534",
			ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		},
	}, nil
}

// static says what is wrong when program is no static executable: one that asks for an interpreter would not start in an image that
// holds nothing else.
func static(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it is linked dynamically")
		}
	}
	return nil
}
