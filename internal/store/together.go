package store

import (
	"context"
	"sync"
)

// Request is a Txn that is asked for together with others.
type Request struct {
	Conds []Cond
	Ops   []Op
}

// Together asks for several transactions at once. It calls told with the answer to each as it comes, on any goroutine, and
// returns after the last. Each is a Txn by itself, with its own revision and outcome, and they happen in any order. None waits
// for another's answer, so a store with a log writes them with one flush, or with two or three when it was idle. etcd's server
// cannot begin a transaction and report its end later, so one goroutine waits for each.
func Together(ctx context.Context, s Store, requests []Request, told func(i int, res TxnResult, err error)) {
	ask := func(i int) {
		res, err := s.Txn(ctx, requests[i].Conds, requests[i].Ops)
		told(i, res, err)
	}
	var all sync.WaitGroup
	for i := range requests {
		if i == len(requests)-1 {
			ask(i)
			break
		}
		all.Go(func() {
			deepen(0)
			ask(i)
		})
	}
	all.Wait()
}

// deepen has a goroutine's stack grow at once to what a transaction comes to need. It would else be doubled, and moved, three times.
//
//go:noinline
func deepen(at int) byte {
	var room [12 << 10]byte
	return room[at]
}
