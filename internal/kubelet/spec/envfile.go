package spec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// maxEnvFile bounds how much of a file of variables is read, since a container wrote it.
const maxEnvFile = 1 << 20

// fromFile is a variable from a file that an earlier container left in a volume; ok is false for an optional one that is missing.
func (b *Builder) fromFile(pod *v1.Pod, ref *v1.FileKeySelector) (value string, ok bool, err error) {
	dir, _, err := b.c.Volumes.Path(pod, ref.VolumeName)
	if err != nil || !mounted(pod, ref.VolumeName) {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName)
	}
	optional := ref.Optional != nil && *ref.Optional
	text, err := readInside(dir, ref.Path)
	if optional && errors.Is(err, fs.ErrNotExist) { // as the API says of the field; upstream's kubelet fails
		return "", false, nil
	}
	if err == nil {
		value, err = parseEnvFile(text, ref.Key)
	}
	if err != nil {
		b.c.Logger.Warn("cannot read a file of environment variables", "pod", full(pod), "volume", ref.VolumeName, "path", ref.Path, "err", err)
		return "", false, errors.New("couldn't parse env file") // upstream's words; the file's content is not for everybody
	}
	if value != "" || optional {
		return value, value != "", nil
	}
	return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, filepath.Join(dir, ref.Path))
}

// mounted tells whether any container mounts a volume: otherwise the volume does not exist on the node.
func mounted(pod *v1.Pod, volume string) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if slices.ContainsFunc(list[i].VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume }) {
				return true
			}
		}
	}
	return false
}

// readInside reads a file of a volume. The volume is the root of its path and of all links in it, so that none leads out.
func readInside(dir, path string) (string, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(root) //nolint:errcheck // nothing was written
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, // a pipe would keep the kubelet waiting for who writes into it
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	if err == nil && len(b) > maxEnvFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxEnvFile)
	}
	return string(b), err
}

// parseEnvFile finds a variable in lines NAME='value'. The text between the quotes is taken as it is, also over several lines.
// Blanks may stand before a name, blanks and a comment after the value; a blank before the value makes it empty, as in a shell.
// Lines after the wanted one are not read.
func parseEnvFile(text, key string) (string, error) {
	line := 0
	next := func() (s string, ok bool) {
		if text == "" {
			return "", false
		}
		line++
		s, text, _ = strings.Cut(text, "\n")
		return strings.TrimSuffix(s, "\r"), true
	}
	bad := func(why string) error { return fmt.Errorf("line %d: %s", line, why) }
	for {
		s, ok := next()
		if !ok {
			return "", nil
		}
		if s = strings.TrimLeft(s, " \t"); s == "" || s[0] == '#' {
			continue
		}
		name, rest, ok := strings.Cut(s, "=")
		switch {
		case !ok:
			return "", bad("there is no '='")
		case strings.TrimRight(name, " \t") != name || name == "":
			return "", bad("a name must stand directly before '='")
		case rest != "" && strings.TrimLeft(rest, " \t") != rest:
			if name == key {
				return "", nil
			}
			continue
		case !strings.HasPrefix(rest, "'"):
			return "", bad("a value must stand in single quotes")
		}
		value, after, closed := strings.Cut(rest[1:], "'")
		for !closed {
			more, ok := next()
			if !ok {
				return "", bad("a quote is not closed")
			}
			var part string
			part, after, closed = strings.Cut(more, "'")
			value += "\n" + part
		}
		if after = strings.TrimLeft(after, " \t"); after != "" && after[0] != '#' {
			return "", bad("there is something behind the closing quote")
		}
		if name == key {
			return value, nil
		}
	}
}
