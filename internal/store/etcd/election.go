package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"podo.dev/podo/internal/component"
)

// Election decides which of the servers on one store runs what must run once: the scheduler and the controllers. Each server stands for
// it with an etcd lease, whose renewals are no writes.
//
//	standing ──► leading ──► lost (others stand, and no renewal was answered for leadFor) ──► standing
//	               └───────► resigned (an orderly stop: the next one leads at once)
//
// A server whose store is its own, and for which nobody else stands, leads however slow that store is: see solitude.go.
//
// Of a leader that has died the others hear sooner than etcd would end its lease: see pulse.go.
//
// A server that comes back after a crash finds its own candidacy, and does not wait for it to run out: its data directory's lock says
// that nobody else acts in its name.
type Election struct {
	s   *Client
	id  string
	log *slog.Logger

	mu      sync.Mutex
	term    context.Context // nil while another one leads
	changed chan struct{}   // closed when term changes
}

const (
	electionPrefix = "/podo/leader"
	electionTTL    = 2 // seconds: the least that etcd grants; the lease's life when nobody watches it
	// For a server whose store ends with it, also in seconds. Nobody waits for the end of that lease, so a slow disk must not
	// cause it.
	ownTTL = 3600
)

// Election makes one on this store. id names the server: it is the same after a restart, and no other server has it.
func (s *Client) Election(id string, log *slog.Logger) *Election {
	return &Election{s: s, id: id, log: log, changed: make(chan struct{})}
}

// Name implements component.Component.
func (e *Election) Name() string { return "leader-election" }

// Run implements component.Component. It is ready once it is known who leads.
func (e *Election) Run(ctx context.Context, ready func()) error {
	once := sync.OnceFunc(ready)
	for {
		lost, err := e.stand(ctx, once)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return e.s.failed(ctx, err)
		}
		if lost != "" {
			e.log.Warn("no longer the leader: the scheduler and the controllers stop here until this server leads again", "why", lost)
		} else {
			e.log.Info("stands for the lead anew: the store has not kept its candidacy")
		}
	}
}

// Why a lead is lost, and what is to be done.
const (
	lostUnanswered = "the store has not answered in time that the lease is renewed: see whether its disk is slow or full, and whether this machine's processors or its network are busy"
	lostLease      = "the store no longer has its lease: another server has not heard of this one and ended it, or somebody deleted it. If another one leads there is nothing to do; if this happens again, compare the load of the servers' machines and their network"
)

// stand takes part in one round, until the lead is lost or ctx ends. lost is the reason when this server was the leader.
func (e *Election) stand(ctx context.Context, ready func()) (lost string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := e.s.connect()
	if err != nil {
		return "", err
	}
	ttl := electionTTL
	if conn.local != nil {
		ttl = ownTTL
	}
	r := &round{e: e, conn: conn, granted: time.Now(), cancel: cancel}
	if r.session, err = concurrency.NewSession(conn.c, concurrency.WithTTL(ttl)); err != nil {
		return "", err
	}
	defer resign(r.session)
	if err := e.withdraw(ctx, conn.c); err != nil {
		return "", err
	}
	r.Election = concurrency.NewElection(r.session, electionPrefix)
	renewed, won, err := r.standBy(ctx, ready)
	if !won {
		return "", err
	}
	return r.lead(ctx, renewed, ready)
}

// round is one candidacy of this server.
type round struct {
	*concurrency.Election
	e       *Election
	conn    *conn
	session *concurrency.Session
	granted time.Time // when the session's lease was asked for
	cancel  context.CancelFunc
}

func (r *round) renew(ctx context.Context) error { return r.conn.renew(ctx, r.session.Lease()) }

