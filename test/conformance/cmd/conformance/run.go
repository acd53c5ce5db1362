package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"podo.dev/podo/test/conformance/board"
	"podo.dev/podo/test/conformance/suite"
)

// options are the flags of `run`.
type options struct {
	focus, only, report, board string
	kubeconfig, podo           string
	procs                      int
	perTest, inAll             time.Duration
	again, failed              bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.StringVar(&o.focus, "focus", "", "regular expression on names; all when empty")
	f.StringVar(&o.only, "only", "", "file with names of tests: these run, and every one must pass")
	f.StringVar(&o.report, "report", built+"/report", "folder of the results")
	f.StringVar(&o.board, "board", "", "file to write the scoreboard to at the end")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "cluster to test; a fresh podo when empty")
	f.StringVar(&o.podo, "podo", "../../bin/podo", "the podo to start, and whose kubectl to use")
	f.IntVar(&o.procs, "procs", 4, "tests at once")
	f.DurationVar(&o.perTest, "per-test", 7*time.Minute, "time limit of a test; one of the suite waits for 5 minutes that a pod is not scheduled")
	f.DurationVar(&o.inAll, "in-all", 4*time.Hour, "time limit of the run")
	f.BoolVar(&o.again, "again", false, "run also tests that have a result")
	f.BoolVar(&o.failed, "failed", false, "run also tests that failed")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for _, p := range []*string{&o.report, &o.podo, &o.board} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return o, err
		}
		if *p != "" {
			*p = abs
		}
	}
	return o, nil
}

// command is how to get the same run through make.
func (o options) command() string {
	c := []string{"make conformance"}
	if o.only != "" {
		c[0] = "make conformance-ci"
	}
	if o.focus != "" {
		c = append(c, "FOCUS='"+o.focus+"'")
	}
	if o.kubeconfig != "" {
		c = append(c, "KUBECONFIG="+filepath.Base(o.kubeconfig))
	}
	c = append(c, fmt.Sprintf("PROCS=%d", o.procs))
	flags := []string{"-per-test " + o.perTest.String()}
	if o.again {
		flags = append(flags, "-again")
	}
	if o.failed {
		flags = append(flags, "-failed")
	}
	return strings.Join(append(c, "CONFORMANCE_FLAGS='"+strings.Join(flags, " ")+"'"), " ")
}

// pick gives the tests that focus and only pick.
func (o options) pick(all []suite.Test) ([]suite.Test, error) {
	pattern, err := regexp.Compile(o.focus)
	if err != nil {
		return nil, fmt.Errorf("FOCUS: %w", err)
	}
	all = slices.DeleteFunc(all, func(t suite.Test) bool { return !pattern.MatchString(t.Name) })
	if len(all) == 0 {
		return nil, fmt.Errorf("no test with the conformance label matches FOCUS='%s'", o.focus)
	}
	if o.only == "" {
		return all, nil
	}
	f, err := os.Open(o.only)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var picked []suite.Test
	for s := bufio.NewScanner(f); s.Scan(); {
		name := strings.TrimSpace(s.Text())
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		i := slices.IndexFunc(all, func(t suite.Test) bool { return t.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s: upstream has no test %q with the conformance label", o.only, name)
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

func runSuite(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	all, err := suite.Catalog()
	if err != nil {
		return err
	}
	tests, err := o.pick(slices.Clone(all))
	if err != nil {
		return err
	}
	report := suite.Report{Dir: o.report}
	lock, err := report.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := enoughMemory(); err != nil {
		return err
	}
	runErr := o.onCluster(ctx, report, tests)
	results, runs, err := report.Load()
	if err != nil {
		return errors.Join(runErr, err)
	}
	if len(runs) > 0 {
		t := board.Count(all, results, func(suite.Test) string { return "" })[""]
		fmt.Printf("%d of %d pass, %d fail, %d did not run\n", t.Passed, t.Total(), t.Failed, t.NotRun)
	}
	if o.board != "" && len(runs) > 0 {
		runErr = errors.Join(runErr, writeBoard(report, o.board))
	}
	if o.only != "" && runErr == nil {
		runErr = allPassed(tests, results)
	}
	return runErr
}

// onCluster runs the tests on the cluster of the options, or on a fresh podo that ends with the run.
func (o options) onCluster(ctx context.Context, report suite.Report, tests []suite.Test) (err error) {
	program, err := keepPodo(o.podo, report.Dir)
	if err != nil {
		return err
	}
	session := suite.Session{Date: time.Now(), Command: o.command()}
	kubeconfig := o.kubeconfig
	var own *server
	if kubeconfig == "" {
		if own, err = startPodo(ctx, program, report); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, own.stop()) }()
		kubeconfig = own.kubeconfig()
		session.Commit = version(program)
	}
	cluster, err := suite.Open(ctx, kubeconfig, report.Dir)
	if err != nil {
		return err
	}
	defer cluster.Close()
	session.Server, session.StandIn = cluster.Server, cluster.StandIn
	if own != nil {
		var archives []string
		if archives, session.Unmade, err = makeImages(ctx, cluster.Served); err != nil {
			return err
		}
		if err := own.load(ctx, archives); err != nil {
			return err
		}
	} else {
		fmt.Println("The cluster must have the suite's images or be able to pull them; `make conformance-images` makes them here.")
	}
	if err := cluster.Probe(ctx, own != nil); err != nil {
		return err
	}
	kubectl, err := kubectlScript(report.Dir, program)
	if err != nil {
		return err
	}
	e2e, err := filepath.Abs(filepath.Join(built, "e2e.test"))
	if err != nil {
		return err
	}
	if err := report.Note(session); err != nil {
		return err
	}
	err = suite.Run(ctx, suite.Config{
		E2E: e2e, Kubectl: kubectl, Cluster: cluster, Report: report, Procs: o.procs, PerTest: o.perTest, InAll: o.inAll, Log: os.Stdout,
		Again: func(r suite.Result) bool { return o.again || o.failed && r.State == suite.Failed },
	}, tests)
	session.Ended = "complete"
	if err != nil {
		session.Ended = "cut short: " + err.Error()
		err = fmt.Errorf("the run was %s; the same command goes on", session.Ended)
	}
	return errors.Join(err, report.Note(session))
}

// allPassed is the verdict on tests that must pass.
func allPassed(tests []suite.Test, results map[string]suite.Result) error {
	var errs []error
	for _, t := range tests {
		r, ok := results[t.Name]
		if !ok {
			r.State, r.Reason = suite.NotRun, "the run ended before it"
		}
		if r.State != suite.Passed {
			errs = append(errs, fmt.Errorf("%s: %s: %s", r.State, t.Name, r.Reason))
		}
	}
	return errors.Join(errs...)
}

// version is the commit that a podo was built of, in its own words.
func version(podo string) string {
	out, err := exec.Command(podo, "version").Output()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "podo"))
}

// enoughMemory says before it is too late that tests would be killed.
func enoughMemory() error {
	const need = 1500 // MB: the server, a few tests and their containers
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(b), "MemAvailable:")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err == nil && kb/1024 < need {
		return fmt.Errorf("%d MB of memory are free, a run needs %d MB: end other programs", kb/1024, need)
	}
	return nil
}
