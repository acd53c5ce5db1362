// Command conformance runs upstream's end-to-end suite against a cluster, keeps the results, and makes the scoreboard. It is run in
// test/conformance; `make conformance` does that.
//
//	conformance images              make the suite's images, offline
//	conformance run [flags]         run tests; goes on where an earlier run with the same report ended
//	conformance board REPORT OUT    write the scoreboard
//	conformance diff OLD NEW        name every test that changed; fails when one that passed does not any more
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"podo.dev/podo/test/conformance/board"
	"podo.dev/podo/test/conformance/images"
	"podo.dev/podo/test/conformance/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch {
	case verb == "images":
		_, err := makeImages()
		return err
	case verb == "run":
		return runSuite(ctx, args[1:])
	case verb == "board" && len(args) == 3:
		return writeBoard(args[1], args[2])
	case verb == "diff" && len(args) == 3:
		return diff(args[1], args[2])
	}
	return errors.New("usage: conformance images | run [flags] | board REPORT OUT | diff OLD NEW")
}

// built is where `make conformance` puts what it builds, seen from test/conformance.
const built = "../../bin/conformance"

func makeImages() ([]string, error) {
	dir, err := filepath.Abs(built)
	if err != nil {
		return nil, err
	}
	return images.Builder{
		Out: filepath.Join(dir, "images"), Agnhost: filepath.Join(dir, "agnhost"), Work: dir,
		Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
	}.Build()
}

func runSuite(ctx context.Context, args []string) (err error) {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	focus := f.String("focus", "", "regular expression on names; all when empty")
	procs := f.Int("procs", 4, "tests at once")
	dir := f.String("report", built+"/report", "folder of the results")
	kubeconfig := f.String("kubeconfig", "", "cluster to test; a fresh podo when empty")
	podo := f.String("podo", "../../bin/podo", "the podo to start, and whose kubectl to use")
	perTest := f.Duration("per-test", 5*time.Minute, "time limit of a test")
	inAll := f.Duration("in-all", 2*time.Hour, "time limit of the run")
	again := f.Bool("again", false, "run also tests that have a result")
	if err := f.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*focus)
	if err != nil {
		return fmt.Errorf("FOCUS: %w", err)
	}
	tests, err := suite.Catalog()
	if err != nil {
		return err
	}
	for _, p := range []*string{dir, podo} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		return err
	}
	if *kubeconfig == "" {
		server, err := startPodo(ctx, *podo)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		*kubeconfig = server.kubeconfig()
	}
	cluster, err := suite.Open(*kubeconfig, *dir)
	if err != nil {
		return err
	}
	defer cluster.Close()
	e2e, err := filepath.Abs(filepath.Join(built, "e2e.test"))
	if err != nil {
		return err
	}
	report := suite.Report{Dir: *dir}
	about := suite.About{Date: time.Now(), Commit: commit(), Command: strings.TrimSpace("make conformance FOCUS='" + *focus + "'"), Server: cluster.Server, StandIn: cluster.StandIn}
	if err := report.SaveAbout(about); err != nil {
		return err
	}
	kubectl, err := kubectlScript(*dir, *podo)
	if err != nil {
		return err
	}
	runErr := suite.Run(ctx, suite.Config{
		E2E: e2e, Kubectl: kubectl, Cluster: cluster, Report: report, Focus: pattern, Procs: *procs,
		PerTest: *perTest, InAll: *inAll, Again: *again, Log: os.Stdout,
	}, tests)
	results, _, err := report.Load()
	if err != nil {
		return errors.Join(runErr, err)
	}
	all := board.Count(tests, results, func(suite.Test) string { return "" })[""]
	fmt.Printf("%d of %d pass, %d fail, %d did not run\n", all.Passed, all.Total(), all.Failed, all.NotRun)
	return runErr
}

// kubectlScript makes a program named kubectl of podo's own.
func kubectlScript(dir, podo string) (string, error) {
	file := filepath.Join(dir, "kubectl")
	return file, os.WriteFile(file, []byte("#!/bin/sh\nexec '"+podo+"' kubectl \"$@\"\n"), 0o755)
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func writeBoard(dir, out string) error {
	tests, err := suite.Catalog()
	if err != nil {
		return err
	}
	results, about, err := suite.Report{Dir: dir}.Load()
	if err != nil {
		return err
	}
	return os.WriteFile(out, []byte(board.Markdown(tests, results, about)), 0o644)
}

func diff(old, now string) error {
	was, _, err := suite.Report{Dir: old}.Load()
	if err != nil {
		return err
	}
	is, _, err := suite.Report{Dir: now}.Load()
	if err != nil {
		return err
	}
	lines, worse := board.Diff(was, is)
	for _, l := range lines {
		fmt.Println(l)
	}
	fmt.Printf("%d tests changed\n", len(lines))
	if worse {
		return errors.New("tests that passed do not pass any more")
	}
	return nil
}
