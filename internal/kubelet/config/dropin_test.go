package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDropIns(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	base := write("base.yaml", head+"maxPods: 50\nkubeReserved: {cpu: 100m, memory: 1Gi}\nallowedUnsafeSysctls: [a, b]\n")
	write("10-first.conf", head+"maxPods: 60\nkubeReserved: {memory: 2Gi}\n")
	write("20-second.conf", head+"maxPods: 70\nallowedUnsafeSysctls: [c]\n")
	write("99.yaml", "this is none")
	text, err := Read(base, dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.MaxPods, c.KubeReserved, c.AllowedUnsafeSysctls); got != "70 map[cpu:100m memory:2Gi] [c]" {
		t.Error(got)
	}
	if text, err = Read("", dir); err != nil {
		t.Fatal(err)
	}
	if c, err = Parse(text); err != nil || c.MaxPods != 70 {
		t.Errorf("drop-ins alone: %v", err)
	}
	for body, want := range map[string]string{
		head + "maxPod: 1\n":              `unknown field "maxPod"`,
		"maxPods: 1\n":                    "apiVersion",
		head + "maxPods: 1\nmaxPods: 2\n": "already set",
	} {
		write("30-bad.conf", body)
		if _, err := Read(base, dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "30-bad.conf") {
			t.Errorf("%q: %v", body, err)
		}
	}
	if _, err := Read(base, filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there was taken")
	}
}
