package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// specReport is the part of ginkgo's JSON report that counts.
type specReport struct {
	SpecReports []struct {
		LeafNodeType string
		State        string
		RunTime      time.Duration
		Failure      failure
	}
}

type failure struct {
	Message  string
	Location struct {
		FileName   string
		LineNumber int
	}
	// AdditionalFailure is what a test said when its time was over: better than that it was.
	AdditionalFailure *struct{ Failure failure }
}

// readReport reads what the suite left of a test.
func readReport(file string) ([]specReport, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var parsed []specReport
	return parsed, json.Unmarshal(b, &parsed)
}

// judge takes the verdict out of ginkgo's report: that of the test, or the failure of the set-up.
func judge(r *Result, reports []specReport) {
	ran := false
	for _, rep := range reports {
		for _, s := range rep.SpecReports {
			switch s.State {
			case "skipped", "pending":
				if s.LeafNodeType == "It" && s.Failure.Message != "" && !ran {
					r.State, r.Reason = NotRun, "skips itself: "+Line(s.Failure.Message)
				}
			case "passed":
				if s.LeafNodeType == "It" {
					ran = true
					r.State, r.Seconds, r.Reason = Passed, s.RunTime.Seconds(), ""
				}
			default:
				r.State, r.Reason, r.Where = Failed, s.Failure.reason(s.State), s.Failure.where()
				return
			}
		}
	}
	if !ran && r.Reason == "" {
		r.State, r.Reason = Failed, "no test of this name in the suite"
	}
}

func (f failure) reason(state string) string {
	if state != "timedout" {
		return Line(f.Message)
	}
	if f.AdditionalFailure != nil {
		f = f.AdditionalFailure.Failure
		_, f.Message, _ = strings.Cut(f.Message, "\n") // the first line says that there was a first failure
	}
	return "timed out: " + Line(f.Message)
}

func (f failure) where() string {
	if f.AdditionalFailure != nil {
		f = f.AdditionalFailure.Failure
	}
	_, file, _ := strings.Cut(f.Location.FileName, "/test/e2e/")
	return fmt.Sprintf("%s:%d", file, f.Location.LineNumber)
}

// failedEvent is an event about something that failed, as the suite lists events of a failed test's namespace.
var failedEvent = regexp.MustCompile(`event for [^:]+: \{[^}]*\} (Failed\w*: .*)`)

// lastEvent is the last of those in a test's output: mostly the cause of a test that waited in vain.
func lastEvent(out []byte) string {
	all := failedEvent.FindAllSubmatch(out, -1)
	if len(all) == 0 {
		return ""
	}
	return Line(string(all[len(all)-1][1]))
}

var spaces = regexp.MustCompile(`\s+`)

// Line makes one line of a message, without dumps of objects, and cut where it is long.
func Line(s string) string {
	s = Tidy(strings.TrimSpace(spaces.ReplaceAllString(withoutDumps(s), " ")))
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return strings.TrimPrefix(s, "Unexpected error: ")
}

// printed is an object as the suite's assertions print it, up to what this package added behind.
var printed = regexp.MustCompile(`<\*?[\w.]+ \| 0x[0-9a-f]+>:? .*?(` + regexp.QuoteMeta(lastEventIs) + `|$)`)

// lastEventIs stands between a reason and the event that goes with it.
const lastEventIs = " (last event of a failure: "

// Tidy takes printed objects out of one line.
func Tidy(s string) string { return printed.ReplaceAllString(s, "…$1") }

// withoutDumps replaces long texts in braces.
func withoutDumps(s string) string {
	const short = 60
	var out strings.Builder
	depth, from := 0, 0
	for i, r := range s {
		switch r {
		case '{':
			if depth == 0 {
				out.WriteString(s[from:i])
				from = i
			}
			depth++
		case '}':
			if depth == 0 {
				continue
			}
			if depth--; depth == 0 {
				if i-from > short {
					out.WriteString("{…}")
				} else {
					out.WriteString(s[from : i+1])
				}
				from = i + 1
			}
		}
	}
	if depth > 0 { // a dump that was cut off
		return out.String() + "{…"
	}
	return out.String() + s[from:]
}
