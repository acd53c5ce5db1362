package runtime

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"time"
)

// notifySocket is the receiving end of the sd_notify protocol: containerd, asked by NOTIFY_SOCKET, sends READY=1 once every plug-in
// serves, CRI included. So its readiness is an event and nobody polls. containerd's shim keeps the variable away from runc.
type notifySocket struct{ conn *net.UnixConn }

func listenNotify(path string) (*notifySocket, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	return &notifySocket{conn}, nil
}

func (n *notifySocket) Close() error { return n.conn.Close() }

// wait returns nil when READY=1 has come, or the context's cause.
func (n *notifySocket) wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { n.conn.SetReadDeadline(time.Unix(1, 0)) }) //nolint:errcheck // fails only on a closed socket
	defer stop()
	buf := make([]byte, 4096)
	for {
		k, err := n.conn.Read(buf)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		for line := range bytes.SplitSeq(buf[:k], []byte("\n")) {
			if string(line) == "READY=1" {
				return nil
			}
		}
	}
}
