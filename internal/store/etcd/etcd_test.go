package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/etcd"
	"podo.dev/podo/internal/store/storetest"
)

// start runs a component until the test, or the returned function, ends it.
func start(t testing.TB, c component.Component) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- c.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("%s: %v", c.Name(), err)
	}
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("%s: %v", c.Name(), err)
		}
	})
	return stop
}

func embedded(t testing.TB, c etcd.EmbeddedConfig) *etcd.Embedded {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	e, err := etcd.NewEmbedded(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func put(t testing.TB, s store.Store, key, value string) int64 {
	t.Helper()
	res, err := s.Txn(t.Context(), nil, []store.Op{{Key: key, Value: []byte(value)}})
	if err != nil {
		t.Fatal(err)
	}
	return res.Revision
}

func TestEmbeddedSuite(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{})
	start(t, e)
	storetest.Run(t, func(*testing.T) store.Store { return e })
}

// etcd tells watches of a write a moment before reads have it: a read waits for that moment to pass.
func TestReadsWaitForWhatWasTold(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{})
	start(t, e)
	told := put(t, e, "/registry/x", "old") + 1
	etcd.Tell(e, told)
	if rev, err := e.Revision(t.Context()); err != nil || rev != told {
		t.Errorf("revision %d, %v", rev, err)
	}
	type result struct {
		value string
		err   error
	}
	got := make(chan result, 2)
	go func() {
		kv, err := e.Get(t.Context(), "/registry/x")
		got <- result{string(kv.Value), err}
	}()
	go func() {
		list, err := e.List(t.Context(), "/registry/x", store.ListOptions{Revision: told})
		if err != nil {
			got <- result{err: err}
			return
		}
		got <- result{string(list.KVs[0].Value), nil}
	}()
	select {
	case r := <-got:
		t.Fatalf("a read did not wait: %+v", r)
	case <-time.After(50 * time.Millisecond):
	}
	put(t, e, "/registry/x", "new")
	for range 2 {
		if r := <-got; r.err != nil || r.value != "new" {
			t.Errorf("%+v", r)
		}
	}
}

func TestRestartKeepsWhatWasAcknowledged(t *testing.T) {
	dir := t.TempDir()
	e := embedded(t, etcd.EmbeddedConfig{Dir: dir})
	if _, err := e.Get(t.Context(), "k"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("before the start: %v", err)
	}
	stop := start(t, e)
	rev := put(t, e, "k", "v")
	watch := e.Watch(t.Context(), "", 0, nil)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for b := range watch {
		if b.Err != nil && !errors.Is(b.Err, store.ErrUnavailable) {
			t.Errorf("the watch ended with %v", b.Err)
		}
	}
	if _, err := e.Revision(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("after the stop: %v", err)
	}
	// The same one may run again, and another one on the same data.
	for _, e := range []*etcd.Embedded{e, embedded(t, etcd.EmbeddedConfig{Dir: dir})} {
		stop := start(t, e)
		if kv, err := e.Get(t.Context(), "k"); err != nil || kv.ModRevision != rev || string(kv.Value) != "v" {
			t.Errorf("after a restart: %+v, %v", kv, err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	e := embedded(t, etcd.EmbeddedConfig{Dir: dir})
	start(t, e)
	for _, d := range []string{dir, filepath.Dir(e.Socket())} {
		if st, err := os.Stat(d); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, st.Mode(), err)
		}
	}
}

func TestLockedByAnother(t *testing.T) {
	dir := t.TempDir()
	start(t, embedded(t, etcd.EmbeddedConfig{Dir: dir}))
	second := embedded(t, etcd.EmbeddedConfig{Dir: dir})
	err := second.Run(t.Context(), func() { t.Error("ready on a locked directory") })
	if !errors.Is(err, etcd.ErrLocked) || !component.IsFatal(err) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v", err)
	}
}

