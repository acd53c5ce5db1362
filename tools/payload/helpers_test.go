package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The versions that the module files of our own programs ask for are the ones that the table states.
func TestModulesAgree(t *testing.T) {
	for file, want := range map[string]string{
		"../kubectl/go.mod":    "k8s.io/kubectl " + kubectlVersion,
		"../containerd/go.mod": containerd + " " + containerdVersion,
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), want+"\n") {
			t.Errorf("%s does not require %s", file, want)
		}
	}
}

func TestTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range helpers {
		set := 0
		for _, s := range []string{h.build.module, h.build.dir, h.build.own, h.build.c, h.build.image} {
			if s != "" {
				set++
			}
		}
		if set != 1 || h.version == "" || seen[h.name] {
			t.Errorf("%s: needs one recipe, a version and a name of its own", h.name)
		}
		if h.build.image != "" && !seen[h.build.image] {
			t.Errorf("%s: wraps %s, which must come before it", h.name, h.build.image)
		}
		seen[h.name] = true
	}
}

// A key changes with whatever changes the bytes, and with nothing else.
func TestKey(t *testing.T) {
	t.Chdir("../..")
	b := &builder{goVersion: "go1"}
	key := func(h helper) string {
		t.Helper()
		k, err := b.key(h, nil)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	h := helper{name: "x", version: "v1", build: recipe{module: "m", tags: "t"}}
	base := key(h)
	other := h
	other.version = "v2"
	if key(other) == base {
		t.Error("a new version keeps the key")
	}
	other = h
	other.build.tags = "u"
	if key(other) == base {
		t.Error("other tags keep the key")
	}
	other = h
	other.lazy = true
	if key(other) != base {
		t.Error("when it is unpacked changed how it is built")
	}
}

// A program with a module of its own is built anew when any of its files changes, and not for the sake of its tests.
func TestKeyOfAModule(t *testing.T) {
	dir := t.TempDir()
	b, h := &builder{goVersion: "go1"}, helper{name: "x", version: "v1", build: recipe{dir: dir}}
	seen := map[string]string{}
	for _, file := range []string{"go.mod", "go.sum", "main.go", "other.go", "main_test.go"} {
		for _, text := range []string{"", "changed"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if file == "go.mod" {
				continue // go.sum is not there yet
			}
			key, err := b.key(h, nil)
			if err != nil {
				t.Fatal(err)
			}
			if before := seen[key]; (before != "") != (file == "main_test.go") {
				t.Errorf("with %s %q the key is that of %q", file, text, before)
			}
			seen[key] = file + " " + text
		}
	}
}

// A program of this module is built anew when any of its files or a library's version changes.
func TestSources(t *testing.T) {
	t.Chdir("../..")
	files, versions, err := sources("podo.dev/podo/cmd/podo-net")
	if err != nil {
		t.Fatal(err)
	}
	has := func(list []string, end string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, end) })
	}
	if !has(files, "/cmd/podo-net/main.go") || !has(files, "/internal/podnet/lease/lease.go") || has(files, "_test.go") || has(files, "/netlink") {
		t.Errorf("files: %v", files)
	}
	if !has(versions, "@github.com/vishvananda/netlink v") {
		t.Errorf("versions: %v", versions)
	}
}
