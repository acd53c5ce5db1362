package main

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"podo.dev/podo/test/bench/figures"
)

func timed(do func() error) (time.Duration, error) {
	began := time.Now()
	err := do()
	return time.Since(began), err
}

// boot: from the start of the first process to a node that is Ready. Podo's first start unpacks its helpers, makes certificates and starts
// containerd, its later ones start containerd; the peer's certificates are there and its containerd runs.
func boot(ctx context.Context, b *bench) error {
	first, again := figures.Samples{}, figures.Samples{}
	if b.podo != nil {
		first.Time(figures.Podo, b.podo.first)
	}
	if b.peer != nil {
		first.Time(figures.Peer, b.peer.first)
	}
	b.book.Median("boot.first", "ms", first)
	for range b.runs {
		if b.podo != nil {
			if err := b.podo.down(ctx); err != nil {
				return err
			}
			took, err := timed(func() error { return b.podo.up(ctx) })
			if err != nil {
				return err
			}
			again.Time(figures.Podo, took)
		}
		if b.peer != nil {
			if err := b.peer.Down(); err != nil {
				return err
			}
			took, err := timed(func() error { return b.peer.Up(ctx) })
			if err != nil {
				return err
			}
			again.Time(figures.Peer, took)
		}
	}
	b.book.Spread("boot.again", again)
	return nil
}

// kill: kill -9 of podo, start again, until the API answers with everything ready. A container goes on meanwhile.
func kill(ctx context.Context, b *bench) error {
	if b.podo == nil {
		return nil
	}
	survivor := b.targets[0]
	if _, err := survivor.start(ctx, "survivor"); err != nil {
		return err
	}
	took := figures.Samples{}
	for range b.runs {
		if err := b.podo.end(ctx, unix.SIGKILL); err != nil {
			return err
		}
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- b.podo.up(ctx) }()
		if err := b.podo.untilServing(ctx); err != nil {
			return err
		}
		took.Time(figures.Podo, time.Since(began))
		if err := <-done; err != nil {
			return err
		}
	}
	b.book.Spread("kill9.serving", took)
	_, _, err := survivor.remove(ctx, "survivor")
	return err
}
