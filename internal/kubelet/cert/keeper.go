package cert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"podo.dev/podo/internal/pki"
)

// Back-off between attempts that failed, doubled each time and spread by a fifth.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// keeper keeps one certificate: it waits until this is due, gets another, stores it and hands it on. One goroutine.
type keeper struct {
	kind    kind
	path    string // of the file of the certificate and its key; the key of a request on its way lies beside it
	m       *Manager
	subject func() (subject, bool) // what is wanted now; false for none
	use     func(*tls.Certificate)

	current atomic.Pointer[tls.Certificate] // with Leaf; its writer is load, then run
	arrived time.Time
	part    float64

	mu       sync.Mutex
	clockSet bool // since the last look
	wake     chan struct{}
}

// load reads the certificate that an earlier start stored. A damaged one counts as missing: another is requested.
func (k *keeper) load() error {
	data, err := os.ReadFile(k.file())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the node's certificate: %w", err)
	}
	c, err := tls.X509KeyPair(data, data)
	if err != nil {
		k.m.c.Log.Warn("a certificate of the node is damaged: another one is asked for", "file", k.file(), "err", err)
		return nil
	}
	if !k.m.ours(c.Leaf) {
		k.m.c.Log.Info("a certificate of the node is of another cluster or another node: another one is asked for", "file", k.file(), "subject", c.Leaf.Subject.String())
		return nil
	}
	k.take(&c)
	return nil
}

func (k *keeper) file() string { return k.path + current }

func (k *keeper) take(c *tls.Certificate) {
	k.part = k.m.c.Random()
	k.current.Store(c)
	if k.use != nil {
		k.use(c)
	}
}

// look makes run look at its certificate anew.
func (k *keeper) look(clockSet bool) {
	k.mu.Lock()
	k.clockSet = k.clockSet || clockSet
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// looked is called before each look of run. Once the clock has been set, the arrival that the old clock measured no longer
// counts.
func (k *keeper) looked() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clockSet {
		k.clockSet, k.arrived = false, time.Time{}
	}
}

// run keeps the certificate until ctx ends. It returns only errors that trying again cannot cure.
func (k *keeper) run(ctx context.Context) error {
	retry := firstRetry
	for ctx.Err() == nil {
		k.looked()
		want, any := k.subject()
		if !any {
			k.sleep(ctx, -1)
			continue
		}
		if wait := due(k.held(), want, k.m.c.Now()); wait > 0 {
			k.sleep(ctx, wait)
			continue
		}
		woken, err := k.renew(ctx, want)
		switch {
		case err == nil:
			retry = firstRetry
		case errors.Is(err, ErrRefused):
			return err
		case woken:
			retry = firstRetry // the wanted subject or the clock may have changed
		case ctx.Err() == nil:
			k.m.metrics.failed(k.kind)
			wait := time.Duration(float64(retry) * (1 + k.m.c.Random()/5))
			k.m.c.Log.Warn("a certificate of the node could not be had, it is tried again", "certificate", k.kind.name, "in", wait.Round(time.Second), "err", err)
			if k.sleep(ctx, wait) {
				retry = firstRetry
			} else {
				retry = min(2*retry, lastRetry)
			}
		}
	}
	return nil
}

func (k *keeper) held() held {
	h := held{arrived: k.arrived, part: k.part}
	if c := k.current.Load(); c != nil {
		h.cert = c.Leaf
	}
	return h
}

// sleep waits, for ever if d is negative, and returns whether it was woken before.
func (k *keeper) sleep(ctx context.Context, d time.Duration) bool {
	var after <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-ctx.Done():
	case <-after:
	case <-k.wake:
		return true
	}
	return false
}

// renew requests a certificate and installs it. A look requested meanwhile interrupts the wait; the pending request stays and is
// found again if it still asks for what is wanted.
func (k *keeper) renew(ctx context.Context, want subject) (woken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-k.wake:
			woken = true
			cancel()
		case <-stop:
		}
	})
	c, err := k.request(ctx, want)
	close(stop)
	wg.Wait()
	if err != nil {
		return woken, err
	}
	if woken {
		k.look(false)
	}
	data, err := pki.PairPEM(c)
	if err != nil {
		return false, err
	}
	if err := pki.WriteFile(k.file(), data, 0o600); err != nil {
		return false, fmt.Errorf("storing the certificate: %w", err)
	}
	os.Remove(k.pending()) //nolint:errcheck // a key without a request does no harm
	now := k.m.c.Now()
	if old := k.current.Load(); old != nil {
		k.m.metrics.rotated(k.kind, now.Sub(old.Leaf.NotBefore))
	}
	k.arrived = now
	k.take(c)
	k.m.c.Log.Info("the node has a new certificate", "certificate", k.kind.name, "until", c.Leaf.NotAfter.UTC().Format(time.RFC3339))
	return false, nil
}
