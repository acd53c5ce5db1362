package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
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
	Procs   int
	PerTest time.Duration
	InAll   time.Duration
	Again   func(Result) bool // which tests that have a result run again
	Log     io.Writer
}

// Validate names what is missing and what to do.
func (c Config) Validate() error {
	switch {
	case c.Cluster == nil:
		return errors.New("no cluster")
	case c.Procs < 1:
		return errors.New("PROCS must be 1 or more")
	case c.PerTest <= 0 || c.InAll <= 0:
		return errors.New("the time limits -per-test and -in-all must be above 0")
	}
	if _, err := os.Stat(c.E2E); err != nil {
		return fmt.Errorf("the suite is not built: `make conformance` builds it in a few minutes (%w)", err)
	}
	return nil
}

// Run runs those of the tests that have no result yet, side by side where they allow it, and adds a result of each to the report.
// Tests that need what the cluster does not serve get theirs without running. It stops early when ctx ends.
func Run(ctx context.Context, cfg Config, tests []Test) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	done, _, err := cfg.Report.Load()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.InAll, fmt.Errorf("the time limit of %s for the run", cfg.InAll))
	defer cancel()
	var side, alone []Test
	for _, t := range tests {
		if r, has := done[t.Name]; has && r.State != NotRun && !cfg.Again(r) {
			continue
		}
		if missing := Missing(t, cfg.Cluster.Served); len(missing) > 0 {
			if err := cfg.Report.Append(Result{Name: t.Name, File: t.File, State: NotRun, Reason: why(missing), At: time.Now()}); err != nil {
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
	return context.Cause(ctx)
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

// one runs a test; false when ctx ended first.
func (c Config) one(ctx context.Context, t Test) (Result, bool) {
	r := Result{Name: t.Name, File: t.File, State: Failed}
	dir, err := os.MkdirTemp(c.Report.Scratch(), "test-")
	if err != nil {
		r.Reason, r.At = err.Error(), time.Now()
		return r, true
	}
	defer os.RemoveAll(dir)
	// Tests leave files behind, and make sockets, whose paths must be short.
	files, err := os.MkdirTemp("", "podo-suite-")
	if err != nil {
		r.Reason, r.At = err.Error(), time.Now()
		return r, true
	}
	defer os.RemoveAll(files)
	limit, cancel := context.WithTimeout(ctx, c.limit(t)+time.Minute) // the suite ends by itself before that
	defer cancel()
	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(limit, c.E2E, c.args(t, report)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+files)
	// A runner that is killed takes its tests with it: the kernel watches the thread that starts them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
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
	parsed, err := readReport(report)
	if err != nil {
		r.Reason = fmt.Sprintf("the suite ended without a report: %v", runErr)
		return r, true
	}
	judge(&r, parsed)
	if e := lastEvent(out); e != "" && r.State == Failed {
		r.Reason += lastEventIs + e + ")"
	}
	return r, true
}

// limit is a test's time. Those that call themselves slow get twice as much: one waits until etcd is compacted.
func (c Config) limit(t Test) time.Duration {
	if strings.Contains(t.Name, "[Slow]") {
		return 2 * c.PerTest
	}
	return c.PerTest
}

func (c Config) args(t Test, report string) []string {
	return []string{
		"--kubeconfig=" + c.Cluster.Kubeconfig, "--kubectl-path=" + c.Kubectl, "--provider=skeleton",
		"--minStartupPods=-1", "--allowed-not-ready-nodes=-1",
		fmt.Sprintf("--e2e-verify-service-account=%v", c.Cluster.Accounts),
		// The suite's own description stands before the name.
		"--ginkgo.focus= " + regexp.QuoteMeta(t.Name) + "$", "--ginkgo.json-report=" + report, "--ginkgo.no-color",
		"--ginkgo.timeout=" + c.limit(t).String(), "--ginkgo.grace-period=15s",
	}
}

// LogName is the file of a test's output, below the report's folder logs.
func LogName(t Test) string {
	name := regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name, "-")
	return name[:min(len(name), 200)] + ".log"
}

// keepLog keeps a test's output beside the results.
func (c Config) keepLog(t Test, out []byte) {
	dir := filepath.Join(c.Report.Dir, "logs")
	if os.MkdirAll(dir, 0o755) != nil {
		return
	}
	const limit = 1 << 20
	if len(out) > limit {
		out = out[len(out)-limit:]
	}
	_ = os.WriteFile(filepath.Join(dir, LogName(t)), out, 0o644) // a log that is lost loses no verdict
}
