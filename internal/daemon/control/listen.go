package control

import (
	"errors"
	"net"
	"strconv"
	"sync"
)

// listenAll listens on one port of several addresses as one listener: loopback and the node's address, nothing else.
func listenAll(port int, ips ...string) (net.Listener, error) {
	m := &multiListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	for _, ip := range ips {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if err != nil {
			m.Close()
			return nil, err
		}
		m.all = append(m.all, l)
	}
	for _, l := range m.all {
		go m.accept(l)
	}
	return m, nil
}

// multiListener hands out the connections of all its listeners. The first that fails closes all.
type multiListener struct {
	all    []net.Listener
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
	err    error // why it closed; written once, before closed is
}

func (m *multiListener) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			m.close(err)
			return
		}
		select {
		case m.conns <- conn:
		case <-m.closed:
			conn.Close()
			return
		}
	}
}

func (m *multiListener) Accept() (net.Conn, error) {
	select {
	case conn := <-m.conns:
		return conn, nil
	case <-m.closed:
		return nil, m.err
	}
}

func (m *multiListener) Close() error { return m.close(net.ErrClosed) }

func (m *multiListener) close(why error) (err error) {
	m.once.Do(func() {
		for _, l := range m.all {
			err = errors.Join(err, l.Close())
		}
		m.err = why
		close(m.closed)
	})
	return err
}

func (m *multiListener) Addr() net.Addr { return m.all[0].Addr() }
