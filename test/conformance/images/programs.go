package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"podo.dev/podo/tools/images/archive"
)

// pause is the program of the product's own sandbox image.
func (b Builder) pause(ctx context.Context, _ []archive.File) (archive.Image, error) {
	out := filepath.Join(b.Work, "pause")
	cmd := exec.CommandContext(ctx, "gcc", "-Os", "-static", "-nostdlib", "-s", "-o", out, "../../tools/pause/pause.c")
	if text, err := cmd.CombinedOutput(); err != nil {
		return archive.Image{}, fmt.Errorf("gcc: %w\n%s", err, text)
	}
	data, err := os.ReadFile(out)
	return archive.Image{
		Files: []archive.File{{Path: "/pause", Mode: 0o755, Data: data}}, Config: v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
	}, err
}

// busybox has bash for those who ask for `sh` without a path; /bin/sh stays busybox's, whose complaints a test compares.
func (b Builder) busybox(ctx context.Context, base []archive.File) (archive.Image, error) {
	files, err := bash(ctx, "/usr/local/bin/sh")
	return archive.Image{Files: append(base, files...), Config: v1.Config{Env: search, Cmd: []string{"sh"}}}, err
}

func (b Builder) nonroot(_ context.Context, base []archive.File) (archive.Image, error) {
	return archive.Image{Files: base, Config: v1.Config{Env: search, Cmd: []string{"sh"}, User: "1234"}}, nil
}

// agnhost is upstream's program with the tools that tests call beside it.
func (b Builder) agnhost(ctx context.Context, base []archive.File) (archive.Image, error) {
	data, err := os.ReadFile(b.Agnhost)
	if err != nil {
		return archive.Image{}, fmt.Errorf("agnhost is not built: `make conformance` does that (%w)", err)
	}
	shell, err := bash(ctx, "/bin/sh")
	if err != nil {
		return archive.Image{}, err
	}
	tools, err := fromHost(ctx, "curl", "dig", "nc", "ss", "socat", "ip")
	if err != nil {
		return archive.Image{}, err
	}
	certificate, err := localhost(ctx)
	if err != nil {
		return archive.Image{}, err
	}
	files := slices.Concat(base, shell, tools, certificate)
	files = append(files,
		archive.File{Path: "/agnhost", Mode: 0o755, Data: data},
		archive.File{Path: "/agnhost-2", Link: "agnhost"}, // the Containers tests start it by this name
		archive.File{Path: "/uploads", Mode: os.ModeDir | 0o777},
	)
	config := run("/agnhost", "pause")
	config.ExposedPorts = ports(80, 5000, 8080, 8081, 9376)
	return archive.Image{Files: files, Config: config}, nil
}

// localhost is the certificate that the image carries for `agnhost porter`, and its key. The tests of StatefulSets take it for a page that
// agnhost's web server shows as long as it is there.
func localhost(ctx context.Context) (files []archive.File, err error) {
	module, err := exec.CommandContext(ctx, "go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return nil, fmt.Errorf("where upstream's module is: %w", err)
	}
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "test/images/agnhost/porter", name))
		if err != nil {
			return nil, err
		}
		files = append(files, archive.File{Path: "/" + name, Mode: 0o644, Data: data})
	}
	return files, nil
}

// pet is agnhost as a web server that says whose page it is: the kitten and the nautilus of the update demo.
func (b Builder) pet(name string) func(context.Context, []archive.File) (archive.Image, error) {
	return func(ctx context.Context, base []archive.File) (archive.Image, error) {
		img, err := b.agnhost(ctx, base)
		img.Config.Cmd = []string{"test-webserver"}
		img.Files = append(img.Files, archive.File{Path: "/data.json", Mode: 0o644, Data: []byte("{\n  \"image\": \"" + name + ".jpg\"\n}\n")})
		return img, err
	}
}

const nginxConf = `user root;
worker_processes 1;
error_log /dev/stderr notice;
pid /run/nginx.pid;
events {}
http {
	include /etc/nginx/mime.types;
	access_log /dev/stdout;
	server {
		listen 80;
		root /usr/share/nginx/html;
	}
}
`

