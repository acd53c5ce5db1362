// Package images makes the images that the suite asks for, offline, under the names that it uses. A userland is Debian's
// busybox-static with its applets as links; programs that busybox lacks come from this machine with the libraries they are
// linked to; upstream's own test programs are built from the pinned module.
package images

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"podo.dev/podo/tools/images/archive"
)

// Missing are images of the suite that are not made here, with what that costs.
var Missing = map[string]string{
	"nginx":             "tests of deployments, stateful sets and kubectl that run a web server",
	"sample-apiserver":  "the aggregator's test",
	"etcd":              "the aggregator's test",
	"perl":              "one test of jobs",
	"resource-consumer": "tests of autoscaling, which carry no conformance label",
}

const (
	registry = "registry.k8s.io/"
	tests    = registry + "e2e-test-images/"
	search   = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Builder makes the images into a folder.
type Builder struct {
	Out     string // folder of the archives
	Agnhost string // the built program
	Work    string // folder for programs built on the way
	Log     func(format string, args ...any)
}

// Build makes every image that is not there yet and returns the archives.
func (b Builder) Build() ([]string, error) {
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		return nil, err
	}
	userland, err := b.userland()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, im := range []struct {
		ref  string
		make func(base []archive.File) (archive.Image, error)
	}{
		{registry + "pause:3.10.2", b.pause},
		{tests + "agnhost:2.66.1", b.agnhost},
		{tests + "agnhost:2.55", b.agnhost},
		{tests + "busybox:1.37.0-2", b.busybox},
		{tests + "nonewprivs:1.4", b.nonewprivs},
		{tests + "nonroot:1.5", b.nonroot},
		{tests + "kitten:1.8", b.page},
		{tests + "nautilus:1.8", b.page},
		{tests + "regression-issue-74839:1.5", b.regression},
	} {
		file := filepath.Join(b.Out, strings.ReplaceAll(path.Base(im.ref), ":", "-")+".tar")
		files = append(files, file)
		if _, err := os.Stat(file); err == nil {
			continue
		}
		img, err := im.make(userland)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", im.ref, err)
		}
		img.Ref, img.Arch = im.ref, runtime.GOARCH
		if err := archive.Write(file, img); err != nil {
			return nil, err
		}
		b.Log("%s", img.Ref)
	}
	return files, nil
}

func (b Builder) userland() ([]archive.File, error) {
	const program = "/bin/busybox"
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("Debian's busybox-static is needed (apt-get install busybox-static): %w", err)
	}
	list, err := exec.Command(program, "--list-full").Output()
	if err != nil {
		return nil, err
	}
	files := []archive.File{
		{Path: program, Mode: 0o755, Data: data},
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home/u:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n")},
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
	return files, nil
}

// fromHost takes programs of this machine with the libraries that they are linked to. Those that are not installed are told and left
// out.
func (b Builder) fromHost(names ...string) []archive.File {
	var files []archive.File
	have := map[string]bool{}
	add := func(p string) {
		if have[p] {
			return
		}
		have[p] = true
		if data, err := os.ReadFile(p); err == nil {
			files = append(files, archive.File{Path: p, Mode: 0o755, Data: data})
		}
	}
	for _, name := range names {
		p, err := exec.LookPath(name)
		if err != nil {
			b.Log("%s is not installed here: tests that call it in a container fail", name)
			continue
		}
		if real, err := filepath.EvalSymlinks(p); err == nil && real != p {
			files = append(files, archive.File{Path: p, Link: real})
			p = real
		}
		add(p)
		out, _ := exec.Command("ldd", p).Output() // a static program has none
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/") {
				add(word)
			}
		}
	}
	return files
}

// shell is bash: busybox's shell and dash drop names of the environment that are no identifiers, which tests of ConfigMaps set.
func (b Builder) shell(base []archive.File) []archive.File {
	files := append([]archive.File{}, base...)
	files = append(files, b.fromHost("bash")...)
	if p, err := exec.LookPath("bash"); err == nil {
		files = append(files, archive.File{Path: "/bin/sh", Link: p})
	}
	return files
}

// pause is the program of the product's own sandbox image.
func (b Builder) pause([]archive.File) (archive.Image, error) {
	out := filepath.Join(b.Work, "pause")
	if text, err := exec.Command("gcc", "-Os", "-static", "-nostdlib", "-s", "-o", out, "../../tools/pause/pause.c").CombinedOutput(); err != nil {
		return archive.Image{}, fmt.Errorf("gcc: %w\n%s", err, text)
	}
	data, err := os.ReadFile(out)
	return archive.Image{
		Files: []archive.File{{Path: "/pause", Mode: 0o755, Data: data}}, Config: v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
	}, err
}

func (b Builder) busybox(base []archive.File) (archive.Image, error) {
	return archive.Image{Files: b.shell(base), Config: v1.Config{Env: []string{search}, Cmd: []string{"sh"}}}, nil
}

func (b Builder) agnhost(base []archive.File) (archive.Image, error) {
	data, err := os.ReadFile(b.Agnhost)
	if err != nil {
		return archive.Image{}, err
	}
	files := append(b.shell(base),
		archive.File{Path: "/agnhost", Mode: 0o755, Data: data},
		archive.File{Path: "/agnhost-2", Link: "agnhost"},
		archive.File{Path: "/uploads", Mode: os.ModeDir | 0o777},
	)
	files = append(files, b.fromHost("curl", "dig", "ss", "socat")...)
	return archive.Image{Files: files, Config: v1.Config{
		Env: []string{search}, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"},
		ExposedPorts: map[string]struct{}{"80/tcp": {}, "5000/tcp": {}, "8080/tcp": {}, "8081/tcp": {}, "9376/tcp": {}},
	}}, nil
}

// page is agnhost as a web server: the kitten and nautilus of the update demo.
func (b Builder) page(base []archive.File) (archive.Image, error) {
	img, err := b.agnhost(base)
	img.Config.Cmd = []string{"test-webserver"}
	img.Files = append(img.Files, archive.File{Path: "/data.json", Mode: 0o644, Data: []byte("{\"image\": \"kitten.jpg\"}\n")})
	return img, err
}

func (b Builder) nonroot(base []archive.File) (archive.Image, error) {
	return archive.Image{Files: base, Config: v1.Config{Env: []string{search}, Cmd: []string{"sh"}, User: "1234"}}, nil
}

func (b Builder) nonewprivs(base []archive.File) (archive.Image, error) {
	data, err := b.program("nonewprivs")
	files := append(append([]archive.File{}, base...), archive.File{Path: "/usr/local/bin/nnp", Mode: os.ModeSetuid | 0o755, Data: data})
	return archive.Image{Files: files, Config: v1.Config{Env: []string{search}, Cmd: []string{"nnp"}}}, err
}

func (b Builder) regression(base []archive.File) (archive.Image, error) {
	data, err := b.program("regression-issue-74839")
	files := append(append([]archive.File{}, base...), archive.File{Path: "/regression-issue-74839", Mode: 0o755, Data: data})
	return archive.Image{Files: files, Config: v1.Config{Env: []string{search}, Entrypoint: []string{"/regression-issue-74839"}}}, err
}

// program builds one of upstream's test programs from the pinned module.
func (b Builder) program(name string) ([]byte, error) {
	out := filepath.Join(b.Work, name)
	cmd := exec.Command("go", "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", out, "k8s.io/kubernetes/test/images/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, text)
	}
	return os.ReadFile(out)
}
