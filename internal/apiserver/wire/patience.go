package wire

import (
	"sync"
	"time"
)

// patience bounds how long each write of a stream may take, without a word to the connection for those that are in time: HTTP/2 would
// have to be told of each deadline, and reset a stream whose deadline passes also when nothing waits to be written.
type patience struct {
	limit time.Duration
	cut   func() // ends the write under way; called at most once a write, and never after end
	timer *time.Timer

	mu    sync.Mutex
	since time.Time // of the write under way; zero: there is none
}

func newPatience(limit time.Duration, cut func()) *patience {
	p := &patience{limit: limit, cut: cut}
	p.timer = time.AfterFunc(time.Hour, p.late)
	p.timer.Stop()
	return p
}

// begin and end are called around each write.
func (p *patience) begin() {
	p.mu.Lock()
	p.since = time.Now()
	p.mu.Unlock()
	p.timer.Reset(p.limit)
}

func (p *patience) end() {
	p.timer.Stop()
	p.mu.Lock()
	p.since = time.Time{}
	p.mu.Unlock()
}

func (p *patience) late() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() && time.Since(p.since) >= p.limit { // else it was the write before this one's
		p.cut()
	}
}