// nginx is Debian's, set up as upstream's image is.
func (b Builder) nginx(ctx context.Context, base []archive.File) (archive.Image, error) {
	dir, err := debian(ctx, b.Work, "nginx", "nginx-common")
	if err != nil {
		return archive.Image{}, err
	}
	files, err := program(ctx, "/usr/sbin/nginx", filepath.Join(dir, "usr/sbin/nginx"))
	if err != nil {
		return archive.Image{}, err
	}
	page, err := tree("/usr/share/nginx/html", filepath.Join(dir, "usr/share/nginx/html"))
	if err != nil {
		return archive.Image{}, err
	}
	types, err := os.ReadFile(filepath.Join(dir, "etc/nginx/mime.types"))
	if err != nil {
		return archive.Image{}, err
	}
	files = append(append(base, files...), page...)
	files = append(files,
		archive.File{Path: "/etc/nginx/mime.types", Mode: 0o644, Data: types},
		archive.File{Path: "/etc/nginx/nginx.conf", Mode: 0o644, Data: []byte(nginxConf)},
		archive.File{Path: "/var/lib/nginx", Mode: os.ModeDir | 0o755},
		archive.File{Path: "/var/log/nginx", Mode: os.ModeDir | 0o755},
		archive.File{Path: "/run", Mode: os.ModeDir | 0o755},
	)
	config := v1.Config{Env: search, Cmd: []string{"/usr/sbin/nginx", "-g", "daemon off;"}, ExposedPorts: ports(80), StopSignal: "SIGQUIT"}
	return archive.Image{Files: files, Config: config}, nil
}

// glibc has resolvers of the other C library.
func (b Builder) glibc(ctx context.Context, base []archive.File) (archive.Image, error) {
	shell, err := bash(ctx, "/bin/sh")
	if err != nil {
		return archive.Image{}, err
	}
	tools, err := fromHost(ctx, "dig", "getent", "hostname", "nslookup", "host")
	files := append(append(base, shell...), tools...)
	return archive.Image{Files: files, Config: v1.Config{Env: search, Cmd: []string{"bash"}}}, err
}

func (b Builder) nonewprivs(ctx context.Context, base []archive.File) (archive.Image, error) {
	data, err := b.build(ctx, "nonewprivs", upstream)
	files := append(base, archive.File{Path: "/usr/local/bin/nnp", Mode: os.ModeSetuid | 0o755, Data: data})
	return archive.Image{Files: files, Config: v1.Config{Env: search, Cmd: []string{"nnp"}}}, err
}

func (b Builder) regression(ctx context.Context, base []archive.File) (archive.Image, error) {
	data, err := b.build(ctx, "regression-issue-74839", upstream)
	files := append(base, archive.File{Path: "/regression-issue-74839", Mode: 0o755, Data: data})
	return archive.Image{Files: files, Config: run("/regression-issue-74839")}, err
}

func (b Builder) resourceConsumer(ctx context.Context, base []archive.File) (archive.Image, error) {
	server, err := b.build(ctx, "resource-consumer", upstream)
	if err != nil {
		return archive.Image{}, err
	}
	burn, err := b.build(ctx, "consume-cpu", upstream+"resource-consumer/")
	files := append(base,
		archive.File{Path: "/consumer", Mode: 0o755, Data: server},
		archive.File{Path: "/consume-cpu/consume-cpu", Mode: 0o755, Data: burn},
	)
	config := run("/consumer")
	config.ExposedPorts = ports(8080)
	return archive.Image{Files: files, Config: config}, err
}

func (b Builder) sampleAPIServer(ctx context.Context, base []archive.File) (archive.Image, error) {
	data, err := b.install(ctx, "sample-apiserver", "k8s.io/sample-apiserver@v0.29.2")
	files := append(base, archive.File{Path: "/sample-apiserver", Mode: 0o755, Data: data})
	return archive.Image{Files: files, Config: run("/sample-apiserver")}, err
}

func (b Builder) etcd(ctx context.Context, base []archive.File) (archive.Image, error) {
	out := filepath.Join(b.Work, "etcd")
	// The product's module has it.
	data, err := b.compile(ctx, "../..", out, "build", "-ldflags", "-s -w", "-o", out, "go.etcd.io/etcd/server/v3")
	files := append(base, archive.File{Path: "/usr/local/bin/etcd", Mode: 0o755, Data: data})
	return archive.Image{Files: files, Config: v1.Config{Env: search, Cmd: []string{"/usr/local/bin/etcd"}, ExposedPorts: ports(2379, 2380)}}, err
}

const upstream = "k8s.io/kubernetes/test/images/"

// build makes a static program of a package that the pinned module reaches.
func (b Builder) build(ctx context.Context, name, from string) ([]byte, error) {
	out := filepath.Join(b.Work, name)
	return b.compile(ctx, ".", out, "build", "-mod=mod", "-ldflags", "-s -w", "-o", out, from+name)
}

// install makes one of a module of its own at a version of its own.
func (b Builder) install(ctx context.Context, name, module string) ([]byte, error) {
	return b.compile(ctx, ".", filepath.Join(b.Work, name), "install", "-ldflags", "-s -w", module)
}

func (b Builder) compile(ctx context.Context, dir, out string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false", "GOBIN="+b.Work)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, text)
	}
	return os.ReadFile(out)
}
