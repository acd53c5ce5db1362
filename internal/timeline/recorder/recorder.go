// Package recorder keeps the timeline of a process: bounded in memory, followed by subscribers, and written to a journal on
// disk so that a pod's story survives a restart.
//
// One mutex guards the memory and is never held across I/O: Append costs a map look-up and a copy. Run's goroutine alone does what
// may block (journal, log lines). What it cannot keep up with is dropped and counted, never waited for.
package recorder

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"podo.dev/podo/internal/timeline"
)

// Config bounds a Recorder. The zero value is a recorder in memory with the default bounds.
type Config struct {
	PerPod int // records kept of one pod; the first quarter is never dropped, then the newest stay. Default 256.
	Total  int // records kept of all pods; finished pods go first, oldest first, then the longest quiet. Default 50,000.

	// Dir holds the journal (timeline.jsonl, timeline.jsonl.1); empty keeps nothing on disk.
	Dir          string
	JournalBytes int64 // bound of one of the two files. Default 8 MiB.

	// Logger, when set, gets one line a record at Level, with the constant message "timeline".
	Logger *slog.Logger
	Level  slog.Level
}

// Validate fills in defaults and says what is wrong.
func (c *Config) Validate() error {
	if c.PerPod == 0 {
		c.PerPod = 256
	}
	if c.Total == 0 {
		c.Total = 50_000
	}
	if c.JournalBytes == 0 {
		c.JournalBytes = 8 << 20
	}
	if c.PerPod < 4 || c.Total < c.PerPod || c.JournalBytes < 0 {
		return fmt.Errorf("timeline recorder: want 4 <= PerPod <= Total and JournalBytes > 0, have %d, %d, %d", c.PerPod, c.Total, c.JournalBytes)
	}
	return nil
}

// maxPending bounds what waits for the journal's writer.
const maxPending = 16_384

// Recorder is the process's timeline.
type Recorder struct {
	config Config

	mu        sync.Mutex
	seq       uint64
	state     *memory
	followers map[*Follower]struct{}
	pending   []timeline.Record // for Run; nil-safe when nobody runs
	lost      int               // dropped from pending
	wake      chan struct{}
	loaded    chan struct{} // closed when history is in memory
}

// New makes a Recorder. With a Dir it continues that journal's sequence; the history itself is read by Run.
func New(c Config) (*Recorder, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &Recorder{
		config: c, state: newMemory(c.PerPod, c.Total), followers: map[*Follower]struct{}{},
		wake: make(chan struct{}, 1), loaded: make(chan struct{}),
	}
	if c.Dir == "" {
		close(r.loaded)
		return r, nil
	}
	seq, err := lastSeq(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("timeline journal in %s: %w", c.Dir, err)
	}
	r.seq = seq
	return r, nil
}

// Append is a timeline.Append.
func (r *Recorder) Append(rec timeline.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	rec.Seq = r.seq
	r.state.add(rec)
	for f := range r.followers {
		f.offer(rec)
	}
	if r.config.Dir == "" && r.config.Logger == nil {
		return
	}
	if len(r.pending) >= maxPending {
		r.lost++
		return
	}
	r.pending = append(r.pending, rec)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Records returns what is kept and matches, in the order of appending.
func (r *Recorder) Records(q timeline.Query) []timeline.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.records(q)
}

// Follow returns what is kept and matches, and a Follower for all that comes after it, without a gap between the two.
// Close the Follower when done.
func (r *Recorder) Follow(q timeline.Query) ([]timeline.Record, *Follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &Follower{recorder: r, query: q, wake: make(chan struct{}, 1), seen: r.seq}
	r.followers[f] = struct{}{}
	return r.state.records(q), f
}

// Loaded is closed once the journal's history is in memory.
func (r *Recorder) Loaded() <-chan struct{} { return r.loaded }

// followerBuffer is how many records wait for a slow follower before it reads them from memory instead.
const followerBuffer = 1024

// Follower hands out new records in order. It is for one goroutine.
type Follower struct {
	recorder *Recorder
	query    timeline.Query
	wake     chan struct{}

	// Guarded by recorder.mu.
	queue  []timeline.Record
	lagged bool
	seen   uint64
}

func (f *Follower) offer(rec timeline.Record) {
	if !f.query.Match(rec) {
		return
	}
	if len(f.queue) >= followerBuffer {
		f.lagged, f.queue = true, nil
	}
	if !f.lagged {
		f.queue = append(f.queue, rec)
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Next blocks until there are new records or ctx ends. A follower that was too slow gets what memory still keeps.
func (f *Follower) Next(ctx context.Context) ([]timeline.Record, error) {
	for {
		if out := f.take(); len(out) > 0 {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.wake:
		}
	}
}

func (f *Follower) take() []timeline.Record {
	f.recorder.mu.Lock()
	defer f.recorder.mu.Unlock()
	out := f.queue
	if f.lagged {
		q := f.query
		q.After = max(q.After, f.seen)
		out = f.recorder.state.records(q)
	}
	f.queue, f.lagged = nil, false
	if len(out) > 0 {
		f.seen = out[len(out)-1].Seq
	}
	return out
}

// Close ends the subscription.
func (f *Follower) Close() {
	f.recorder.mu.Lock()
	defer f.recorder.mu.Unlock()
	delete(f.recorder.followers, f)
}

// podLog is one pod's records: the head stays, of the tail the oldest make room.
type podLog struct {
	pod        timeline.PodRef
	head, tail packed
	finished   bool
	place      *list.Element // in memory.live or memory.done
}

func (l *podLog) len() int { return l.head.n + l.tail.n }

func (l *podLog) each(w *words, visit func(timeline.Record)) {
	l.head.each(w, l.pod, visit)
	l.tail.each(w, l.pod, visit)
}
