// Command conformance runs upstream's end-to-end suite against a cluster, keeps the results, and makes the scoreboard. It is run in
// test/conformance; `make conformance` does that.
//
//	conformance images                       make the suite's images, offline
//	conformance run [flags]                  run tests; goes on where an earlier run with the same report ended
//	conformance board REPORT OUT               write the scoreboard
//	conformance diff OLD NEW                 name every test that changed; fails when one that passed does not any more
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"podo.dev/podo/test/conformance/board"
	"podo.dev/podo/test/conformance/images"
	"podo.dev/podo/test/conformance/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := verb(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func verb(ctx context.Context, args []string) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	switch {
	case name == "images" && len(args) == 1:
		_, unmade, err := makeImages(ctx, nil)
		if err == nil && len(unmade) > 0 {
			err = fmt.Errorf("%d images could not be made", len(unmade))
		}
		return err
	case name == "run":
		return runSuite(ctx, args[1:])
	case name == "board" && len(args) == 3:
		return writeBoard(suite.Report{Dir: args[1]}, args[2])
	case name == "diff" && len(args) == 3:
		return diff(args[1], args[2])
	}
	return errors.New("usage: conformance images | run [flags] | board REPORT OUT | diff OLD NEW")
}

// built is where `make conformance` puts what it builds, seen from test/conformance.
const built = "../../bin/conformance"

// makeImages makes those that tests of the served resources use; all when served is nil.
func makeImages(ctx context.Context, served map[string]bool) ([]string, []images.Unmade, error) {
	dir, err := filepath.Abs(built)
	if err != nil {
		return nil, nil, err
	}
	return images.Builder{
		Out: filepath.Join(dir, "images"), Agnhost: filepath.Join(dir, "agnhost"), Work: dir, Served: served,
		Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
	}.Build(ctx)
}

func writeBoard(report suite.Report, out string) error {
	tests, err := suite.Catalog()
	if err != nil {
		return err
	}
	results, runs, err := report.Load()
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s holds no run", report.Dir)
	}
	return os.WriteFile(out, []byte(board.Markdown(tests, results, runs)), 0o644)
}

func diff(old, now string) error {
	var sides [2]map[string]suite.Result
	for i, dir := range []string{old, now} {
		results, runs, err := suite.Report{Dir: dir}.Load()
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return fmt.Errorf("%q holds no report: give the folders of two, `make conformance-diff OLD=dir NEW=dir`", dir)
		}
		sides[i] = results
	}
	lines, worse := board.Diff(sides[0], sides[1])
	for _, l := range lines {
		fmt.Println(l)
	}
	fmt.Printf("%d tests changed\n", len(lines))
	if worse {
		return errors.New("tests that passed do not pass any more")
	}
	return nil
}
