// Command bench measures a podo of its own beside the floor, which is the same containerd asked directly through CRI, and beside
// upstream's own components (-peer) or a cluster that runs already (-kubeconfig): with one program, in one run, taking turns, so that
// the machine's mood falls on all. It prints one line a figure and ratios beside their parts:
//
//	figure <name> <value> <unit>
//
// docs/performance.md keeps them. It leaves nothing behind, also after an interrupt.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

type options struct {
	podo   string // the binary; empty: not measured
	images string
	peer   string // folder of upstream's programs; empty: not measured

	kubeconfig string // of a cluster that runs already; empty: none
	image      string
	cri        string
	processes  *regexp.Regexp

	runs      int
	batchRuns int
	rounds    int
	batches   numbers
	objects   int
	watchers  numbers
	nodes     numbers
	waiting   int

	only   *regexp.Regexp
	shape  *regexp.Regexp
	report string
}

// clientsRoom is what this program's heap may grow by between two collections, in percent: it is the client of all, on the cores of all, and what
// it collects in the middle of something that is timed is nobody's it measures.
const clientsRoom = 400

// numbers is a flag like 10,50,100.
type numbers []int

func (n *numbers) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*n), " ", ","), "[]")
}

func (n *numbers) Set(text string) error {
	*n = nil
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(part)
		if err != nil || v < 1 {
			return fmt.Errorf("%q is no number above 0", part)
		}
		*n = append(*n, v)
	}
	return nil
}

func flags() *options {
	o := &options{batches: numbers{10, 50, 100}, watchers: numbers{100, 500}, nodes: numbers{1000, 5000}, only: regexp.MustCompile("")}
	flag.StringVar(&o.podo, "podo", "bin/podo", "the binary to measure; empty: none, and no floor")
	flag.StringVar(&o.images, "images", "bin/images", "folder with busybox.tar")
	flag.StringVar(&o.peer, "peer", "", "folder with upstream's programs (make peer) to measure too")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "measure a cluster that runs already too; it must have -image")
	flag.StringVar(&o.image, "image", "localhost/podo/busybox:dev", "what pods run")
	flag.StringVar(&o.cri, "cri", "", "endpoint of that cluster's runtime, to see pods leave it (unix:///run/containerd/containerd.sock)")
	flag.Func("processes", "that cluster's processes on this machine: a regular expression for their command lines", pattern(&o.processes))
	flag.IntVar(&o.runs, "runs", 15, "how often each of the small things is measured")
	flag.IntVar(&o.batchRuns, "batch-runs", 0, "how often pods are started many at once (0: as -runs)")
	flag.IntVar(&o.rounds, "rounds", 3, "how often the loads of thousands of objects are measured")
	flag.Var(&o.batches, "batches", "how many pods are started at once")
	flag.IntVar(&o.objects, "objects", 5000, "pods in the API for LIST and deletecollection")
	flag.Var(&o.watchers, "watchers", "how many watch")
	flag.Var(&o.nodes, "nodes", "how many nodes are scheduled on")
	flag.IntVar(&o.waiting, "waiting", 5000, "pods that wait for the scheduler")
	flag.Func("only", "measure only groups that match this regular expression: "+groupNames(), pattern(&o.only))
	flag.Func("shape", "of the scheduler's loads only those that match", pattern(&o.shape))
	flag.StringVar(&o.report, "report", "", "also write the figures as JSON to this file")
	flag.Parse()
	if o.batchRuns == 0 {
		o.batchRuns = o.runs
	}
	return o
}

func pattern(into **regexp.Regexp) func(string) error {
	return func(text string) (err error) {
		*into, err = regexp.Compile(text)
		return err
	}
}

func main() {
	debug.SetGCPercent(clientsRoom)
	o := flags()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	if err := run(ctx, *o); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted, and cleaned up: %w", err)
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
