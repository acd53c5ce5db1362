package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/gcroom"
	"podo.dev/podo/internal/store"
)

// EmbeddedConfig is what an embedded member needs. Dir is required.
type EmbeddedConfig struct {
	// Dir holds the member's data; made if missing, mode 0700. There is one process on it at a time.
	Dir string
	// SocketDir holds the unix socket for etcdctl and debugging; made if missing, mode 0700. Default: Dir/sock, or a
	// folder under the system's run directory if that path is too long for a socket.
	SocketDir string
	// Quota is the size of the database file at which etcd refuses writes, in bytes. Default 8 GiB.
	Quota int64
	// Logger gets etcd's own log too. Default: discard.
	Logger *slog.Logger
	// History is how long past revisions stay readable. Default 5 minutes, as upstream's API server has it.
	History time.Duration
}

// The tick of the member. It is alone, so no heartbeat can be late, and the election may be quick. A start waits for one to five
// ticks; every tick costs some 20 µs, for ever: 1.1 % of a core at 20 ms, 0.6 % at 100 ms.
const (
	tickMillis     = 40
	electionMillis = 200
)

// The database file is flushed to disk after this time or this many writes. The log is flushed before each write is acknowledged
// and, after a crash, has what the database file lacks. During a flush nothing is answered, reads included, and the log's next
// flush waits for the disk: of writes that come one after another, one in three hundred then waits for some ms. The number bounds
// the buffer and the duration of a flush.
const (
	flushEvery  = 5 * time.Second
	flushWrites = 4_000
)

// maxSocketPath is the kernel's limit, without the final NUL.
const maxSocketPath = 107

// Embedded is an etcd member in this process, alone in its cluster. It always fsyncs before it acknowledges a write.
type Embedded struct {
	Client
	c EmbeddedConfig
	// boot is how long the last start took until the member was ready.
	boot     time.Duration
	patience time.Duration // how long the member may take to become ready before that is reported
}

var _ component.Component = (*Embedded)(nil)

