package control

import (
	"errors"
	"net"
	"testing"
)

func TestListenAllIsOneListener(t *testing.T) {
	l, err := listenAll(0, "127.0.0.1", "127.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	multi := l.(*multiListener)
	for _, one := range multi.all {
		conn, err := net.Dial("tcp", one.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Accept()
		if err != nil || got.LocalAddr().String() != one.Addr().String() {
			t.Errorf("accepted %v, %v on %s", got, err, one.Addr())
		}
		got.Close()
		conn.Close()
	}
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
