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
	page := Markdown(tests, results(suite.Passed, suite.Failed, suite.NotRun), suite.About{Date: time.Unix(0, 0), Commit: "abc"})
	for _, want := range []string{
		"**1 of 4 pass**, 1 fail, 2 did not run",
		"| node | 1 | 1 | 0 | 2 |", "| apps | 0 | 0 | 2 | 2 |", "| common/node/pods.go | 1 | 1 | 0 | 2 |",
		"- **1**: not served: jobs.batch", "- **1**: not picked, or the run ended before it", `- **1**: pod "…" at …: N`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in:\n%s", want, page)
		}
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
