package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"podo.dev/podo/tools/images/archive"
)

// builder makes helpers, each at most once per key.
type builder struct {
	cache     string // absolute
	goVersion string // of the go command that builds
}

func newBuilder(cache string) (*builder, error) {
	abs, err := filepath.Abs(cache)
	if err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return &builder{cache: abs, goVersion: strings.TrimSpace(string(out))}, nil
}

// build returns the file of h's current key, building it when it is not in the cache.
func (b *builder) build(h helper, built map[string]string) (file, key string, fresh bool, err error) {
	key, err = b.key(h, built)
	if err != nil {
		return "", "", false, err
	}
	file = filepath.Join(b.cache, h.name+"-"+key)
	if _, err := os.Stat(file); err == nil {
		return file, key, false, nil
	}
	tmp, err := os.MkdirTemp(b.cache, "."+h.name+"-")
	if err != nil {
		return "", "", false, err
	}
	defer os.RemoveAll(tmp)
	made := filepath.Join(tmp, h.name)
	fmt.Printf("building %s %s\n", h.name, h.version)
	switch r := h.build; {
	case r.module != "":
		made, err = goInstall(tmp, h)
	case r.dir != "":
		err = goBuild(made, h)
	case r.own != "":
		err = command("", false, nil, "go", "build", "-trimpath", "-ldflags", "-s -w "+r.ldflags, "-o", made, r.own)
	case r.c != "":
		err = compile(made, r.c)
	case r.image != "":
		err = wrap(made, built[r.image])
	default:
		err = errors.New("has no recipe")
	}
	if err != nil {
		return "", "", false, err
	}
	if err := os.Rename(made, file); err != nil {
		return "", "", false, err
	}
	b.forget(h.name, file)
	return file, key, true, nil
}

// key is a digest of everything that decides h's bytes.
func (b *builder) key(h helper, built map[string]string) (string, error) {
	// h.lazy decides nothing about the content; marshalling the recipe's fields by hand keeps the key stable.
	r := h.build
	parts := []string{h.name, h.version, runtime.GOARCH, b.goVersion, r.module, r.dir, r.c, r.image, fmt.Sprint(r.cgo), r.tags, r.ldflags}
	inputs := []string{}
	switch {
	case r.dir != "":
		files, err := filepath.Glob(filepath.Join(r.dir, "*.go"))
		if err != nil {
			return "", err
		}
		inputs = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		inputs = append(inputs, filepath.Join(r.dir, "go.mod"), filepath.Join(r.dir, "go.sum"))
	case r.own != "":
		files, versions, err := sources(r.own)
		if err != nil {
			return "", err
		}
		inputs, parts = files, append(append(parts, r.own), versions...)
	case r.c != "":
		inputs = append(inputs, r.c)
	case r.image != "":
		inputs = append(inputs, built[r.image], "tools/images/archive/archive.go")
		parts = append(parts, pauseImage)
	}
	for _, f := range inputs {
		data, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		parts = append(parts, hex.EncodeToString(sum[:]))
	}
	data, err := json.Marshal(parts)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// sources lists what a program of this module is built from: our own files, and the versions of the modules that others' are in.
func sources(program string) (files, versions []string, err error) {
	const format = `{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$.Dir}}/{{.}}
{{end}}{{else}}@{{.Path}} {{.Version}}
{{end}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", format, program)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS=linux", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list %s: %w", program, err)
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "@") {
			versions = append(versions, line)
		} else if line != "" {
			files = append(files, line)
		}
	}
	slices.Sort(versions)
	return files, slices.Compact(versions), nil
}

// forget removes older builds of the same helper from the cache.
func (b *builder) forget(name, keep string) {
	old, _ := filepath.Glob(filepath.Join(b.cache, name+"-????????????????"))
	for _, f := range old {
		if f != keep {
			os.Remove(f)
		}
	}
}

// goInstall builds a main package of a published module with that module's own dependency versions, checked by the checksum
// database as any module.
func goInstall(dir string, h helper) (string, error) {
	r := h.build
	if r.cgo {
		if err := needSeccomp(); err != nil {
			return "", err
		}
	}
	args := []string{"install", "-trimpath", "-tags", r.tags, "-ldflags", "-s -w " + r.ldflags, r.module + "@" + h.version}
	if err := command(dir, r.cgo, []string{"GOBIN=" + dir}, "go", args...); err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(r.module)), nil
}

// goBuild builds a module of this repository.
func goBuild(out string, h helper) error {
	return command(h.build.dir, h.build.cgo, nil, "go", "build", "-trimpath", "-tags", h.build.tags, "-ldflags", "-s -w "+h.build.ldflags, "-o", out, ".")
}

// compile builds a freestanding C program.
func compile(out, source string) error {
	return command("", false, nil, "gcc", "-Os", "-Wall", "-Wextra", "-Werror", "-static", "-nostdlib", "-ffreestanding",
		"-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-mgeneral-regs-only",
		"-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-Wl,-z,noexecstack", "-s", "-o", out, source)
}

// wrap puts the program into an image of its own.
func wrap(out, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	return archive.Write(out, archive.Image{
		Ref: pauseImage, Arch: runtime.GOARCH,
		Files:  []archive.File{{Path: "/pause", Mode: 0o755, Data: data}},
		Config: v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
	})
}

// flags are those of every build: compilers' as podo itself is compiled, so that packages which both have are compiled once.
func flags() string {
	all := []string{"-buildvcs=false"}
	for _, flag := range strings.Fields(os.Getenv("GOFLAGS")) {
		if strings.HasPrefix(flag, "-gcflags=") {
			all = append(all, flag)
		}
	}
	return strings.Join(all, " ")
}

func command(dir string, cgo bool, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+flags(), "GOOS=linux", "GOARCH="+runtime.GOARCH, "CGO_ENABLED=0")
	if cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not installed: on Debian, apt-get install %s", name, name)
	}
	return err
}

// needSeccomp makes sure that libseccomp's header and static library are there, installing Debian's package when they are not.
func needSeccomp() error {
	if exec.Command("pkg-config", "--exists", "libseccomp").Run() == nil {
		return nil
	}
	const advice = "runc needs libseccomp to build: apt-get install libseccomp-dev pkg-config gcc (or your distribution's packages of them)"
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return errors.New(advice)
	}
	fmt.Println("installing Debian's libseccomp-dev and pkg-config, which runc needs to build")
	_ = command("", false, nil, apt, "-q", "update") // an old list may do
	if err := command("", false, []string{"DEBIAN_FRONTEND=noninteractive"}, apt, "-q", "-y", "install", "libseccomp-dev", "pkg-config"); err != nil {
		return fmt.Errorf("%s: %w", advice, err)
	}
	return nil
}

// exists tells whether a file is there.
func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}
