// Package etcd is the store on etcd v3: a member inside this process (Embedded) or a cluster elsewhere (External). It is
// the only package that imports etcd's server code.
//
// Both are components that the supervisor runs and, from their making on, stores: while they do not run, calls return
// store.ErrUnavailable.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"podo.dev/podo/internal/store"
)

// Client is a store.Store over a connection that comes and goes. Embedded and External are made of it.
type Client struct {
	conn atomic.Pointer[conn]
	// noSpace is poked when a write was refused for want of space.
	noSpace chan struct{}
}

var _ store.Store = (*Client)(nil)

// conn is one connection to a running etcd.
type conn struct {
	c       *clientv3.Client
	kv      pb.KVClient    // for transactions: clientv3's own copies each part twice
	lease   pb.LeaseClient // for single renewals: clientv3's own retries without a pause while etcd is away
	leases  leases
	watches watches
	local   *member // nil: the cluster is elsewhere
	streams atomic.Int64
}

func (s *Client) connect() (*conn, error) {
	if c := s.conn.Load(); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w: etcd is not running", store.ErrUnavailable)
}

// failed turns an error of etcd's into one of the port's.
func (s *Client) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, rpctypes.ErrCompacted):
		return store.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return store.ErrFuture
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: %w", store.ErrTooLarge, err)
	case errors.Is(err, rpctypes.ErrNoSpace):
		select {
		case s.noSpace <- struct{}{}:
		default:
		}
		return store.ErrNoSpace
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// read is a linearizable read that also reflects everything that a watch has delivered. at > 0 is the revision that opts ask for.
func (c *conn) read(ctx context.Context, at int64, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if c.local == nil {
		return c.c.Get(ctx, key, opts...)
	}
	opts = append(opts, clientv3.WithSerializable())
	for seen := c.local.seen.Load(); ; {
		res, err := c.c.Get(ctx, key, opts...)
		switch {
		case err == nil && res.Header.Revision < seen, errors.Is(err, rpctypes.ErrFutureRev) && at <= seen:
			runtime.Gosched() // another goroutine is just finishing the write, in memory
		default:
			return res, err
		}
	}
}

// Get implements store.Store.
func (s *Client) Get(ctx context.Context, key string) (store.KV, error) {
	c, err := s.connect()
	if err != nil {
		return store.KV{}, err
	}
	res, err := c.read(ctx, 0, key)
	if err != nil {
		return store.KV{}, s.failed(ctx, err)
	}
	if len(res.Kvs) == 0 {
		return store.KV{}, store.ErrNotFound
	}
	return kvOf(res.Kvs[0]), nil
}

// List implements store.Store.
func (s *Client) List(ctx context.Context, prefix string, o store.ListOptions) (store.ListResult, error) {
	c, err := s.connect()
	if err != nil {
		return store.ListResult{}, err
	}
	from := prefix
	if o.After >= prefix && o.After != "" {
		from = o.After + "\x00"
	}
	res, err := c.read(ctx, o.Revision, from,
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(int64(o.Limit)), clientv3.WithRev(o.Revision))
	if err != nil {
		return store.ListResult{}, s.failed(ctx, err)
	}
	out := store.ListResult{Revision: o.Revision, More: res.More, KVs: make([]store.KV, 0, len(res.Kvs))}
	if out.Revision == 0 {
		out.Revision = res.Header.Revision
	}
	for _, kv := range res.Kvs {
		out.KVs = append(out.KVs, kvOf(kv))
	}
	return out, nil
}

// Txn implements store.Store. A key with a TTL is deleted up to 5 % later (at most a minute), since many keys share one lease.
func (s *Client) Txn(ctx context.Context, conds []store.Cond, ops []store.Op) (store.TxnResult, error) {
	c, err := s.connect()
	if err != nil {
		return store.TxnResult{}, err
	}
	req := &pb.TxnRequest{
		Compare: make([]*pb.Compare, len(conds)), Success: make([]*pb.RequestOp, len(ops)), Failure: make([]*pb.RequestOp, len(conds)),
	}
	for i, cond := range conds {
		key := []byte(cond.Key)
		req.Compare[i] = &pb.Compare{
			Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_ModRevision{ModRevision: cond.Revision},
		}
		req.Failure[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}
	}
	for i, op := range ops {
		if op.Delete {
			req.Success[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(op.Key)}}}
			continue
		}
		put := &pb.PutRequest{Key: []byte(op.Key), Value: op.Value}
		if op.TTL > 0 {
			lease, err := c.leases.get(ctx, c.c, op.TTL)
			if err != nil {
				return store.TxnResult{}, s.failed(ctx, err)
			}
			put.Lease = int64(lease)
		}
		req.Success[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}}
	}
	res, err := c.kv.Txn(ctx, req, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return store.TxnResult{}, s.failed(ctx, clientv3.ContextError(ctx, err))
	}
	out := store.TxnResult{OK: res.Succeeded, Revision: res.Header.Revision}
	if !out.OK {
		for i, r := range res.Responses {
			kv := store.KV{Key: conds[i].Key}
			if kvs := r.GetResponseRange().Kvs; len(kvs) > 0 {
				kv = kvOf(kvs[0])
			}
			out.Found = append(out.Found, kv)
		}
	}
	return out, nil
}

// Revision implements store.Store.
func (s *Client) Revision(ctx context.Context) (int64, error) {
	c, err := s.connect()
	if err != nil {
		return 0, err
	}
	if c.local != nil {
		return c.local.revision(), ctx.Err()
	}
	// Any key serves: the revision is in the answer's header.
	res, err := c.c.Get(ctx, "/registry/", clientv3.WithKeysOnly())
	if err != nil {
		return 0, s.failed(ctx, err)
	}
	return res.Header.Revision, nil
}

// Compact implements store.Store.
func (s *Client) Compact(ctx context.Context, rev int64) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	if _, err = c.c.Compact(ctx, rev); errors.Is(err, rpctypes.ErrCompacted) {
		return nil
	}
	return s.failed(ctx, err)
}

// leases shares one lease among the keys that were written with the same TTL within a while, as upstream does: a lease of
// its own for every event would double the writes.
type leases struct {
	held chan []lease // the lock, and at most one lease per TTL
}

type lease struct {
	ttl   time.Duration
	id    clientv3.LeaseID
	until time.Time // no key may be attached later: it would go too early
	left  int       // how many more keys may be attached
}

// keysPerLease bounds what goes at one moment.
const keysPerLease = 1000

func newLeases() leases {
	l := leases{make(chan []lease, 1)}
	l.held <- nil
	return l
}

func (l *leases) get(ctx context.Context, c *clientv3.Client, ttl time.Duration) (clientv3.LeaseID, error) {
	ttl = (ttl + time.Second - 1).Truncate(time.Second)
	var held []lease
	select {
	case held = <-l.held:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	now := time.Now()
	held = slices.DeleteFunc(held, func(h lease) bool { return h.left == 0 || now.After(h.until) })
	i := slices.IndexFunc(held, func(h lease) bool { return h.ttl == ttl })
	if i < 0 {
		reuse := min(ttl/20, time.Minute).Truncate(time.Second)
		res, err := c.Grant(ctx, int64((ttl+reuse)/time.Second))
		if err != nil {
			l.held <- held
			return 0, err
		}
		held = append(held, lease{ttl, res.ID, now.Add(reuse), keysPerLease})
		i = len(held) - 1
	}
	held[i].left--
	id := held[i].id
	l.held <- held
	return id, nil
}
