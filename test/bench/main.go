// Command bench measures a podo of its own against the floor: the same containerd asked directly through CRI, in the same run,
// alternating, so that the machine's mood falls on both. It prints one line a figure and ratios beside their two parts:
//
//	figure <name> <value> <unit>
//
// docs/performance.md keeps them. It leaves nothing behind, also after an interrupt.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

type options struct {
	podo   string
	images string
	runs   int
	batch  int
	// objects is how many pods the API's figures are taken with.
	objects int
	only    string
	report  string
}

func main() {
	var o options
	flag.StringVar(&o.podo, "podo", "bin/podo", "the binary to measure")
	flag.StringVar(&o.images, "images", "bin/images", "folder with busybox.tar")
	flag.IntVar(&o.runs, "runs", 20, "single pods measured, on each side")
	flag.IntVar(&o.batch, "batch", 50, "pods started at once")
	flag.IntVar(&o.objects, "objects", 5000, "pods in the API for LIST and deletecollection")
	flag.StringVar(&o.only, "only", "", "measure only what matches this regular expression: idle, single, batch, kill, api")
	flag.StringVar(&o.report, "report", "", "also write the figures as JSON to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("containers need root")
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	podo, err := filepath.Abs(o.podo)
	if err != nil {
		return err
	}
	var figs figures
	p, err := newProduct(podo)
	if err != nil {
		return err
	}
	// Whatever happened, the machine is left as it was; the clean-up has its own time.
	defer func() { err = errors.Join(err, p.remove()) }()
	for _, s := range []struct {
		name string
		run  func(context.Context, *product, options, *figures) error
	}{
		{"boot", measureBoot}, // always: it starts the server
		{"idle", measureIdle},
		{"single", measureSingle},
		{"batch", measureBatch},
		{"kill", measureKill},
		{"api", measureAPI},
	} {
		if s.name != "boot" && !only.MatchString(s.name) {
			continue
		}
		if err := s.run(ctx, p, o, &figs); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if o.report == "" {
		return nil
	}
	content, err := json.MarshalIndent(figs.all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.report, append(content, '\n'), 0o644)
}
