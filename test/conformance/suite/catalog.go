// Package suite runs upstream's end-to-end suite, a test at a time: each in a process of its own, so that one can be stopped, a
// run can go on where an earlier one ended, and what one test leaves behind does not reach the next.
package suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

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

// Catalog lists every test with the label, as upstream publishes it in the pinned module. It must run inside of this module.
func Catalog() ([]Test, error) {
	out, err := exec.Command("go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return nil, fmt.Errorf("find k8s.io/kubernetes (run this in test/conformance): %w", err)
	}
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "test/conformance/testdata/conformance.yaml"))
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
