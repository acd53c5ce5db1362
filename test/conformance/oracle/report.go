package oracle

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Report gathers differences by kind, with the smallest example of each.
type Report struct {
	mu    sync.Mutex
	cases int
	kinds map[string]*finding
}

type finding struct {
	Difference
	times   int
	example string
}

var (
	inBrackets = regexp.MustCompile(`\[[^\]]*\]`)
	inQuotes   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'`)
	inBraces   = regexp.MustCompile(`\{.*\}|map\[.*\]`)
	aNumber    = regexp.MustCompile(`-?\d+(\.\d+)?`)
	aDiff      = regexp.MustCompile(`(?s)\n.*`)
)

// pattern drops what varies from case to case, so that equal causes have equal texts.
func pattern(s string) string {
	s = aDiff.ReplaceAllString(s, "↵")
	s = inQuotes.ReplaceAllString(s, "“”")
	s = inBraces.ReplaceAllString(s, "{}")
	s = inBrackets.ReplaceAllString(s, "[*]")
	s = aNumber.ReplaceAllString(s, "N")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}

// signature names a kind of difference. An empty side says nothing on the field.
func signature(what string, d Difference) string {
	where := inBrackets.ReplaceAllString(d.Where, "[*]")
	return fmt.Sprintf("%s | %s | upstream: %s | podo: %s", what, where, pattern(d.Upstream), pattern(d.Podo))
}

func signatures(what string, list []Difference) map[string]Difference {
	out := map[string]Difference{}
	for _, d := range list {
		out[signature(what, d)] = d
	}
	return out
}

// ran counts a case.
func (r *Report) ran() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cases++
}

// found notes differences; example is called for a kind that is new.
func (r *Report) found(what string, list []Difference, example func(sig string) string) {
	for sig, d := range signatures(what, list) {
		r.mu.Lock()
		if r.kinds == nil {
			r.kinds = map[string]*finding{}
		}
		f := r.kinds[sig]
		known := f != nil
		if !known {
			f = &finding{Difference: d}
			r.kinds[sig] = f
		}
		f.times++
		r.mu.Unlock()
		if !known {
			f.example = example(sig)
		}
	}
}

// fail prints the findings, most frequent first, and fails the test for each that no decision covers.
func (r *Report) fail(t *testing.T) {
	t.Helper()
	sigs := make([]string, 0, len(r.kinds))
	for s := range r.kinds {
		sigs = append(sigs, s)
	}
	sort.Slice(sigs, func(i, j int) bool {
		a, b := r.kinds[sigs[i]], r.kinds[sigs[j]]
		if a.times != b.times {
			return a.times > b.times
		}
		return sigs[i] < sigs[j]
	})
	undecided := 0
	for _, s := range sigs {
		f := r.kinds[s]
		if reason := decided(s); reason != "" {
			t.Logf("decided (%s): %d× %s", reason, f.times, s)
			continue
		}
		undecided++
		t.Errorf("%d× %s\n%s", f.times, s, indent(f.example))
	}
	t.Logf("%d cases, %d kinds of difference, %d of them decided", r.cases, len(sigs), len(sigs)-undecided)
}

func indent(s string) string {
	return "        " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n        ")
}

// manifest is an object as YAML, without what the server sets.
func manifest(obj runtime.Object) string {
	obj = obj.DeepCopyObject()
	m := meta1(obj)
	m.SetUID("")
	t := tree(obj)
	if o, ok := t.(map[string]any); ok {
		delete(o, "kind")
		delete(o, "apiVersion")
		if s, ok := o["status"].(map[string]any); ok && len(s) == 0 {
			delete(o, "status")
		}
		if md, ok := o["metadata"].(map[string]any); ok {
			delete(md, "creationTimestamp")
			delete(md, "namespace")
			if len(md) == 1 && md["name"] != nil {
				delete(o, "metadata")
			}
		}
	}
	b, err := yaml.Marshal(t)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
