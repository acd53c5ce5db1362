package scripts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPromises keeps docs/lifecycle.md honest about its last column: what it links to exists, each Go test that a row names stands in
// a file that the row links to, and no lifecycle script or story is left out.
func TestPromises(t *testing.T) {
	const page = "../../docs/lifecycle.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	link, name := regexp.MustCompile(`\]\(([^)]+)\)`), regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	rows := 0
	for _, line := range strings.Split(string(text), "\n") {
		var code strings.Builder
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			target := filepath.Join(filepath.Dir(page), m[1])
			switch body, err := os.ReadFile(target); {
			case err == nil:
				code.Write(body)
			case !dirExists(target):
				t.Errorf("%s does not exist: %s", m[1], line)
			}
		}
		for _, m := range name.FindAllStringSubmatch(line, -1) {
			if code.Len() > 0 && !strings.Contains(code.String(), "func "+m[1]+"(") {
				t.Errorf("%s is in no file that its row links to: %s", m[1], line)
			}
		}
		if strings.HasPrefix(line, "| ") && code.Len() > 0 {
			rows++
		}
	}
	if rows < 40 {
		t.Errorf("%d promises with tests were found: has the page another shape?", rows)
	}
	for _, pattern := range []string{"*.txt", "../e2e/testdata/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, f := range files {
			if !strings.Contains(string(text), "["+filepath.Base(f)+"]") {
				t.Errorf("%s keeps a promise that the page does not name", f)
			}
		}
	}
}

func dirExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
