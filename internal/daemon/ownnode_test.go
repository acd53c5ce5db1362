package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/moved"
)

// Another name for the node of a data directory is refused while its pods may run, and the node that it was is remembered until it has gone.
func TestANodeGetsAnotherName(t *testing.T) {
	d := datadir.Dir{Root: t.TempDir()}
	p := &process{dir: d}
	start := func(name string) error {
		b, err := moved.Read(d, name)
		if err != nil {
			return err
		}
		p.before, p.cfg.NodeName = b, name
		return p.noteRun()
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(start("typo"))
	must(start("a")) // nothing ran
	must(p.podsBegin())
	must(start("a"))
	err := start("b")
	if err == nil || !strings.Contains(err.Error(), "give --node-name a, or end them first with `podo down --data-dir "+d.Root+"`") {
		t.Fatalf("%v", err)
	}
	last, err := d.LastRun()
	must(err)
	if last.NodeName != "a" {
		t.Errorf("who was refused has left %+v", last)
	}
	last.Down = true // as Down writes it
	must(d.Began(last))
	must(start("b"))
	if !slices.Contains(p.before.Formers, "a") {
		t.Errorf("formers %q", p.before.Formers)
	}
	must(start("a")) // b was refused by the store, say
	if slices.Contains(p.before.Formers, "a") || !slices.Contains(p.before.Formers, "b") {
		t.Errorf("formers %q, want b", p.before.Formers)
	}
}

// A node that somebody deleted is registered anew by its kubelet, which may not give it its role.
func TestANodeThatIsNewAgainGetsItsRole(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	isNew, marked := make(chan struct{}, 1), 0
	mark := func(context.Context) error {
		switch marked++; marked {
		case 2:
			return errors.New("the store does not answer")
		case 3:
			stop()
		default:
			wake(isNew)
		}
		return nil
	}
	wake(isNew)
	if err := markAgain(ctx, isNew, mark); err == nil || marked != 2 {
		t.Fatalf("marked %d times, %v", marked, err)
	}
	if err := markAgain(ctx, isNew, mark); err != nil || marked != 3 {
		t.Errorf("marked %d times, %v: what failed was not tried again", marked, err)
	}
}