func TestLongPath(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	e := embedded(t, etcd.EmbeddedConfig{Dir: long})
	if len(e.Socket()) > 107 {
		t.Errorf("the socket's path has %d bytes: %s", len(e.Socket()), e.Socket())
	}
	defer func() { _ = os.RemoveAll(filepath.Dir(e.Socket())) }()
	start(t, e)
	put(t, e, "k", "v")
	if _, err := etcd.NewEmbedded(etcd.EmbeddedConfig{Dir: t.TempDir(), SocketDir: long}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a socket folder that is too long: %v", err)
	}
}

// TestFull fills a small quota: writes are refused with a clear error, and accepted again once history, which is most of it,
// has been compacted away. What counts is what has been flushed to the database, so that a fast disk takes more than the quota first.
func TestFull(t *testing.T) {
	log := &syncBuilder{}
	e := embedded(t, etcd.EmbeddedConfig{Quota: 4 << 20, Logger: slog.New(slog.NewTextHandler(log, nil))})
	start(t, e)
	value := strings.Repeat("x", 100<<10)
	var err error
	for i := 0; i < 5000 && err == nil; i++ {
		_, err = e.Txn(t.Context(), nil, []store.Op{{Key: "same", Value: []byte(value)}})
	}
	if !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("500 MB into a quota of 4: %v", err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err = e.Txn(t.Context(), nil, []store.Op{{Key: "same", Value: []byte("small")}})
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrNoSpace) || time.Now().After(deadline) {
			t.Fatalf("writes stay refused: %v\n%s", err, log)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for !strings.Contains(log.String(), "writes are accepted again") { // logged just after the alarm was taken off
		if time.Now().After(deadline) {
			t.Fatalf("the log says nothing of it:\n%s", log)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

type syncBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestTooLarge(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{})
	start(t, e)
	_, err := e.Txn(t.Context(), nil, []store.Op{{Key: "big", Value: make([]byte, 3<<20)}})
	if !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a value of 3 MB: %v", err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	e := embedded(t, etcd.EmbeddedConfig{History: 200 * time.Millisecond})
	start(t, e)
	first := put(t, e, "k", "1")
	put(t, e, "k", "2")
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err := e.List(t.Context(), "k", store.ListOptions{Revision: first})
		if errors.Is(err, store.ErrCompacted) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("history is never compacted: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestExternalConfig(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		c    etcd.ExternalConfig
		want string
	}{
		{etcd.ExternalConfig{}, "no endpoint"},
		{etcd.ExternalConfig{Endpoints: []string{"https://x:2379"}, CertFile: junk}, "both its certificate and its key"},
		{etcd.ExternalConfig{Endpoints: []string{"https://x:2379"}, CAFile: junk}, "no PEM certificate"},
		{etcd.ExternalConfig{Endpoints: []string{"https://x:2379"}, CAFile: filepath.Join(dir, "missing")}, "no such file"},
		{etcd.ExternalConfig{Endpoints: []string{"http://x:2379"}, CAFile: junk}, "not encrypted"},
		{etcd.ExternalConfig{Endpoints: []string{"https://x:2379"}, CertFile: junk, KeyFile: junk}, "client certificate"},
	} {
		if _, err := etcd.NewExternal(c.c); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.c, err, c.want)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	for range b.N {
		stop := start(b, embedded(b, etcd.EmbeddedConfig{Dir: dir}))
		b.StopTimer()
		if err := stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkFirstStart(b *testing.B) {
	for i := range b.N {
		stop := start(b, embedded(b, etcd.EmbeddedConfig{Dir: filepath.Join(b.TempDir(), fmt.Sprint(i))}))
		b.StopTimer()
		if err := stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkRevision(b *testing.B) {
	e := embedded(b, etcd.EmbeddedConfig{})
	start(b, e)
	for b.Loop() {
		if _, err := e.Revision(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	e := embedded(b, etcd.EmbeddedConfig{})
	start(b, e)
	value := make([]byte, 2<<10)
	var n sync.WaitGroup
	work := make(chan int)
	for range 16 {
		n.Go(func() {
			for i := range work {
				key := fmt.Sprintf("/registry/pods/ns/p%d", i)
				if _, err := e.Txn(b.Context(), []store.Cond{{Key: key}}, []store.Op{{Key: key, Value: value}}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ResetTimer()
	for i := range b.N {
		work <- i
	}
	close(work)
	n.Wait()
}
