package streams

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener with one connection.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A client that does not read how its command ended is not waited for.
func TestAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		l := pipes{make(chan net.Conn, 1)}
		l.conns <- ours
		ended := make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			Handler{Location: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Options: Options{Stdout: true}}.ServeHTTP(w, r)
		})}
		go server.Serve(l) //nolint:errcheck // it ends with its listener
		defer close(l.conns)
		defer theirs.Close() //nolint:errcheck // its end
		_, err := io.WriteString(theirs, "GET / HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		from := bufio.NewReaderSize(theirs, 16) // no more is read than this
		resp, err := http.ReadResponse(from, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(resp, err)
		}
		if _, err := io.ReadFull(from, make([]byte, 3)); err != nil { // that it is connected
			t.Fatal(err)
		}
		began := time.Now()
		<-ended
		if took := time.Since(began); took > 2*saying {
			t.Errorf("it was waited for %s", took)
		}
	})
}
