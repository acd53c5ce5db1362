package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A leader's lease lasts for two seconds at least, and etcd ends it up to half a second after that. So that another server leads within two
// seconds of a leader's death, those who stand by ask how long its lease has been silent, which is no write, and end it themselves.
//
//	leader      renewed ─────────────────────── leadFor (1.4 s) ► its term ends
//	stand-by    ──────── 1 s ► seen as silent ─── silence ► the lease is ended (1.5 to 1.7 s)
//
// etcd tells whole seconds of what is left of a lease: one second of silence is the least that can be seen. The leader's time runs from
// when it sent the last renewal that was answered, etcd's from when that came: so its term is over before anybody ends the lease, however
// slow the answers are, as long as both clocks run.
const (
	renewEvery = 350 * time.Millisecond
	leadFor    = 1400 * time.Millisecond
	askEvery   = 200 * time.Millisecond
	silence    = 500 * time.Millisecond
)

// hold renews a leader's lease until this server must no longer lead, and says why. sent is when the last answered renewal was
// sent.
func hold(ctx context.Context, sent time.Time, renew func(context.Context) error) (why string) {
	for next := sent.Add(renewEvery); ; {
		term, cancel := context.WithDeadline(ctx, sent.Add(leadFor))
		pause(term, time.Until(next))
		tried := time.Now()
		next = tried.Add(renewEvery)
		err := renew(term)
		over := term.Err() != nil
		cancel()
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound) || ctx.Err() != nil: // the session also notices a lease that is gone
			return lostLease
		case over:
			return lostUnanswered
		}
		if err == nil {
			sent = tried
		}
	}
}

// fresh renews the lease of a server that stands by, and returns when the last answered renewal was sent. Nobody ends the lease
// before silence has passed since then: a server that now wins, and gets one more renewal answered by then, holds a lease that
// nobody is ending. The session's own renewals do not serve: they are further apart, and do not say when they happened.
func fresh(ctx context.Context, sent time.Time, renew func(context.Context) error) time.Time {
	for ; ctx.Err() == nil; pause(ctx, renewEvery) {
		one, cancel := context.WithTimeout(ctx, leadFor)
		tried := time.Now()
		if renew(one) == nil { // otherwise the next one may be answered
			sent = tried
		}
		cancel()
	}
	return sent
}

// first renews the lease of a server that has just won, and returns when that was sent; before is the last renewal that fresh
// knows of. It returns zero when the answer comes so late that somebody may already be ending the lease.
func first(ctx context.Context, before time.Time, renew func(context.Context) error) (sent time.Time, err error) {
	ctx, cancel := context.WithDeadline(ctx, before.Add(leadFor))
	defer cancel()
	sent = time.Now()
	err = renew(ctx)
	if ctx.Err() != nil {
		return time.Time{}, nil
	}
	return sent, err
}

// silent waits until a leader has not renewed its lease for so long that it no longer leads. It returns false when the lease is
// gone or ctx ends first. ask returns the seconds for which the lease was granted (0 when it is gone) and those that are left,
// rounded towards zero.
func silent(ctx context.Context, ask func(context.Context) (granted, left int64, err error)) bool {
	var since, last time.Time // since: silent ever since then; last: when that was last asked
	for wait := time.Duration(0); ; {
		if pause(ctx, wait); ctx.Err() != nil {
			return false
		}
		asked := time.Now()
		granted, left, err := ask(ctx)
		now := time.Now()
		wait = askEvery
		switch {
		case err == nil && granted == 0:
			return false
		case err != nil || granted-left < 2: // it is not known to have been silent for a second
			since = time.Time{}
		case since.IsZero() || now.Sub(last) >= time.Duration(granted-left-1)*time.Second: // it may have been renewed since the last question
			since = now
		case asked.Sub(since) >= silence: // an answer is as old as its question
			return true
		default:
			if rest := silence - now.Sub(since); rest < 2*askEvery {
				wait = rest
			}
		}
		last = asked
	}
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// renew renews a lease once.
func (c *conn) renew(ctx context.Context, id clientv3.LeaseID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.lease.LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return err
	}
	res, err := stream.Recv()
	if err == nil && res.TTL <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	return err
}

// watched watches the leader on behalf of a server that stands by. It is used by one goroutine.
type watched struct {
	e    *Election
	conn *conn
	own  string // the key of the standing server's candidacy

	lease   clientv3.LeaseID
	cancel  context.CancelFunc
	looking sync.WaitGroup
}

// look makes who, with this lease, the leader to watch; it returns whether that is new.
func (w *watched) look(ctx context.Context, lease clientv3.LeaseID, who string) bool {
	if lease == w.lease {
		return false
	}
	w.stop()
	ctx, w.cancel = context.WithCancel(ctx)
	w.lease = lease
	w.looking.Go(func() {
		if !silent(ctx, w.ask(lease)) {
			return
		}
		w.e.log.Warn("the leader is silent: its lease is ended", "leader", who)
		ctx, cancel := context.WithTimeout(ctx, electionTTL*time.Second)
		defer cancel()
		if _, err := w.conn.c.Revoke(ctx, lease); err != nil && ctx.Err() == nil {
			w.e.log.Warn("the silent leader's lease cannot be ended: it runs out by itself", "err", err)
		}
	})
	return true
}

// errUnheard is the answer to a leader's renewal while the standing server's own candidacy is still being written, however long
// the disk takes. A leader that is alone hears of others by that candidacy, and renews nothing before.
var errUnheard = errors.New("the leader has not heard of this server yet")

func (w *watched) ask(lease clientv3.LeaseID) func(context.Context) (granted, left int64, err error) {
	heard := false
	return func(ctx context.Context) (granted, left int64, err error) {
		ctx, cancel := context.WithTimeout(ctx, electionTTL*time.Second)
		defer cancel()
		if !heard {
			own, err := w.conn.c.Get(ctx, w.own, clientv3.WithCountOnly())
			if err != nil {
				return 0, 0, err
			}
			if heard = own.Count > 0; !heard {
				return 0, 0, errUnheard
			}
		}
		res, err := w.conn.c.TimeToLive(ctx, lease)
		if err != nil {
			return 0, 0, err
		}
		return res.GrantedTTL, res.TTL, nil
	}
}

// stop ends the looking.
func (w *watched) stop() {
	if w.cancel != nil {
		w.cancel()
		w.looking.Wait()
		w.cancel, w.lease = nil, clientv3.NoLease
	}
}
