// Command bench measures a podo of its own against the floor: the same containerd asked directly through CRI, in the same run,
// alternating, so that the machine's mood falls on both. It prints one line a figure and ratios beside their two parts:
//
//	figure <name> <value> <unit>
//
// See shared figures in docs/performance.md. It leaves nothing behind, also after an interrupt.
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

	"golang.org/x/sys/unix"
)

type options struct {
	podo   string
	images string
	runs   int
	batch  int
	// objects is how many pods the API's figures are taken with.
	objects int
	report  string
}

func main() {
	var o options
	flag.StringVar(&o.podo, "podo", "bin/podo", "the binary to measure")
	flag.StringVar(&o.images, "images", "bin/images", "folder with busybox.tar")
	flag.IntVar(&o.runs, "runs", 20, "single pods measured, on each side")
	flag.IntVar(&o.batch, "batch", 50, "pods started at once")
	flag.IntVar(&o.objects, "objects", 5000, "pods in the API for LIST and deletecollection")
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
	for _, step := range []func(context.Context, *product, options, *figures) error{
		measureBoot, measureIdle, measureSingle, measureBatch, measureKill, measureAPI,
	} {
		if err := step(ctx, p, o, &figs); err != nil {
			return err
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
