package wire

import (
	"sync"
	"time"
)

// patience bounds the duration of each write of a stream without touching the connection as long as writes are in time. HTTP/2
// would have to be told of each deadline, and resets a stream whose deadline passes even if nothing is being written. The timer
// is not stopped after a write; when it fires, it looks whether a write is under way, and since when. It therefore fires rarely,
// however much is written.
type patience struct {
	limit time.Duration
	cut   func() // ends the write under way; called at most once a write, and never after its end

	mu    sync.Mutex
	since time.Time   // start of the write under way; zero: there is none
	timer *time.Timer // nil: does not run
}

func newPatience(limit time.Duration, cut func()) *patience { return &patience{limit: limit, cut: cut} }

// begin and end are called around each write.
func (p *patience) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	if p.timer == nil {
		p.timer = time.AfterFunc(p.limit, p.look)
	}
}

func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
}

// stop is called after the last write.
func (p *patience) stop() {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (p *patience) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.timer = nil // the next write starts a new one
		return
	}
	left := p.limit - time.Since(p.since)
	if left <= 0 {
		p.cut()
		return
	}
	p.timer.Reset(left)
}
