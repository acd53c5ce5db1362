package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keeper bounds what the store holds. It compacts history that is old enough; for an embedded member it also gives the database's
// free pages back while nothing is going on, and makes space when etcd reports that there is none.
//
// Every round (half of the history's time) compacts to the revision of two rounds ago, so that history is kept for at least its
// time, and for at most one and a half times that.
type keeper struct {
	s       *Client
	c       EmbeddedConfig
	past    []int64 // the revision at each of the last rounds
	quietAt int64   // the revision at the last look for quiet
	least   int64   // bytes: a smaller database is never defragmented
}

func newKeeper(s *Client, c EmbeddedConfig) *keeper {
	return &keeper{s: s, c: c, least: 64 << 20}
}

const (
	// lookEvery is how often the database is looked at.
	lookEvery = time.Minute
	// quietWrites a look or fewer count as nothing going on: an idle node writes some 10 a minute.
	quietWrites = 60
)

func (k *keeper) run(ctx context.Context) {
	compact := time.NewTicker(k.c.History / 2)
	defer compact.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	k.makeSpace(ctx) // it may have been full when it was stopped
	for {
		select {
		case <-ctx.Done():
			return
		case <-compact.C:
			k.compact(ctx)
		case <-look.C:
			k.look(ctx)
		case <-k.s.noSpace:
			k.makeSpace(ctx)
		}
	}
}

func (k *keeper) compact(ctx context.Context) {
	rev, err := k.s.Revision(ctx)
	if err != nil {
		return // the component notices by itself that etcd is away
	}
	if k.past = append(k.past, rev); len(k.past) <= 2 {
		return
	}
	if err := k.s.Compact(ctx, k.past[0]); err != nil && ctx.Err() == nil {
		k.c.Logger.Warn("etcd: compaction failed; the next one will do", "revision", k.past[0], "err", err)
	}
	k.past = k.past[1:]
}

// local is the embedded member's connection; nil for an external cluster, whose disk is not ours to keep.
func (k *keeper) local() *conn {
	if c := k.s.conn.Load(); c != nil && c.local != nil {
		return c
	}
	return nil
}

// look acts while nobody writes: it has the database drop its buffers, and defragments a database of which half is free, which
// stops the store for as long as the copy takes.
func (k *keeper) look(ctx context.Context) {
	c := k.local()
	if c == nil {
		return
	}
	rev := c.local.revision()
	quiet := rev-k.quietAt <= quietWrites
	k.quietAt = rev
	st, err := c.c.Status(ctx, "")
	if err == nil && full(st) {
		k.makeSpace(ctx) // something may have been deleted meanwhile
		return
	}
	if quiet {
		c.local.forget(ctx)
	}
	if err != nil || !quiet || st.DbSize < k.least || st.DbSizeInUse > st.DbSize/2 {
		return
	}
	k.defragment(c, st)
}

func (k *keeper) defragment(c *conn, st *clientv3.StatusResponse) {
	start := time.Now()
	if err := c.local.defragment(); err != nil {
		k.c.Logger.Warn("etcd: defragmentation failed", "err", err)
		return
	}
	k.c.Logger.Info("etcd: gave free space back", "size", st.DbSize, "in_use", st.DbSizeInUse, "took", time.Since(start).Round(time.Millisecond))
}

// full says whether etcd has raised its space alarm. (Listing alarms would be a write in the log.)
func full(st *clientv3.StatusResponse) bool {
	return slices.ContainsFunc(st.Errors, func(e string) bool {
		return strings.Contains(e, etcdserverpb.AlarmType_NOSPACE.String())
	})
}

// makeSpace answers etcd's alarm: it compacts all history, gives the free pages back and, if the database is then well below its
// quota, clears the alarm. Otherwise writes stay refused (deletions do not), and the log says what to do.
func (k *keeper) makeSpace(ctx context.Context) {
	c := k.local()
	if c == nil {
		return
	}
	st, err := c.c.Status(ctx, "")
	if err != nil || !full(st) {
		return
	}
	// Physical: pages become free only when the compaction has been carried out.
	_, err = c.c.Compact(ctx, c.local.revision(), clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		k.c.Logger.Error("etcd is full, and its history cannot be compacted", "err", err)
		return
	}
	k.defragment(c, st)
	if st, err = c.c.Status(ctx, ""); err != nil {
		return
	}
	if st.DbSize > k.c.Quota/10*9 {
		k.c.Logger.Error("etcd is full: writes are refused until objects are deleted or the quota is raised",
			"size", st.DbSize, "quota", k.c.Quota)
		return
	}
	if _, err := c.c.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		k.c.Logger.Error("etcd: the space alarm cannot be taken off", "err", err)
		return
	}
	k.c.Logger.Warn("etcd was full; its history was compacted, and writes are accepted again", "size", st.DbSize, "quota", k.c.Quota)
}
