package wire

import (
	"net"
	"sync"
	"time"
)

const (
	// fullRecord is the least size of a TLS record with as much content as fits, whatever the cipher adds.
	fullRecord = 16 << 10
	// frameHead is the size of an HTTP/2 frame's header. A frame as large as clients accept takes one full record and this much
	// of a second.
	frameHead = 9
	// restRecord is larger than the second record.
	restRecord = 64
	// framesAtOnce is how many such frames are sent in one system call at most.
	framesAtOnce = 7
	// gatherFor is how long the first of them waits at most.
	gatherFor = time.Millisecond
)

// gathering is a connection below TLS that sends long answers with few system calls, where TLS would make one for each record.
// Full records, and the rest records of their frames, are held until there is no room for another, or another kind of record
// arrives (every answer ends with one), or gatherFor is over: a client whose window is used up only reports what it has received.
type gathering struct {
	net.Conn

	mu    sync.Mutex // held while writing, which keeps records in order
	held  *[]byte    // nil: nothing
	last  int        // size of the last record
	timer *time.Timer
	err   error // of the first write that failed: anything after it would be invalid TLS
}

var gathers = sync.Pool{New: func() any { b := make([]byte, 0, framesAtOnce*(fullRecord+2*restRecord)); return &b }}

// Write takes one record.
func (c *gathering) Write(record []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := len(record) >= fullRecord
	// The cipher adds the same to both. The end of an answer is as short, but does not follow a full record.
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

// gatherer is a listener whose connections are gathering.
type gatherer struct{ net.Listener }

func (l gatherer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gathering{Conn: c}, nil
}
