// Package suite runs upstream's end-to-end suite, a test at a time: each in a process of its own, so that one can be stopped, a
// run can go on where an earlier one ended, and what one test leaves behind does not reach the next.
package suite

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// Test is one of the tests that carry the conformance label.
type Test struct {
	Name string `json:"codename"` // the whole text that ginkgo knows it by
	File string `json:"file"`
}

// SIG is the group that owns the test, from its name: "node".
func (t Test) SIG() string {
	_, rest, _ := strings.Cut(t.Name, "[sig-")
	sig, _, _ := strings.Cut(rest, "]")
	return sig
}

// Serial says that nothing else may run meanwhile.
func (t Test) Serial() bool { return strings.Contains(t.Name, "[Serial]") }

// source is the pinned module's folder.
var source = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("find k8s.io/kubernetes (run this in test/conformance): %w", err)
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", errors.New("k8s.io/kubernetes is not downloaded: `make conformance` does that")
	}
	return dir, nil
})

// Catalog lists every test with the label, as upstream publishes it in the pinned module. It must run inside of this module.
func Catalog() ([]Test, error) {
	dir, err := source()
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "test/conformance/testdata/conformance.yaml"))
	if err != nil {
		return nil, err
	}
	var tests []Test
	if err := yaml.Unmarshal(b, &tests); err != nil {
		return nil, fmt.Errorf("upstream's conformance.yaml: %w", err)
	}
	for i := range tests {
		tests[i].Name = strings.Join(strings.Fields(tests[i].Name), " ")
	}
	return tests, nil
}

// Users names the files with tests that use an image, by upstream's constant for it.
func Users(id string, tests []Test) []string {
	dir, err := source()
	if err != nil {
		return nil
	}
	uses := regexp.MustCompile(`\bimageutils\.` + id + `\b`)
	var out []string
	for _, t := range tests {
		file := strings.TrimPrefix(t.File, "test/e2e/")
		if slices.Contains(out, file) {
			continue
		}
		if b, err := os.ReadFile(filepath.Join(dir, t.File)); err == nil && uses.Match(b) {
			out = append(out, file)
		}
	}
	return out
}
