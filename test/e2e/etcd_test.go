package e2e

import (
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"google.golang.org/grpc"
)

// anEtcd is an etcd of somebody else's, which servers reach through a line that can be cut.
//
//	podo ── line ── etcd (slow: each transaction waits first)
type anEtcd struct {
	member *embed.Etcd
	client *clientv3.Client // behind the line
	line   *line
	slow   atomic.Int64 // nanoseconds
}

// etcdQuota is small, so that a test can fill it.
const etcdQuota = 48 << 20

// startEtcd runs one in this process, with its data and sockets in dir.
func startEtcd(dir string) (*anEtcd, error) {
	e := &anEtcd{}
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.Logger = filepath.Join(dir, "data"), "fatal", "zap"
	socket := filepath.Join(dir, "etcd.sock")
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	c.AdvertiseClientUrls, c.ListenPeerUrls = c.ListenClientUrls, nil
	c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.QuotaBackendBytes, c.EnableGRPCGateway = etcdQuota, false
	c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainUnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if strings.HasSuffix(info.FullMethod, "/Txn") {
				select {
				case <-time.After(time.Duration(e.slow.Load())):
				case <-ctx.Done():
				}
			}
			return handler(ctx, req)
		})}
	var err error
	if e.member, err = embed.StartEtcd(c); err != nil {
		return nil, err
	}
	<-e.member.Server.ReadyNotify()
	e.client = v3client.New(e.member.Server)
	e.line, err = newLine(filepath.Join(dir, "line.sock"), socket)
	return e, err
}

func (e *anEtcd) endpoint() string { return "unix://" + e.line.path }

func (e *anEtcd) stop() {
	e.line.cut()
	e.client.Close()
	e.member.Close()
}

// fill writes until etcd refuses to.
func (e *anEtcd) fill(t *testing.T) {
	t.Helper()
	junk := strings.Repeat("x", 1<<20)
	for range 2 * etcdQuota >> 20 {
		if _, err := e.client.Put(t.Context(), "/junk", junk); err != nil {
			return
		}
	}
	t.Fatal("etcd takes more than its quota")
}

// makeRoom is what its keeper does when he finds it full.
func (e *anEtcd) makeRoom(t *testing.T) {
	t.Helper()
	res, err := e.client.Delete(t.Context(), "/junk")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.Compact(t.Context(), res.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if err := e.member.Server.Backend().Defrag(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
}

// line is a socket that leads to another one.
type line struct {
	path, to string

	mu     sync.Mutex
	listen net.Listener // nil while it is cut
	open   map[net.Conn]bool
}

func newLine(path, to string) (*line, error) {
	l := &line{path: path, to: to, open: map[net.Conn]bool{}}
	return l, l.mend()
}

// cut ends all connections and takes no new ones.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listen != nil {
		l.listen.Close()
		l.listen = nil
	}
	for c := range l.open {
		c.Close()
	}
	clear(l.open)
}

func (l *line) mend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	listen, err := net.Listen("unix", l.path)
	if err != nil {
		return err
	}
	l.listen = listen
	go func() {
		for {
			near, err := listen.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", l.to)
			if err != nil {
				near.Close()
				continue
			}
			l.mu.Lock()
			l.open[near], l.open[far] = true, true
			l.mu.Unlock()
			go l.carry(near, far)
			go l.carry(far, near)
		}
	}()
	return nil
}

func (l *line) carry(to, from net.Conn) {
	io.Copy(to, from)
	to.Close()
	from.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, to)
	delete(l.open, from)
}
