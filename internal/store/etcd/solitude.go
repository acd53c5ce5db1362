package etcd

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"podo.dev/podo/internal/store"
)

// A server that is alone on a store of its own renews nothing, and leads as long as both are there: a disk that takes seconds for each write
// would keep renewals waiting too, and there is nobody to whom the lead could go.
//
//	alone ──► somebody stands ── renewed within companyFor ──► in company: leads by renewals, see pulse.go
//	   │                     └── not renewed ──► lost
//	   └──► the member ends, or somebody takes the candidacy away: lost likewise
//
// That is safe since another server leads only when this one's candidacy is gone from the store, and
//   - who wants to lead writes a candidacy of his own first. The member in this process applies that write, and tells of it before the
//     other one can have its answer, so that this server hears of it as early as anybody does;
//   - the other one looks at the lease only when he has read that he stands, and for at least silence before he ends it. companyFor is
//     less: by then this server has renewed the lease, which he sees and goes on waiting, or its term is over;
//   - the lease does not run out meanwhile: it lasts for an hour, and the session renews it in time. While another server leads it is
//     renewed as often as a leader's, so that nobody sees it as silent who sees its server win;
//   - when this process ends, so does the store: the others have nowhere to read that they lead. It is back only with its server, which
//     takes its old candidacy back; in an etcd that was restored from its data, it is one more silent leader.
//
// As with renewals, that a goroutine runs within some tenths of a second is all that is asked of time.
const companyFor = 300 * time.Millisecond

// company is closed when another server may stand for the lead beside own: one does, own is gone, or nobody can tell any more. A
// server without a store of its own is never known to be alone.
func (c *conn) company(ctx context.Context, own string) (<-chan struct{}, error) {
	came := make(chan struct{})
	if c.local == nil {
		close(came)
		return came, nil
	}
	m := c.local
	done, err := m.enter()
	if err != nil {
		return nil, err
	}
	stream := m.db.NewWatchStream()
	end := func() { done(); leave(stream) }
	from, to := span(electionPrefix + "/")
	// From now on: who wrote before is in the list.
	if _, err := stream.Watch(ctx, clientv3.AutoWatchID, from, to, 0); err != nil {
		end()
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	now, err := m.db.Range(ctx, from, to, mvcc.RangeOptions{})
	if err != nil {
		end()
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if len(now.KVs) != 1 || string(now.KVs[0].Key) != own {
		close(came)
		end()
		return came, nil
	}
	go func() {
		defer end()
		defer close(came)
		for {
			select {
			case res := <-stream.Chan():
				mvcc.ReportEventReceived(len(res.Events))
				if comes(res.Events, own) {
					return
				}
			case <-m.gone:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return came, nil
}

// comes says whether another server stands, or own is gone.
func comes(events []*mvccpb.Event, own string) bool {
	for _, e := range events {
		if mine := string(e.Kv.Key) == own; mine == (e.Type == mvccpb.Event_DELETE) {
			return true
		}
	}
	return false
}
