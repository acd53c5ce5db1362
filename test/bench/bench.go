package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/floor"
	"podo.dev/podo/test/bench/usage"
)

// bench is one run.
type bench struct {
	options
	book    *figures.Book
	podo    *podo    // nil: not measured
	peer    *peerRun // nil: not measured
	floor   *floor.Runtime
	targets []*target // every cluster
}

// groups in the order they are measured. Each leaves every cluster as empty as it found it.
var groups = []struct {
	name string
	run  func(context.Context, *bench) error
}{
	{"boot", boot},
	{"idle", idle},
	{"single", single},
	{"batch", batch},
	{"footprint", footprint},
	{"quiet", quiet},
	{"crowd", crowd},
	{"deletion", deletion},
	{"probes", probes},
	{"kill", kill},
	{"create", create},
	{"api", api},
	{"kubectl", kubectl},
	{"schedule", schedule},
	{"shapes", shaped},
	{"rollout", rollout},
	{"namespace", namespace},
	{"holding", holding},
	{"rest", rest},
}

func groupNames() string {
	var names []string
	for _, g := range groups {
		names = append(names, g.name)
	}
	return strings.Join(names, ", ")
}

func run(ctx context.Context, o options) (err error) {
	if err := check(o); err != nil {
		return err
	}
	report := describe()
	b := &bench{options: o, book: &figures.Book{Out: os.Stdout}}
	// Whatever happened, the machine is left as it was; the clean-up has its own time.
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(ctx); err != nil {
		return err
	}
	for _, g := range groups {
		if !o.only.MatchString(g.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), g.name)
		if err := g.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	if o.report == "" {
		return nil
	}
	return b.book.Write(o.report, report)
}

// open starts what is to be measured.
func (b *bench) open(ctx context.Context) error {
	if b.options.podo != "" {
		if err := b.openPodo(ctx); err != nil {
			return err
		}
	}
	if b.options.peer != "" {
		if err := b.openPeer(ctx); err != nil {
			return err
		}
	}
	if b.kubeconfig != "" {
		t, err := openOther(ctx, b.options)
		if err != nil {
			return err
		}
		b.targets = append(b.targets, t)
	}
	for _, t := range b.targets {
		if err := t.Open(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// close ends and removes it, the last one first.
func (b *bench) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var errs []error
	for _, t := range b.targets {
		errs = append(errs, t.close(ctx))
	}
	if b.floor != nil {
		errs = append(errs, b.floor.Close())
	}
	if b.peer != nil {
		errs = append(errs, b.peer.Stop())
	}
	if b.podo != nil {
		errs = append(errs, b.podo.remove(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the clean-up failed, look at what is left: %w", err)
	}
	return nil
}

// describe says where and when the run was.
func describe() figures.Report {
	r := figures.Report{Date: time.Now().UTC(), Command: os.Args}
	if out, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil { // outside a checkout there is none
		r.Commit = strings.TrimSpace(string(out))
	}
	r.Machine.CPUs = cpus()
	if mb, err := usage.Memory(); err == nil {
		r.Machine.MemoryMB = mb
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		r.Machine.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if content, err := os.ReadFile("/proc/loadavg"); err == nil {
		if one, _, ok := strings.Cut(string(content), " "); ok {
			r.Machine.Load, _ = strconv.ParseFloat(one, 64)
		}
	}
	return r
}
