package wire

import (
	"sync"
	"time"
)

// patience bounds how long each write of a stream may take, without a word to the connection for those that are in time: HTTP/2 would
// have to be told of each deadline, and reset a stream whose deadline passes also when nothing waits to be written. The timer is not
// stopped after a write either, but looks when it fires whether one is under way, and since when: once in so long, however much is written.
type patience struct {
	limit time.Duration
	cut   func() // ends the write under way; called at most once a write, and never after end

	mu    sync.Mutex
	since time.Time   // of the write under way; zero: there is none
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

// stop is called when nothing will be written any more.
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
		p.timer = nil // the next write starts another
		return
	}
	left := p.limit - time.Since(p.since)
	if left <= 0 {
		p.cut()
		return
	}
	p.timer.Reset(left)
}
