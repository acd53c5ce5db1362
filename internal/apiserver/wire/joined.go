package wire

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// HTTP/2 sends an answer as two frames, its headers and its body, each in a write of its own, although the second is on its way. Each is
// a call of the system, a packet and a goroutine woken, and the same again at the client, who may be on this machine. So the first of two
// writes waits for the second, which takes it along.
//
//	passing ──► Join ──► the next write is held ──► the one after it, or joinWait: both go out ──► passing
//
// Nothing is left behind by that: whoever says Join has two writes before him, the second of which comes after the first has been made, and
// what is held is the first write of anybody's since he said so.
type joined struct {
	net.Conn
	wait time.Duration // joinWait
	join atomic.Bool

	mu   sync.Mutex
	held []byte
	late *time.Timer // nil until something was held
	err  error       // of what was written late
}

// joinWait is how long the first of two writes waits at most: the second may never come, if the client gives up in between.
const joinWait = time.Millisecond

// joinKept is how much two writes have at most to be joined in a buffer that the connection keeps.
const joinKept = 8 << 10

type joinedKey struct{}

// joins is a listener of such connections.
type joins struct {
	net.Listener
	wait time.Duration
}

func (l joins) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &joined{Conn: c, wait: l.wait}, nil
}

// withJoined makes the connection available to its requests.
func withJoined(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		if j, ok := t.NetConn().(*joined); ok {
			return context.WithValue(ctx, joinedKey{}, j)
		}
	}
	return ctx
}

// Join is called before an answer that consists of headers and a body.
func (c *joined) Join() { c.join.Store(true) }

// joinAnswer is called before an answer with a body to r.
func joinAnswer(r *http.Request) {
	if r.ProtoMajor != 2 || r.Method == http.MethodHead {
		return
	}
	if c, ok := r.Context().Value(joinedKey{}).(*joined); ok {
		c.Join()
	}
}

// Write implements net.Conn. TLS makes one write at a time.
func (c *joined) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	join := c.join.Load() && c.join.Swap(false)
	if len(c.held) == 0 {
		if !join {
			return c.Conn.Write(b)
		}
		c.held = append(c.held, b...)
		if c.late == nil {
			c.late = time.AfterFunc(c.wait, c.alone)
		} else {
			c.late.Reset(c.wait)
		}
		return len(b), nil
	}
	c.late.Stop()
	var both []byte
	if len(c.held)+len(b) <= joinKept {
		c.held = append(c.held, b...)
		both = c.held
	} else {
		room := gathers.Get().(*[]byte)
		defer gathers.Put(room)
		both = append(append(*room, c.held...), b...)
	}
	c.held = c.held[:0]
	if _, err := c.Conn.Write(both); err != nil {
		return 0, err
	}
	return len(b), nil
}

// alone writes what was held when no second write came.
func (c *joined) alone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) == 0 {
		return
	}
	_, c.err = c.Conn.Write(c.held)
	c.held = c.held[:0]
}
