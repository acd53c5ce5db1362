// Package board makes the scoreboard of a conformance report, and tells two reports apart.
package board

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"podo.dev/podo/test/conformance/suite"
)

// Tally counts a group of tests.
type Tally struct{ Passed, Failed, NotRun int }

func (t *Tally) add(s suite.State) {
	switch s {
	case suite.Passed:
		t.Passed++
	case suite.Failed:
		t.Failed++
	default:
		t.NotRun++
	}
}

// Total is how many tests the group has.
func (t Tally) Total() int { return t.Passed + t.Failed + t.NotRun }

// Count tallies tests by a key. A test without a result has not run.
func Count(tests []suite.Test, results map[string]suite.Result, key func(suite.Test) string) map[string]*Tally {
	out := map[string]*Tally{}
	for _, t := range tests {
		k := key(t)
		if out[k] == nil {
			out[k] = &Tally{}
		}
		out[k].add(results[t.Name].State)
	}
	return out
}

var (
	address = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b`)
	hexID   = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	quoted  = regexp.MustCompile(`"[^"]*"`)
	number  = regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m)?\b`)
	e2eName = regexp.MustCompile(`\b[a-z-]+-\d{3,}\b`)
)

// Cause makes reasons equal that differ in names and numbers only.
func Cause(reason string) string {
	s := hexID.ReplaceAllString(reason, "…")
	s = address.ReplaceAllString(s, "…")
	s = e2eName.ReplaceAllString(s, "…")
	s = quoted.ReplaceAllString(s, `"…"`)
	s = number.ReplaceAllString(s, "N")
	if r := []rune(s); len(r) > 160 {
		s = string(r[:160]) + "…"
	}
	return s
}

// Markdown is the whole page.
func Markdown(tests []suite.Test, results map[string]suite.Result, about suite.About) string {
	var b strings.Builder
	all := Count(tests, results, func(suite.Test) string { return "" })[""]
	if all == nil {
		all = &Tally{}
	}
	fmt.Fprintf(&b, "# Conformance\n\nUpstream's own end-to-end suite of Kubernetes 1.37.2, the tests that carry the conformance label. This page is generated.\n\n")
	fmt.Fprintf(&b, "**%d of %d pass**, %d fail, %d did not run.\n\n", all.Passed, all.Total(), all.Failed, all.NotRun)
	fmt.Fprintf(&b, "- date: %s\n- commit: %s\n- server: %s\n- command: `%s`\n", about.Date.UTC().Format("2006-01-02 15:04"), about.Commit, about.Server, about.Command)
	for _, s := range about.StandIn {
		fmt.Fprintf(&b, "- not there in the cluster, and stood in for: %s\n", s)
	}
	b.WriteString("\nA test that needs a resource which the cluster does not serve is not run, and counts as not run.\n")
	b.WriteString("\n## By group\n\n")
	table(&b, "group", Count(tests, results, suite.Test.SIG))
	b.WriteString("\n## By file\n\n")
	table(&b, "file", Count(tests, results, func(t suite.Test) string { return strings.TrimPrefix(t.File, "test/e2e/") }))
	b.WriteString("\n## Failures by cause\n\n")
	grouped(&b, tests, results, suite.Failed)
	b.WriteString("\n## Not run, by reason\n\n")
	grouped(&b, tests, results, suite.NotRun)
	b.WriteString("\n## Passed\n\n")
	for _, t := range tests {
		if results[t.Name].State == suite.Passed {
			fmt.Fprintf(&b, "- %s\n", t.Name)
		}
	}
	return b.String()
}

func table(b *strings.Builder, head string, counts map[string]*Tally) {
	fmt.Fprintf(b, "| %s | passed | failed | not run | of |\n|---|---:|---:|---:|---:|\n", head)
	for _, k := range sortedKeys(counts) {
		t := counts[k]
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d |\n", k, t.Passed, t.Failed, t.NotRun, t.Total())
	}
}

func grouped(b *strings.Builder, tests []suite.Test, results map[string]suite.Result, state suite.State) {
	by := map[string][]suite.Result{}
	for _, t := range tests {
		r, ok := results[t.Name]
		switch {
		case !ok && state == suite.NotRun:
			r = suite.Result{Name: t.Name, Reason: "not picked, or the run ended before it"}
		case !ok || r.State != state:
			continue
		}
		c := Cause(r.Reason)
		by[c] = append(by[c], r)
	}
	causes := sortedKeys(by)
	slices.SortStableFunc(causes, func(a, c string) int { return cmp.Compare(len(by[c]), len(by[a])) })
	if len(causes) == 0 {
		b.WriteString("None.\n")
	}
	for _, c := range causes {
		fmt.Fprintf(b, "- **%d**: %s\n", len(by[c]), escape(c))
		if state == suite.NotRun {
			continue
		}
		for _, r := range by[c] {
			fmt.Fprintf(b, "  - %s (%s): %s\n", r.Name, r.Where, escape(r.Reason))
		}
	}
}

func escape(s string) string { return strings.NewReplacer("<", "&lt;", "|", "\\|").Replace(s) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Diff names every test whose state differs between two reports, a line each, and says whether any got worse.
func Diff(old, now map[string]suite.Result) (lines []string, worse bool) {
	names := map[string]bool{}
	for n := range old {
		names[n] = true
	}
	for n := range now {
		names[n] = true
	}
	state := func(m map[string]suite.Result, n string) suite.State {
		if r, ok := m[n]; ok {
			return r.State
		}
		return suite.NotRun
	}
	for _, n := range sortedKeys(names) {
		was, is := state(old, n), state(now, n)
		if was == is {
			continue
		}
		if was == suite.Passed {
			worse = true
		}
		line := fmt.Sprintf("%s → %s: %s", was, is, n)
		if r := now[n]; is != suite.Passed && r.Reason != "" {
			line += " (" + r.Reason + ")"
		}
		lines = append(lines, line)
	}
	return lines, worse
}
