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

// Answer is how it ended.
type Answer struct {
	TxnResult
	Err error
}

// Together asks for several transactions at once and gathers their answers, in the order of the requests. Each is a Txn by itself, with a
// revision and an outcome of its own, and they happen in any order. None waits for another's answer, so that a store with a log takes them with
// one flush, or with two or three where it was idle. etcd's server has no way to begin a transaction and hear of its end later: one goroutine
// waits for each.
func Together(ctx context.Context, s Store, requests []Request) []Answer {
	answers := make([]Answer, len(requests))
	ask := func(i int) { answers[i].TxnResult, answers[i].Err = s.Txn(ctx, requests[i].Conds, requests[i].Ops) }
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
	return answers
}

// deepen has a goroutine's stack grow at once to what a transaction comes to need. It would else be doubled, and moved, three times.
//
//go:noinline
func deepen(at int) byte {
	var room [12 << 10]byte
	return room[at]
}