// NewEmbedded checks the configuration; Run starts the member.
func NewEmbedded(c EmbeddedConfig) (*Embedded, error) {
	if c.Dir == "" {
		return nil, errors.New("etcd: the data directory is not set")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	c.Dir = dir
	if c.SocketDir == "" {
		c.SocketDir = socketDir(dir)
	}
	if len(filepath.Join(c.SocketDir, socketName)) > maxSocketPath {
		return nil, fmt.Errorf("etcd: the socket folder %s is too long a path: the socket's may have %d bytes; choose a shorter one",
			c.SocketDir, maxSocketPath)
	}
	if c.Quota == 0 {
		c.Quota = 8 << 30
	}
	if c.History == 0 {
		c.History = 5 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Embedded{Client: Client{noSpace: make(chan struct{}, 1)}, c: c, patience: 10 * time.Second}, nil
}

const socketName = "client.sock"

// Socket is the path of the member's unix socket: etcdctl --endpoints unix://<path>.
func (e *Embedded) Socket() string { return filepath.Join(e.c.SocketDir, socketName) }

// Name implements component.Component.
func (e *Embedded) Name() string { return "etcd" }

// Run implements component.Component: the member is up from ready until Run returns. A write that fails on the disk ends Run with
// component.Fatal: only a new process that reads the disk knows what it holds.
func (e *Embedded) Run(ctx context.Context, ready func()) error {
	for _, dir := range []string{e.c.Dir, e.c.SocketDir} {
		if err := privateDir(dir); err != nil {
			return component.Fatal(err)
		}
	}
	if err := checkLock(e.c.Dir); err != nil {
		return component.Fatal(err)
	}
	start := time.Now()
	died := make(chan error, 1)
	started := make(chan error, 1)
	var member *embed.Etcd
	// In its own goroutine: if etcd finds that it cannot go on, its logger stops that goroutine for good.
	go func() {
		var err error
		member, err = embed.StartEtcd(e.config(died))
		started <- err
	}()
	select {
	case err := <-started:
		if err != nil {
			return fmt.Errorf("start etcd in %s: %w", e.c.Dir, err)
		}
	case err := <-died:
		return component.Fatal(err)
	}
	late := time.AfterFunc(e.patience, func() {
		e.c.Logger.Warn("etcd is not ready yet: its disk is slow, or a part of its log is lost, of which it has put aside as *.broken what it could not read; "+
			"if it stays like this, the cluster's state has to be restored from a backup", "log", filepath.Join(e.c.Dir, "member", "wal"))
	})
	defer late.Stop()
	select {
	case <-member.Server.ReadyNotify():
		late.Stop()
	case err := <-died:
		return component.Fatal(err)
	case err := <-member.Err():
		shut(member)
		return fmt.Errorf("etcd: %w", err)
	case <-ctx.Done():
		shut(member)
		return nil
	}
	e.boot = time.Since(start)
	return e.serve(ctx, member, died, ready)
}

// shut unmaps the member's database.
func shut(member *embed.Etcd) {
	_ = gcroom.Unmapping(func() error { member.Close(); return nil })
}

// serve is the part of Run after the member has become ready.
func (e *Embedded) serve(ctx context.Context, member *embed.Etcd, died <-chan error, ready func()) error {
	c := &conn{
		c: v3client.New(member.Server), kv: adapter.KvServerToKvClient(v3rpc.NewQuotaKVServer(member.Server)),
		lease:  adapter.LeaseServerToLeaseClient(v3rpc.NewQuotaLeaseServer(member.Server)),
		leases: newLeases(),
		local:  newMember(member.Server),
	}
	e.conn.Store(c)
	e.c.Logger.Info("etcd is ready", "dir", e.c.Dir, "revision", c.local.revision(), "took", e.boot.Round(time.Millisecond))
	ready()
	ctx, cancel := context.WithCancel(ctx)
	keep := newKeeper(&e.Client, e.c)
	kept := make(chan error, 1)
	go func() { kept <- component.Guard(func() error { keep.run(ctx); return nil }) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-kept:
		kept <- nil
	case err = <-died:
		// The member holds its locks and will never answer, so it cannot be stopped in an orderly way.
		e.conn.Store(nil)
		cancel()
		c.local.end()
		return component.Fatal(err)
	case err = <-member.Err():
		err = fmt.Errorf("etcd: %w", err)
	case <-member.Server.StopNotify():
		err = errors.New("etcd: the member stopped by itself")
	}
	cancel()
	e.conn.Store(nil)
	if kerr := <-kept; err == nil {
		err = kerr
	}
	c.local.end()
	c.local.running.Wait() // watches read the database
	_ = c.c.Close()
	shut(member)
	return err
}

// config is the member's configuration. died receives the reason when etcd cannot go on.
func (e *Embedded) config(died chan<- error) *embed.Config {
	c := embed.NewConfig()
	c.Name = "podo"
	c.Dir = e.c.Dir
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: e.Socket()}}
	c.AdvertiseClientUrls = c.ListenClientUrls
	// The member is alone, so no peer connects and nothing listens. The address only fills the member list.
	c.ListenPeerUrls = nil
	c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.TickMs, c.ElectionMs = tickMillis, electionMillis
	c.QuotaBackendBytes = e.c.Quota
	c.BackendBatchInterval, c.BackendBatchLimit = flushEvery, flushWrites
	c.MaxTxnOps = 10_000
	c.EnableGRPCGateway = false
	// No member has to catch up from the log, so it need not stay in memory.
	c.SnapshotCount, c.SnapshotCatchUpEntries = 5_000, 100
	c.Logger = "zap"
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapLogger(e.c.Logger, e.c.Dir, died))
	return c
}

// privateDir makes a folder, or closes an existing one to others.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return nil
}

// socketDir is where the socket goes by default.
func socketDir(dir string) string {
	if d := filepath.Join(dir, "sock"); len(filepath.Join(d, socketName)) <= maxSocketPath {
		return d
	}
	run := os.Getenv("XDG_RUNTIME_DIR")
	if os.Geteuid() == 0 || run == "" {
		run = "/run"
	}
	return filepath.Join(run, fmt.Sprintf("podo-etcd-%08x", hash(dir)))
}

// checkLock refuses a directory that another process has open: bbolt would wait for it forever.
func checkLock(dir string) error {
	f, err := os.Open(filepath.Join(dir, "member", "snap", "db"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%w: another podo or etcd has %s open; stop it, or choose another data directory", ErrLocked, dir)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil // closing f releases the lock, for bbolt to take
}

// ErrLocked says that another process has the data directory open.
var ErrLocked = errors.New("the data directory is in use")

var _ store.Store = (*Embedded)(nil)
