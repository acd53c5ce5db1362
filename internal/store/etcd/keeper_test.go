package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"podo.dev/podo/internal/store"
)

// startOne is a member until the test ends.
func startOne(t *testing.T) *Embedded {
	t.Helper()
	e, err := NewEmbedded(EmbeddedConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- e.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	return e
}

// TestDefragment: free pages are given back when the database is quiet, and not before.
func TestDefragment(t *testing.T) {
	e, ctx := startOne(t), t.Context()
	c := e.conn.Load()
	size := func() (all, inUse int64) {
		t.Helper()
		st, err := c.c.Status(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		return st.DbSize, st.DbSizeInUse
	}
	k := newKeeper(&e.Client, e.c)
	k.least = 1 << 20
	var rev int64
	for i := range quietWrites + 5 {
		res, err := e.Txn(ctx, nil, []store.Op{{Key: "k", Value: make([]byte, 100<<10)}, {Key: fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
		rev = res.Revision
	}
	if _, err := c.c.Compact(ctx, rev); err != nil {
		t.Fatal(err)
	}
	// One more write, so that etcd commits and counts its pages anew; the compaction itself runs beside.
	for all, inUse := size(); inUse > all/2; all, inUse = size() {
		if _, err := e.Txn(ctx, nil, []store.Op{{Key: "again"}}); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := size()
	k.look(ctx) // much has been written since the last look
	if after, _ := size(); after != before {
		t.Errorf("defragmented amid writes: %d bytes, then %d", before, after)
	}
	k.look(ctx)
	if after, _ := size(); after > before/2 {
		t.Errorf("not defragmented: %d bytes, then %d", before, after)
	}
	if kv, err := e.Get(ctx, "k"); err != nil || kv.ModRevision != rev {
		t.Errorf("after it: %v, %v", kv.ModRevision, err)
	}
}

// What was written at once is not held for as long as little is written: etcd's buffers keep it.
func TestWhatWasWrittenIsLetGo(t *testing.T) {
	e, ctx := startOne(t), t.Context()
	const many, size = 100, 8 << 10
	ops := make([]store.Op, many)
	for i := range ops {
		ops[i] = store.Op{Key: fmt.Sprint(i), Value: make([]byte, size)}
	}
	live := func() uint64 {
		var m runtime.MemStats
		for range 2 { // what has a finalizer goes with the second
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before, after uint64
	for range 5 { // a flush of etcd's own that comes between lets go of it too
		if _, err := e.Txn(ctx, nil, ops); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Get(ctx, "0"); err != nil { // a reader's copy
			t.Fatal(err)
		}
		e.conn.Load().local.flush()
		if _, err := e.Txn(ctx, nil, []store.Op{{Key: "small"}}); err != nil {
			t.Fatal(err)
		}
		before = live()
		k := newKeeper(&e.Client, e.c)
		k.quietAt = e.conn.Load().local.revision()
		k.look(ctx)
		if after = live(); after+many*size/2 <= before {
			return
		}
	}
	t.Errorf("%d kB are live before, %d kB after: %d kB were written at once", before>>10, after>>10, many*size>>10)
}

// A member whose log is lost waits for a leader that there will never be: whoever started it hears why.
func TestALostLog(t *testing.T) {
	t.Parallel() // the member's end takes long then
	dir := t.TempDir()
	run := func(log slog.Handler, until <-chan struct{}) {
		e, err := NewEmbedded(EmbeddedConfig{Dir: dir, Logger: slog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		if until != nil {
			e.patience = time.Millisecond
		}
		ctx, cancel := context.WithCancel(t.Context())
		ready, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- e.Run(ctx, func() { close(ready) }) }()
		if until == nil {
			until = ready
		}
		select {
		case <-until:
		case err := <-done:
			t.Fatal(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	run(slog.DiscardHandler, nil)
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	if err := os.Truncate(logs[len(logs)-1], 100); err != nil {
		t.Fatal(err)
	}
	told := make(heard)
	run(told, told)
}

// heard is closed by the first warning.
type heard chan struct{}

func (heard) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (h heard) WithAttrs([]slog.Attr) slog.Handler         { return h }
func (h heard) WithGroup(string) slog.Handler              { return h }
func (h heard) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "a part of its log is lost") {
		close(h)
	}
	return nil
}
