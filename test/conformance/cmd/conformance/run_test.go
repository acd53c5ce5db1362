package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podo.dev/podo/test/conformance/suite"
)

var catalog = []suite.Test{{Name: "[sig-node] Pods a [Conformance]"}, {Name: "[sig-node] Pods b [Conformance]"}, {Name: "[sig-apps] Job c [Conformance]"}}

func TestPick(t *testing.T) {
	list := filepath.Join(t.TempDir(), "quick.txt")
	if err := os.WriteFile(list, []byte("# why\n[sig-node] Pods b [Conformance]\n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    options
		want int
		err  string
	}{
		{options{}, 3, ""},
		{options{focus: "Pods"}, 2, ""},
		{options{focus: "Pod ("}, 0, "FOCUS"},
		{options{focus: "nothing has this name"}, 0, "no test"},
		{options{only: list}, 1, ""},
		{options{only: list, focus: "Job"}, 0, "upstream has no test"},
	} {
		got, err := c.o.pick(append([]suite.Test{}, catalog...))
		if len(got) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %d tests, %v; want %d, %q", c.o, len(got), err, c.want, c.err)
		}
	}
}

// Of the tests that must pass, one that fails, one that is not run and one without a result are named.
func TestAllMustPass(t *testing.T) {
	err := allPassed(catalog, map[string]suite.Result{
		catalog[0].Name: {State: suite.Failed, Reason: "broken"},
		catalog[1].Name: {State: suite.NotRun, Reason: "not served: pods"},
	})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("%v", err)
	}
	if err := allPassed(catalog[:1], map[string]suite.Result{catalog[0].Name: {State: suite.Passed}}); err != nil {
		t.Error(err)
	}
}

func TestCommandIsTheOneToRepeat(t *testing.T) {
	o, err := parse([]string{"-focus", "Pods", "-procs", "6", "-per-test", "100s", "-failed"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := o.command(), "make conformance FOCUS='Pods' PROCS=6 CONFORMANCE_FLAGS='-per-test 1m40s -failed'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPodoIsKept(t *testing.T) {
	dir := t.TempDir()
	if _, err := keepPodo(filepath.Join(dir, "none"), dir); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("no podo: %v", err)
	}
	src := filepath.Join(dir, "src")
	if err := os.WriteFile(src, []byte("one"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		kept, err := keepPodo(src, dir)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(kept); err != nil || string(b) != "one" {
			t.Errorf("%q, %v", b, err)
		}
	}
}
