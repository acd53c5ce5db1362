package board

import (
	"strings"
	"testing"
	"time"

	"podo.dev/podo/test/conformance/suite"
)

var tests = []suite.Test{
	{Name: "[sig-node] Pods a [Conformance]", File: "test/e2e/common/node/pods.go"},
	{Name: "[sig-node] Pods b [Conformance]", File: "test/e2e/common/node/pods.go"},
	{Name: "[sig-apps] Job c [Conformance]", File: "test/e2e/apps/job.go"},
	{Name: "[sig-apps] Job d [Conformance]", File: "test/e2e/apps/job.go"},
}

func results(states ...suite.State) map[string]suite.Result {
	out := map[string]suite.Result{}
	for i, s := range states {
		if s != "" {
			out[tests[i].Name] = suite.Result{Name: tests[i].Name, State: s, Reason: map[suite.State]string{suite.Failed: `pod "x-1" at 10.0.0.1: 3s`, suite.NotRun: "not served: jobs.batch"}[s]}
		}
	}
	return out
}

func TestEveryTestIsOnTheBoard(t *testing.T) {
	page := Markdown(tests, results(suite.Passed, suite.Failed, suite.NotRun), []suite.Session{{Date: time.Time{}, Commit: "abc", Ended: "complete", Command: "make it"}})
	for _, want := range []string{
		"**1 of 4 pass**, 1 fail, 2 did not run",
		"| node | 1 | 1 | 0 | 2 |", "| apps | 0 | 0 | 2 | 2 |", "| common/node/pods.go | 1 | 1 | 0 | 2 |",
		"| 0001-01-01 00:00 | abc |  | 3 | complete | `make it` |",
		"- **1**: not served: jobs.batch", "- **1**: not picked, or the run ended before it", `- **1**: pod "…" at …: N`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in:\n%s", want, page)
		}
	}
}

func TestSeveralRunsAreToldApart(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	runs := []suite.Session{{Date: day(1), Commit: "a", Ended: "cut short"}, {Date: day(3), Commit: "b"}, {Date: day(5), Commit: "b"}}
	failed := suite.Result{Name: tests[1].Name, State: suite.Failed, Reason: "slow", At: day(4)}
	page := Markdown(tests, map[string]suite.Result{
		tests[0].Name: {Name: tests[0].Name, State: suite.Passed, At: day(2), Earlier: &suite.Result{At: day(1).Add(-1)}},
		tests[1].Name: {Name: tests[1].Name, State: suite.Passed, At: day(6), Earlier: &failed},
	}, runs)
	for _, want := range []string{"| 2026-01-01 00:00 | a |  | 1 | cut short |", "| 2026-01-05 00:00 | b |  | 1 | killed", "of 2 commits", "- [sig-node] Pods b [Conformance]: slow"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in:\n%s", want, page)
		}
	}
	if strings.Contains(page, "2026-01-03") {
		t.Error("a run without a result that counts is on the board")
	}
}

func TestDiffNamesWhatChanged(t *testing.T) {
	lines, worse := Diff(results(suite.Passed, suite.Failed, suite.NotRun), results(suite.Failed, suite.Passed, ""))
	if len(lines) != 2 || !worse || !strings.HasPrefix(lines[0], "passed → failed: [sig-node] Pods a") || !strings.HasPrefix(lines[1], "failed → passed") {
		t.Errorf("%q, worse %v", lines, worse)
	}
	if lines, worse := Diff(results(suite.NotRun), results(suite.Passed)); len(lines) != 1 || worse {
		t.Errorf("%q, worse %v", lines, worse)
	}
}