// standBy waits for the lead and watches the server that has it. It returns when the lease was last renewed; won is false when the
// round is over.
func (r *round) standBy(ctx context.Context, ready func()) (renewed time.Time, won bool, err error) {
	standing, stands := context.WithCancel(ctx)
	defer stands()
	last := make(chan time.Time, 1)
	go func() { last <- fresh(standing, r.granted, r.renew) }()
	others := &watched{e: r.e, conn: r.conn, own: fmt.Sprintf("%s/%x", electionPrefix, r.session.Lease())}
	defer others.stop()
	leaders, elected := r.Observe(ctx), make(chan error, 1)
	go func() { elected <- r.Campaign(ctx, r.e.id) }()
	for {
		select {
		case err := <-elected:
			if err != nil {
				return time.Time{}, false, err
			}
			others.stop()
			stands()
			return <-last, true, nil
		case now, ok := <-leaders:
			switch {
			case !ok:
				leaders = nil
			case len(now.Kvs) > 0 && string(now.Kvs[0].Value) != r.e.id:
				if others.look(ctx, clientv3.LeaseID(now.Kvs[0].Lease), string(now.Kvs[0].Value)) {
					r.e.log.Info("another server leads: the scheduler and the controllers stand by", "leader", string(now.Kvs[0].Value))
				}
				ready()
			}
		case <-r.session.Done():
			return time.Time{}, false, nil
		}
	}
}

// lead leads until it must not any more: on a store of its own without renewals as long as nobody else stands (solitude.go), otherwise
// by renewing its lease (pulse.go). renewed is when it was last renewed.
func (r *round) lead(ctx context.Context, renewed time.Time, ready func()) (lost string, err error) {
	company, err := r.conn.company(ctx, r.Key())
	if err != nil {
		return "", err
	}
	var sent time.Time
	alone := true
	select {
	case <-company:
		alone = false
		if sent, err = first(ctx, renewed, r.renew); err != nil {
			return "", err
		}
		if sent.IsZero() {
			return "", nil // it stands again, with a new lease
		}
	default:
	}
	r.e.set(ctx)
	defer func() { r.cancel(); r.e.end() }() // before another one may lead
	ready()
	release := context.AfterFunc(r.session.Ctx(), r.cancel)
	defer release()
	if alone {
		select {
		case <-company:
			sent = time.Now().Add(companyFor - leadFor)
		case <-ctx.Done():
			return lostLease, nil
		}
	}
	return hold(ctx, sent, r.renew), nil
}

// withdraw removes the candidacy that an earlier process of this server left.
func (e *Election) withdraw(ctx context.Context, c *clientv3.Client) error {
	left, err := c.Get(ctx, electionPrefix+"/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range left.Kvs {
		if string(kv.Value) != e.id {
			continue
		}
		if lease := clientv3.LeaseID(kv.Lease); lease != clientv3.NoLease { // it may last for long
			_, err := c.Revoke(ctx, lease)
			if err == nil {
				continue
			}
			if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
				return err
			}
		}
		if _, err := c.Delete(ctx, string(kv.Key)); err != nil {
			return err
		}
	}
	return nil
}

// resign ends the session's lease, so that the next server need not wait until it expires.
func resign(session *concurrency.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	session.Orphan()
	session.Client().Revoke(ctx, session.Lease()) //nolint:errcheck // it runs out by itself
}

func (e *Election) set(term context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = term
	e.tell()
}

func (e *Election) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = nil
	e.tell()
}

// tell wakes those who wait for a change. Election.mu is held.
func (e *Election) tell() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// now is the term (nil while another server leads), and a channel that is closed when it changes.
func (e *Election) now() (term context.Context, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term, e.changed
}

// Leads says whether this server leads.
func (e *Election) Leads() bool {
	term, _ := e.now()
	return term != nil && term.Err() == nil
}

// Led makes a component that runs while this server leads. While another one leads it is ready and does nothing.
func (e *Election) Led(c component.Component) component.Component {
	return component.Func(c.Name(), func(ctx context.Context, ready func()) error {
		once := sync.OnceFunc(ready)
		for {
			term, changed := e.now()
			if term == nil {
				once()
				select {
				case <-ctx.Done():
					return nil
				case <-changed:
				}
				continue
			}
			running, stop := context.WithCancel(ctx)
			release := context.AfterFunc(term, stop)
			err := c.Run(running, once)
			lost := term.Err() != nil
			release()
			stop()
			if ctx.Err() != nil || err != nil && !lost {
				return err
			}
			if !lost {
				return nil
			}
			// The term of the round that has ended is still there until the round is over.
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
		}
	})
}
