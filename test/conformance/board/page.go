package board

import (
	"fmt"
	"strings"

	"podo.dev/podo/test/conformance/suite"
)

// Markdown is the whole page.
func Markdown(tests []suite.Test, results map[string]suite.Result, runs []suite.Session) string {
	var b strings.Builder
	all := Count(tests, results, func(suite.Test) string { return "" })[""]
	if all == nil {
		all = &Tally{}
	}
	b.WriteString("# Conformance\n\nUpstream's own end-to-end suite of Kubernetes 1.37.2, the tests that carry the conformance label. This page is generated.\n\n")
	fmt.Fprintf(&b, "**%d of %d pass**, %d fail, %d did not run.\n\n", all.Passed, all.Total(), all.Failed, all.NotRun)
	b.WriteString("A test that needs what the cluster does not serve, or keeps without acting on it, or a second node, is not run, and counts as not run.\n")
	origin(&b, tests, results, runs)
	b.WriteString("\n## By group\n\n")
	table(&b, "group", Count(tests, results, suite.Test.SIG))
	b.WriteString("\n## By file\n\n")
	table(&b, "file", Count(tests, results, func(t suite.Test) string { return strings.TrimPrefix(t.File, "test/e2e/") }))
	b.WriteString("\n## Failures by cause\n\n")
	failures(&b, groups(tests, results, suite.Failed))
	secondTry(&b, tests, results, runs)
	b.WriteString("\n## Not run, by reason\n\n")
	for _, g := range groups(tests, results, suite.NotRun) {
		fmt.Fprintf(&b, "- **%d**: %s\n", len(g.results), escape(g.cause))
	}
	b.WriteString("\n## Passed\n\n")
	for _, t := range tests {
		if results[t.Name].State == suite.Passed {
			fmt.Fprintf(&b, "- %s\n", t.Name)
		}
	}
	return b.String()
}

// origin says which runs the results are of, and what those lacked. Results of several runs are told apart: what passed at one
// commit is no promise of another.
func origin(b *strings.Builder, tests []suite.Test, results map[string]suite.Result, runs []suite.Session) {
	count := make([]int, len(runs))
	commits := map[string]bool{}
	for _, t := range tests {
		if r, ok := results[t.Name]; ok {
			if i := r.Of(runs); i >= 0 {
				count[i]++
				commits[runs[i].Commit] = true
			}
		}
	}
	b.WriteString("\n## Where this comes from\n\n| run | commit | server | results | ended | command |\n|---|---|---|---:|---|---|\n")
	lacks := map[string]bool{}
	for i, s := range runs {
		if count[i] == 0 && i < len(runs)-1 {
			continue
		}
		ended := s.Ended
		if ended == "" {
			ended = "killed, or still going on"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d | %s | `%s` |\n",
			s.Date.UTC().Format("2006-01-02 15:04"), orUnknown(s.Commit), s.Server, count[i], escape(ended), escape(s.Command))
		for _, l := range s.StandIn {
			lacks["not there in the cluster, and stood in for: "+l] = true
		}
		for _, u := range s.Unmade {
			lacks[fmt.Sprintf("image %s could not be made (%s); tests of these files use it: %s", u.Ref, suite.Line(u.Reason), strings.Join(suite.Users(u.ID, tests), ", "))] = true
		}
	}
	if len(commits) > 1 {
		fmt.Fprintf(b, "\nThe results are of %d commits: each test's last result counts.\n", len(commits))
	}
	if len(lacks) > 0 {
		b.WriteString("\n")
	}
	for _, l := range sortedKeys(lacks) {
		fmt.Fprintf(b, "- %s\n", escape(l))
	}
}

func orUnknown(commit string) string {
	if commit == "" {
		return "not told by the cluster"
	}
	return commit
}

func table(b *strings.Builder, head string, counts map[string]*Tally) {
	fmt.Fprintf(b, "| %s | passed | failed | not run | of |\n|---|---:|---:|---:|---:|\n", head)
	for _, k := range sortedKeys(counts) {
		t := counts[k]
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d |\n", k, t.Passed, t.Failed, t.NotRun, t.Total())
	}
}

func failures(b *strings.Builder, all []group) {
	if len(all) == 0 {
		b.WriteString("None.\n")
	}
	for _, g := range all {
		fmt.Fprintf(b, "- **%d**: %s\n", len(g.results), escape(g.cause))
		for _, r := range g.results {
			fmt.Fprintf(b, "  - %s (%s): %s\n", r.Name, r.Where, escape(suite.Tidy(r.Reason)))
		}
	}
}

// secondTry names tests that pass, but failed before at the same commit: they are not to be trusted.
func secondTry(b *strings.Builder, tests []suite.Test, results map[string]suite.Result, runs []suite.Session) {
	var lines []string
	for _, t := range tests {
		r := results[t.Name]
		if r.State != suite.Passed || r.Earlier == nil {
			continue
		}
		was, is := r.Earlier.Of(runs), r.Of(runs)
		if was >= 0 && is >= 0 && runs[was].Commit == runs[is].Commit {
			lines = append(lines, fmt.Sprintf("- %s: %s", r.Name, escape(r.Earlier.Reason)))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n## Passed when tried again\n\nThese failed before at the same commit, and count as passed.\n\n%s\n", strings.Join(lines, "\n"))
	}
}
