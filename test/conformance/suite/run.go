package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config says how to run.
type Config struct {
	E2E     string // the suite's program
	Kubectl string
	Cluster *Cluster
	Report  Report
	Focus   *regexp.Regexp
	Procs   int
	PerTest time.Duration
	InAll   time.Duration
	Again   bool // also tests that have a result
	Log     io.Writer
}

// Validate names what is missing.
func (c Config) Validate() error {
	switch {
	case c.Cluster == nil:
		return errors.New("no cluster")
	case c.Procs < 1:
		return errors.New("PROCS must be 1 or more")
	case c.PerTest <= 0 || c.InAll <= 0:
		return errors.New("the time limits must be above 0")
	}
	if _, err := os.Stat(c.E2E); err != nil {
		return fmt.Errorf("the suite is not built: %w", err)
	}
	return nil
}

// Run runs the tests that Focus picks and that have no result yet, side by side where they allow it, and adds a result of each to the
// report. Tests that need what the cluster does not serve get theirs without running. It stops early when ctx ends.
func Run(ctx context.Context, cfg Config, tests []Test) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	done, _, err := cfg.Report.Load()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.InAll)
	defer cancel()
	var side, alone []Test
	for _, t := range tests {
		r, has := done[t.Name]
		if cfg.Focus != nil && !cfg.Focus.MatchString(t.Name) || has && r.State != NotRun && !cfg.Again {
			continue
		}
		if missing := Missing(t, cfg.Cluster.Served); len(missing) > 0 {
			reason := "not served: " + strings.Join(missing, ", ")
			if err := cfg.Report.Append(Result{Name: t.Name, File: t.File, State: NotRun, Reason: reason, At: time.Now()}); err != nil {
				return err
			}
			continue
		}
		if t.Serial() {
			alone = append(alone, t)
		} else {
			side = append(side, t)
		}
	}
	fmt.Fprintf(cfg.Log, "%d tests to run, %d at once, then %d alone\n", len(side)+len(alone), cfg.Procs, len(alone))
	if err := cfg.group(ctx, side, cfg.Procs); err != nil {
		return err
	}
	if err := cfg.group(ctx, alone, 1); err != nil {
		return err
	}
	return ctx.Err()
}

func (c Config) group(ctx context.Context, tests []Test, procs int) error {
	queue := make(chan Test)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for range procs {
		wg.Go(func() {
			for t := range queue {
				r, ok := c.one(ctx, t)
				if !ok {
					continue // interrupted: no verdict
				}
				mu.Lock()
				fmt.Fprintf(c.Log, "%-7s %5.1fs  %s%s\n", r.State, r.Seconds, t.Name, suffix(r.Reason))
				if err := c.Report.Append(r); err != nil && first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range tests {
		select {
		case queue <- t:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	wg.Wait()
	return first
}

func suffix(reason string) string {
	if reason == "" {
		return ""
	}
	return "\n        " + reason
}

// specReport is the part of ginkgo's JSON report that counts.
type specReport struct {
	SpecReports []struct {
		LeafNodeType string
		State        string
		RunTime      time.Duration
		Failure      struct {
			Message  string
			Location struct {
				FileName   string
				LineNumber int
			}
		}
	}
}

// one runs a test; false when ctx ended first.
func (c Config) one(ctx context.Context, t Test) (Result, bool) {
	r := Result{Name: t.Name, File: t.File, State: Failed}
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		r.Reason = err.Error()
		return r, true
	}
	defer os.RemoveAll(dir)
	limit, cancel := context.WithTimeout(ctx, c.PerTest+30*time.Second) // the suite ends by itself before that
	defer cancel()
	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(limit, c.E2E, c.args(t, report)...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	start := time.Now()
	out, runErr := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // a `kubectl proxy` that a test left behind, if any
	}
	r.Seconds = time.Since(start).Seconds()
	r.At = time.Now()
	if ctx.Err() != nil {
		return r, false
	}
	c.keepLog(t, out)
	var parsed []specReport
	b, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(b, &parsed)
	}
	if err != nil {
		r.Reason = fmt.Sprintf("the suite ended without a report: %v", runErr)
		return r, true
	}
	judge(&r, parsed)
	return r, true
}

func (c Config) args(t Test, report string) []string {
	return []string{
		"--kubeconfig=" + c.Cluster.Kubeconfig, "--kubectl-path=" + c.Kubectl, "--provider=skeleton",
		"--minStartupPods=-1", "--allowed-not-ready-nodes=-1",
		fmt.Sprintf("--e2e-verify-service-account=%v", c.Cluster.Accounts),
		// The suite's own description stands before the name.
		"--ginkgo.focus= " + regexp.QuoteMeta(t.Name) + "$", "--ginkgo.json-report=" + report, "--ginkgo.no-color",
		"--ginkgo.timeout=" + c.PerTest.String(), "--ginkgo.grace-period=15s",
	}
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
				r.State = Failed
				r.Reason = Line(s.Failure.Message)
				if s.State == "timedout" {
					r.Reason = "timed out: " + r.Reason
				}
				_, file, _ := strings.Cut(s.Failure.Location.FileName, "/test/e2e/")
				r.Where = fmt.Sprintf("%s:%d", file, s.Failure.Location.LineNumber)
				return
			}
		}
	}
	if !ran && r.Reason == "" {
		r.State, r.Reason = Failed, "no test of this name in the suite"
	}
}

var spaces = regexp.MustCompile(`\s+`)

// Line makes one line of a message, long ones cut.
func Line(s string) string {
	s = strings.TrimSpace(spaces.ReplaceAllString(s, " "))
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return strings.TrimPrefix(s, "Unexpected error: ")
}

// keepLog keeps a test's output beside the results.
func (c Config) keepLog(t Test, out []byte) {
	dir := filepath.Join(c.Report.Dir, "logs")
	if os.MkdirAll(dir, 0o755) != nil {
		return
	}
	name := regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name, "-")
	if len(name) > 200 {
		name = name[:200]
	}
	const limit = 1 << 20
	if len(out) > limit {
		out = out[len(out)-limit:]
	}
	_ = os.WriteFile(filepath.Join(dir, name+".log"), out, 0o644) // a log that is lost loses no verdict
}
