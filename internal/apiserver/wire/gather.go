package wire

import (
	"net"
	"sync"
	"time"
)

const (
	// fullRecord is what a record of TLS that carries as much as one can has at least, whatever the cipher adds.
	fullRecord = 16 << 10
	// frameRest is more than a record has that carries the rest of a frame of HTTP/2: a frame as long as clients take has nine bytes too
	// many for one record.
	frameRest = 64
	// framesAtOnce is how many such frames go out with one call of the system at most.
	framesAtOnce = 7
	// gatherFor is how long the first of them waits at most.
	gatherFor = time.Millisecond
)

// gathering is a connection below TLS that sends long answers with few calls of the system: TLS writes each of its records by itself. Here
// full ones are held, and what is left of their frames, until there is no room for another, until one comes that is not full, as there is at the
// end of every answer, or until the time is over: a client whose window is used up says that it has read only what it was sent.
type gathering struct {
	net.Conn

	mu    sync.Mutex // held while writing, so that records stay in their order
	held  *[]byte    // nil: nothing
	full  bool       // the record before was full
	timer *time.Timer
	err   error // of the first write that failed: what comes after it would be no TLS
}

var gathers = sync.Pool{New: func() any { b := make([]byte, 0, framesAtOnce*(fullRecord+2*frameRest)); return &b }}

// Write takes one record.
func (c *gathering) Write(record []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := len(record) >= fullRecord
	rest := c.full && len(record) < frameRest
	c.full = full
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
