package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"podo.dev/podo/tools/images/archive"
)

// userland is one static program with a link for each of its applets, and what a system's files say of users, names and itself.
func userland(ctx context.Context) ([]archive.File, error) {
	const program = "/bin/busybox"
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("Debian's busybox-static is needed (apt-get install busybox-static): %w", err)
	}
	list, err := exec.CommandContext(ctx, program, "--list-full").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list-full: %w", program, err)
	}
	text := func(at, content string) archive.File {
		return archive.File{Path: at, Mode: 0o644, Data: []byte(content)}
	}
	files := []archive.File{
		{Path: program, Mode: 0o755, Data: data},
		text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home/u:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
		text("/etc/group", "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n"),
		text("/etc/nsswitch.conf", "hosts: files dns\n"),
		// The image volume's test reads this of the kitten, whose upstream base it is.
		text("/etc/os-release", "NAME=\"stands in for Alpine Linux\"\n"),
		{Path: "/tmp", Mode: os.ModeDir | os.ModeSticky | 0o777},
		{Path: "/var/tmp", Mode: os.ModeDir | os.ModeSticky | 0o777},
		{Path: "/root", Mode: os.ModeDir | 0o700},
		{Path: "/bin/sh", Link: program},
	}
	for applet := range strings.FieldsSeq(string(list)) {
		// Upstream's has all of them in /bin; Debian's list says where programs of these names are usually.
		for _, p := range []string{"/" + strings.TrimPrefix(applet, "/"), "/bin/" + path.Base(applet)} {
			if p != program {
				files = append(files, archive.File{Path: p, Link: program})
			}
		}
	}
	return files, nil
}

// fromHost takes programs of this machine with the libraries that they are linked to. They stand in /usr/bin, before busybox's.
func fromHost(ctx context.Context, names ...string) ([]archive.File, error) {
	var files []archive.File
	for _, name := range names {
		p, err := exec.LookPath(name)
		if err == nil {
			p, err = filepath.EvalSymlinks(p)
		}
		if err != nil {
			return nil, fmt.Errorf("its program %s is not installed here (`make conformance` installs all on Debian): %w", name, err)
		}
		more, err := program(ctx, "/usr/bin/"+name, p)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

// program is a file of this machine at a place in the image, with its libraries.
func program(ctx context.Context, at, file string) ([]archive.File, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	files := []archive.File{{Path: at, Mode: 0o755, Data: data}}
	out, _ := exec.CommandContext(ctx, "ldd", file).Output() // fails for a static program, which has none
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "not found") {
			return nil, fmt.Errorf("%s lacks a library here: %s", file, strings.TrimSpace(line))
		}
		for word := range strings.FieldsSeq(line) {
			if !strings.HasPrefix(word, "/") {
				continue
			}
			data, err := os.ReadFile(word)
			if err != nil {
				return nil, err
			}
			files = append(files, archive.File{Path: word, Mode: 0o755, Data: data})
		}
	}
	return files, nil
}

// bash with links to it. Debian's busybox as a shell drops names of the environment that are no identifiers, which tests of ConfigMaps
// set, and prefers its own applets to programs of the same name: neither does upstream's.
func bash(ctx context.Context, links ...string) ([]archive.File, error) {
	files, err := fromHost(ctx, "bash")
	for _, l := range links {
		files = append(files, archive.File{Path: l, Link: "/usr/bin/bash"})
	}
	return files, err
}

// debian fetches packages without installing them and returns the folder that holds their files.
func debian(ctx context.Context, work string, packages ...string) (string, error) {
	dir := filepath.Join(work, "debian")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fetch := func() ([]byte, error) {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, packages...)...)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	if _, err := fetch(); err != nil { // an old list may name versions that are gone
		if text, err := exec.CommandContext(ctx, "apt-get", "-qq", "update").CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get update: %w\n%s", err, text)
		}
		if text, err := fetch(); err != nil {
			return "", fmt.Errorf("apt-get download: %w\n%s", err, text)
		}
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return "", err
	}
	for _, a := range archives {
		if text, err := exec.CommandContext(ctx, "dpkg-deb", "-x", a, dir).CombinedOutput(); err != nil {
			return "", fmt.Errorf("dpkg-deb: %w\n%s", err, text)
		}
	}
	return dir, nil
}

// tree is a folder's regular files at a place in the image.
func tree(at, dir string) ([]archive.File, error) {
	var files []archive.File
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		files = append(files, archive.File{Path: filepath.Join(at, rel), Mode: 0o644, Data: data})
		return err
	})
	if err == nil && len(files) == 0 {
		err = errors.New(dir + " holds no files")
	}
	return files, err
}
