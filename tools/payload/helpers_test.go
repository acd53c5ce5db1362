package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The version that kubectl's module file asks for is the one that the table states.
func TestKubectlModuleAgrees(t *testing.T) {
	data, err := os.ReadFile("../kubectl/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "k8s.io/kubectl " + kubectlVersion + "\n"; !strings.Contains(string(data), want) {
		t.Errorf("tools/kubectl/go.mod does not require %s", want)
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
