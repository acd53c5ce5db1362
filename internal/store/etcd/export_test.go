package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc"
)

// Tell makes e believe that a watch was told of rev.
func Tell(e *Embedded, rev int64) { e.conn.Load().local.saw(rev) }

// Die takes a leader's lease away, as its end would.
func Die(t *testing.T, e *Embedded, id string) {
	t.Helper()
	c := e.conn.Load().c
	left, err := c.Get(t.Context(), electionPrefix+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range left.Kvs {
		if string(kv.Value) == id {
			if _, err := c.Revoke(t.Context(), clientv3.LeaseID(kv.Lease)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Crash leaves a server's candidacy behind, with a lease that lasts for a minute.
func Crash(t *testing.T, e *Embedded, id string) {
	t.Helper()
	session, err := concurrency.NewSession(e.conn.Load().c, concurrency.WithTTL(60))
	if err != nil {
		t.Fatal(err)
	}
	if err := concurrency.NewElection(session, electionPrefix).Campaign(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	session.Orphan()
}

// BreakRenewals has no renewal of this server's lead answered, as long as broken.
func BreakRenewals(e *Embedded, broken *atomic.Bool) {
	c := e.conn.Load()
	c.lease = breakable{c.lease, broken}
}

type breakable struct {
	pb.LeaseClient
	broken *atomic.Bool
}

func (b breakable) LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	if b.broken.Load() {
		return nil, errors.New("no answer")
	}
	return b.LeaseClient.LeaseKeepAlive(ctx, opts...)
}

// Renewals tells of each question for a renewal of this server's candidacy.
func Renewals(e *Embedded) <-chan string {
	c, heard := e.conn.Load(), make(chan string)
	c.lease = counted{c.lease, heard}
	return heard
}

type counted struct {
	pb.LeaseClient
	heard chan<- string
}

func (c counted) LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	select {
	case c.heard <- "renewal":
	default: // nobody listens
	}
	return c.LeaseClient.LeaseKeepAlive(ctx, opts...)
}

// Withdraw takes a server's candidacy out of the store.
func Withdraw(t *testing.T, e *Embedded, id string) {
	t.Helper()
	if err := e.Election(id, nil).withdraw(t.Context(), e.conn.Load().c); err != nil {
		t.Fatal(err)
	}
}

// HoldWrites has no transaction of this server's answered, nor begun, until the channel is closed: so does a disk that is slow, but for
// reads, which need none.
func HoldWrites(x *External, until <-chan struct{}) {
	c := x.conn.Load()
	c.c.KV = held{c.c.KV, until}
}

type held struct {
	clientv3.KV
	until <-chan struct{}
}

func (h held) Txn(ctx context.Context) clientv3.Txn {
	select {
	case <-h.until:
	case <-ctx.Done():
	}
	return h.KV.Txn(ctx)
}

// Silent is for how many seconds, about, a server has not renewed the lease of its candidacy.
func Silent(t *testing.T, e *Embedded, id string) int64 {
	t.Helper()
	c := e.conn.Load().c
	all, err := c.Get(t.Context(), electionPrefix+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		if string(kv.Value) == id {
			left, err := c.TimeToLive(t.Context(), clientv3.LeaseID(kv.Lease))
			if err != nil {
				t.Fatal(err)
			}
			return left.GrantedTTL - left.TTL
		}
	}
	t.Fatalf("%s does not stand", id)
	return 0
}
