package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written is a connection that remembers what is written to it.
type written struct {
	net.Conn
	writes [][]byte
	err    error
}

func (w *written) Write(b []byte) (int, error) {
	w.writes = append(w.writes, bytes.Clone(b))
	return len(b), w.err
}

func (w *written) is(t *testing.T, want ...string) {
	t.Helper()
	if got, want := string(bytes.Join(w.writes, []byte("|"))), string(bytes.Join(asBytes(want), []byte("|"))); got != want {
		t.Errorf("written: %q, want %q", got, want)
	}
	w.writes = nil
}

func asBytes(all []string) (out [][]byte) {
	for _, s := range all {
		out = append(out, []byte(s))
	}
	return out
}

// What is said to be the first of two writes goes out with the second, or a moment later without it; all others at once.
func TestTwoWritesAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w written
		c := &joined{Conn: &w, wait: joinWait}
		write := func(text string) {
			t.Helper()
			if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%q: %d, %v", text, n, err)
			}
		}
		write("a")
		w.is(t, "a")
		for range 3 {
			c.Join()
			write("head")
			w.is(t)
			write("body")
			w.is(t, "headbody")
		}
		write("b")
		w.is(t, "b")

		// Two answers at once: neither's end is held.
		c.Join()
		write("head1")
		c.Join()
		write("body1head2")
		write("body2")
		w.is(t, "head1body1head2", "body2")

		// The second never comes.
		c.Join()
		write("head")
		time.Sleep(joinWait)
		synctest.Wait()
		w.is(t, "head")
		write("c")
		w.is(t, "c")
		time.Sleep(time.Minute)
		w.is(t)

		// What could not be written later is told to who writes next.
		w.err = errors.New("gone")
		c.Join()
		write("head")
		time.Sleep(joinWait)
		synctest.Wait()
		w.is(t, "head")
		if _, err := c.Write([]byte("d")); err != w.err {
			t.Errorf("error %v", err)
		}
	})
}

// counted is a listener whose connections count their writes.
type counted struct {
	net.Listener
	writes atomic.Int64
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countedConn{c, &l.writes}, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// An answer is one write, and of many at once on a connection none waits for another one.
func TestAnAnswerIsOneWrite(t *testing.T) {
	w := newWorld(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &counted{Listener: inner}
	config := w.server.c
	config.Metrics = nil
	srv, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	srv.join = time.Hour
	w.runBy(srv, func(ctx context.Context, ready func()) error { return srv.Serve(ctx, l, ready) })
	pods := w.client(protoType).CoreV1().Pods("default")
	if _, err := pods.Create(w.ctx, pod("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const n = 50
	before := l.writes.Load()
	for range n {
		if _, err := pods.Get(w.ctx, "a", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if writes := l.writes.Load() - before; writes != n {
		t.Errorf("%d writes for %d answers", writes, n)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for j := range n {
				if _, err := pods.Create(w.ctx, pod(fmt.Sprintf("p-%d-%d", i, j)), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
