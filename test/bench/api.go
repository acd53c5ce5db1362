package main

import (
	"context"
	"fmt"
	"time"

	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/load"
)

// gets is how many reads of one object are timed.
const gets = 2000

// api: the API alone, with pods that no scheduler takes.
func api(ctx context.Context, b *bench) error {
	if err := b.get(ctx); err != nil {
		return err
	}
	return b.large(ctx)
}

// create: creations in a second by 1, 16 and 64 clients, of pods that no scheduler takes, and of pods that the scheduler binds meanwhile to nodes
// that nobody runs. The first time is forgotten: it makes a server's heap and caches as large as the load needs them.
func create(ctx context.Context, b *bench) error {
	for _, clients := range []int{1, 16, 64} {
		if err := b.creations(ctx, clients, "create", load.Cluster.Create); err != nil {
			return err
		}
	}
	for _, t := range b.targets {
		if err := t.Layout(ctx, rolloutNodes, 0, false); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	for _, clients := range []int{16, 64} {
		if err := b.creations(ctx, clients, "create.scheduled", load.Cluster.CreateScheduled); err != nil {
			return err
		}
	}
	for _, t := range b.targets {
		if err := t.Unlay(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// creations measures what creates so many pods with so many clients, and clears them away after each time.
func (b *bench) creations(ctx context.Context, clients int, name string,
	with func(c load.Cluster, ctx context.Context, prefix string, clients, n int) ([]time.Duration, float64, error),
) error {
	n := min(b.objects, max(500, 100*clients))
	rates, times := figures.Samples{}, figures.Samples{}
	for round := range 1 + b.rounds {
		for _, t := range b.targets {
			took, rate, err := with(t.Cluster, ctx, "create", clients, n)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			if round > 0 {
				rates.Add(t.name, rate)
				times.Time(t.name, took...)
			}
			if _, err := t.Clear(ctx); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	name = fmt.Sprintf("%s.%d.clients", name, clients)
	b.book.Median(name, "pods/s", rates)
	b.book.Spread(name, times)
	return nil
}

// get: reads of one object, with nothing else to do and while 16 clients create.
func (b *bench) get(ctx context.Context) error {
	quiet, loaded := figures.Samples{}, figures.Samples{}
	for _, t := range b.targets {
		if _, _, err := t.Create(ctx, "get", 1, 1); err != nil {
			return err
		}
		took, err := t.Get(ctx, "get-0", gets)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		quiet.Time(t.name, took...)
		if took, err = getDuring(ctx, t.Cluster, func() error {
			_, _, err := t.Create(ctx, "load", 16, b.objects)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		loaded.Time(t.name, took...)
		if _, err := t.Clear(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	b.book.Spread("get", quiet)
	b.book.Spread("get.while.creating", loaded)
	return nil
}

// getDuring reads the object again and again while something else is done.
func getDuring(ctx context.Context, c load.Cluster, do func() error) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- do()
		cancel()
	}()
	const endless = 1 << 30
	took, err := c.Get(ctx, "get-0", endless)
	cancel()
	if failed := <-done; failed != nil {
		err = failed
	}
	return took, err
}

// large: what is done with thousands of objects: list, watch, hold and delete them.
func (b *bench) large(ctx context.Context) error {
	deleted := figures.Samples{}
	for round := range b.rounds {
		for _, t := range b.targets {
			if _, _, err := t.Create(ctx, "fill", 16, b.objects); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
		if round == 0 {
			if err := b.read(ctx); err != nil {
				return err
			}
		}
		for _, t := range b.targets {
			took, err := t.Clear(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			deleted.Time(t.name, took)
		}
	}
	b.book.Median(fmt.Sprintf("deletecollection.%d", b.objects), "ms", deleted)
	return nil
}

func (b *bench) read(ctx context.Context) error {
	if err := b.list(ctx); err != nil {
		return err
	}
	for _, watchers := range b.watchers {
		for _, kind := range []struct {
			name    string
			decoded bool
		}{{"last", false}, {"last.decoded", true}} {
			took := figures.Samples{}
			for _, t := range b.targets {
				all, err := t.FanOut(ctx, fmt.Sprintf("fan-%d-%t", watchers, kind.decoded), watchers, b.runs+warmUp, kind.decoded)
				if err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
				took.Time(t.name, all[warmUp:]...)
			}
			b.book.Spread(fmt.Sprintf("watch.%d.%s", watchers, kind.name), took)
		}
	}
	if err := b.memory(fmt.Sprintf("holding.%d.objects.pss", b.objects), b.targets...); err != nil {
		return err
	}
	return b.cached(ctx)
}

// list: to the last byte as client-go asks for it, without compression, and decoded.
func (b *bench) list(ctx context.Context) error {
	const protobuf, json = "application/vnd.kubernetes.protobuf", "application/json"
	for _, form := range []struct{ name, accept, encoding string }{
		{"list.protobuf", protobuf, ""},
		{"list.protobuf.plain", protobuf, "identity"},
		{"list.json", json, ""},
		{"list.json.plain", json, "identity"},
	} {
		if err := b.listed(ctx, form.name, func(ctx context.Context, l *load.Lister) (time.Duration, int64, error) {
			return l.Raw(ctx, form.accept, form.encoding)
		}); err != nil {
			return err
		}
	}
	return b.listed(ctx, "list.protobuf.decoded", func(ctx context.Context, l *load.Lister) (time.Duration, int64, error) {
		took, err := l.Decoded(ctx)
		return took, 0, err
	})
}

// listed lets the clusters take turns at one form of lists, whose size is 0 where it is not known.
func (b *bench) listed(ctx context.Context, name string, once func(context.Context, *load.Lister) (time.Duration, int64, error)) error {
	listers := map[*target]*load.Lister{}
	for _, t := range b.targets {
		l, err := t.NewLister()
		if err != nil {
			return err
		}
		defer l.Close()
		listers[t] = l
	}
	times, sizes := figures.Samples{}, figures.Samples{}
	for i := range b.runs + warmUp { // the first connects, too
		for _, t := range b.targets {
			took, size, err := once(ctx, listers[t])
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			if i < warmUp {
				continue
			}
			times.Time(t.name, took)
			if size > 0 {
				sizes.Add(t.name, float64(size)/1e6)
			}
		}
	}
	b.book.Spread(name, times)
	b.book.Median(name+".size", "MB", sizes)
	return nil
}
