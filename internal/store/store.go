// Package store is the port to the revisioned key-value store that holds the cluster's state. It knows keys and bytes,
// nothing of Kubernetes. Adapters: store/etcd (embedded or external) and store/mem; storetest is the suite both pass.
//
// What every implementation guarantees:
//
//   - Every successful Txn that wrote something has a revision of its own; revisions only grow. All writes of one Txn share it.
//   - Get, List without Revision, Revision and Txn are linearizable: they reflect every write acknowledged before the call, and
//     every write that a Watch has told of.
//   - A Watch from revision r delivers every write with a revision >= r under the prefix, in order of revision, each once,
//     all writes of one revision in one batch; or it ends with ErrCompacted. It never skips.
//   - A Txn that returned an error may or may not have happened, except with ErrTooLarge: then it has not.
//   - Values are immutable to both sides: neither may change a byte slice after it crossed this port.
package store

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrNotFound says that a key does not exist.
	ErrNotFound = errors.New("key not found")
	// ErrCompacted says that the asked-for revision has been compacted away.
	ErrCompacted = errors.New("required revision has been compacted")
	// ErrFuture says that the asked-for revision has not happened yet.
	ErrFuture = errors.New("required revision is a future revision")
	// ErrNoSpace says that the store refuses writes until space is made (etcd's NOSPACE alarm).
	ErrNoSpace = errors.New("database space exceeded")
	// ErrTooLarge says that a transaction exceeds what the store takes at once; nothing was written.
	ErrTooLarge = errors.New("request is too large")
	// ErrUnavailable says that the store did not answer; the caller may retry reads.
	ErrUnavailable = errors.New("store unavailable")
)

// KV is one key at one revision.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision int64
	ModRevision    int64
}

// Cond is a precondition of a Txn: the key's ModRevision equals Revision; 0 means that the key does not exist.
type Cond struct {
	Key      string
	Revision int64
}

// Op is one write of a Txn: a put, or a delete when Delete is set.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
	// TTL > 0 lets the key go by itself after that long (rounded up to seconds; used for events).
	TTL time.Duration
}

// TxnResult tells how a Txn ended.
type TxnResult struct {
	// OK says that every condition held and the writes happened at Revision.
	OK bool
	// Revision is the store's revision after the transaction.
	Revision int64
	// Found holds, when OK is false, the current state of each condition's key in order; a missing key has ModRevision 0.
	Found []KV
}

// ListOptions bound a List.
type ListOptions struct {
	// Revision > 0 reads at exactly that revision.
	Revision int64
	// After starts behind this key (exclusive); empty starts at the prefix.
	After string
	// Limit > 0 bounds the number of keys returned.
	Limit int
}

// ListResult is a page of keys in byte order.
type ListResult struct {
	KVs      []KV
	Revision int64 // the revision that the page reflects
	More     bool  // Limit cut the page
}

// Event is one write that a Watch saw. A deletion has Deleted set, the key and ModRevision of the deletion. Prev is the last value
// before the write, where the watch wants it and the store still has it.
type Event struct {
	KV
	Deleted bool
	Prev    *KV
}

// Batch is what happened at one revision under a watched prefix, or, without events, a progress mark: everything up
// to Revision has been delivered.
type Batch struct {
	Revision int64
	Events   []Event
	// Err ends the watch: ErrCompacted or ErrUnavailable. It is the last batch; the channel closes after it.
	Err error
}

// Store is the port.
type Store interface {
	Get(ctx context.Context, key string) (KV, error) // ErrNotFound
	List(ctx context.Context, prefix string, o ListOptions) (ListResult, error)
	// Txn applies ops in one revision when all conditions hold. Ops name distinct keys.
	Txn(ctx context.Context, conds []Cond, ops []Op) (TxnResult, error)
	// Watch delivers batches from revision `from` on until ctx ends (the channel then closes without Err).
	// from 0 means "from now". A watch gets progress marks at least after RequestProgress. Whoever stops reading before the
	// channel closes must end ctx. prev says of which keys Event.Prev is wanted, which costs a read for each; nil: of none.
	Watch(ctx context.Context, prefix string, from int64, prev func(key string) bool) <-chan Batch
	// RequestProgress asks all of this Store's watches for a progress mark that is not older than this call. Those that are still
	// reading the past may miss it: ask again.
	RequestProgress(ctx context.Context) error
	// Revision is the current revision, read linearizably.
	Revision(ctx context.Context) (int64, error)
	// Compact forgets history before rev: the state at rev and the writes from rev on stay readable. Compacting again what
	// has been compacted is no error; a revision that has not happened is ErrFuture.
	Compact(ctx context.Context, rev int64) error
}
