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
	s := hexID.ReplaceAllString(suite.Tidy(reason), "…")
	s = address.ReplaceAllString(s, "…")
	s = e2eName.ReplaceAllString(s, "…")
	s = quoted.ReplaceAllString(s, `"…"`)
	s = number.ReplaceAllString(s, "N")
	if r := []rune(s); len(r) > 160 {
		s = string(r[:160]) + "…"
	}
	return s
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

// group is the results of one state that have one cause, as the board lists them.
type group struct {
	cause   string
	results []suite.Result
}

// groups puts the results of a state together by cause, the largest group first.
func groups(tests []suite.Test, results map[string]suite.Result, state suite.State) []group {
	by := map[string][]suite.Result{}
	for _, t := range tests {
		r, ok := results[t.Name]
		if !ok {
			r = suite.Result{Name: t.Name, File: t.File, State: suite.NotRun, Reason: "not picked, or the run ended before it"}
		}
		if r.State == state {
			by[Cause(r.Reason)] = append(by[Cause(r.Reason)], r)
		}
	}
	var out []group
	for _, c := range sortedKeys(by) {
		out = append(out, group{c, by[c]})
	}
	slices.SortStableFunc(out, func(a, b group) int { return cmp.Compare(len(b.results), len(a.results)) })
	return out
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
