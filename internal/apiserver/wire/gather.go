package wire

import (
	"net"
	"sync"
	"time"
)

const (
	// fullRecord is what a record of TLS that carries as much as one can has at least, whatever the cipher adds.
	fullRecord = 16 << 10
	// frameHead is how many bytes a frame of HTTP/2 has beside what it carries: one that carries as much as clients take is a record and these.
	frameHead = 9
	// restRecord is more than the record of these has.
	restRecord = 64
	// framesAtOnce is how many such frames go out with one call of the system at most.
	framesAtOnce = 7
	// gatherFor is how long the first of them waits at most.
	gatherFor = time.Millisecond
)

// gathering is a connection below TLS that sends long answers with few calls of the system: TLS writes each of its records by itself. Here
// full ones are held, and what is left of their frames, until there is no room for another, until one comes that is neither, as there is at the
// end of every answer, or until the time is over: a client whose window is used up says that it has read only what it was sent.
type gathering struct {
	net.Conn

	mu    sync.Mutex // held while writing, so that records stay in their order
	held  *[]byte    // nil: nothing
	last  int        // how long the record before was
	timer *time.Timer
	err   error // of the first write that failed: what comes after it would be no TLS
}

var gathers = sync.Pool{New: func() any { b := make([]byte, 0, framesAtOnce*(fullRecord+2*restRecord)); return &b }}

// Write takes one record.
func (c *gathering) Write(record []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := len(record) >= fullRecord
	// The cipher adds as much to the one as to the other. What ends an answer is as short, but comes after a record that was not filled.
	rest := c.last-len(record) == fullRecord-frameHead
	c.last = len(record)
	if c.held != nil && len(*c.held)+len(record) > cap(*c.held) {
		c.send()
	}
	if c.err != nil {
		return 0, c.err
	}
	if c.held == nil && !full {
		return c.Conn.Write(record)
	}
	c.hold(record)
	if !full && !rest {
		c.send()
	}
	if c.err != nil {
		return 0, c.err
	}
	return len(record), nil
}

// hold keeps a record. c.mu is held.
func (c *gathering) hold(record []byte) {
	if c.held == nil {
		c.held = gathers.Get().(*[]byte)
		if c.timer == nil {
			c.timer = time.AfterFunc(gatherFor, c.late)
		} else {
			c.timer.Reset(gatherFor)
		}
	}
	*c.held = append(*c.held, record...)
}

// send writes what is held. c.mu is held.
func (c *gathering) send() {
	if c.held == nil {
		return
	}
	c.timer.Stop()
	_, c.err = c.Conn.Write(*c.held)
	*c.held = (*c.held)[:0]
	gathers.Put(c.held)
	c.held = nil
}

func (c *gathering) late() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send()
}

// gatherer makes gathering connections of those that come.
type gatherer struct{ net.Listener }

func (l gatherer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gathering{Conn: c}, nil
}
