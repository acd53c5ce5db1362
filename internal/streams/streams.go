// Package streams lets a client that speaks WebSocket (v5.channel.k8s.io) run a command, or attach to a container, where SPDY alone is
// spoken: at the container runtime, and at a kubelet that hands on to one. How the command ended is known when the other side has said so;
// a connection that is lost before that is a failure, and no success.
package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

const (
	idle   = 4 * time.Hour    // as the runtime's own streams
	saying = 10 * time.Second // how a command ended, to a client that may not read
	ping   = 5 * time.Second  // so that a machine that is gone is noticed
)

// Options are the streams of a command. A terminal has no stderr.
type Options struct{ Stdin, Stdout, Stderr, TTY bool }

// Handler streams between a client of WebSocket and a server of SPDY.
type Handler struct {
	Location  *url.URL
	Transport http.RoundTripper // how Location is reached; nil: as it says
	Options   Options
}

// ServeHTTP implements http.Handler. A request for another protocol is refused.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := accept(w, r, h.Options)
	if err != nil {
		return // the client has been answered, or is gone
	}
	defer c.conn.Close() //nolint:errcheck // its end
	c.say(h.run(r.Context(), c))
}

func (h Handler) run(ctx context.Context, c *client) error {
	e, err := executor(h.Location, h.Transport)
	if err != nil {
		return err
	}
	var o remotecommand.StreamOptions
	if h.Options.Stdin {
		o.Stdin = c.channels[protocol.StreamStdIn]
	}
	if h.Options.Stdout {
		o.Stdout = c.channels[protocol.StreamStdOut]
	}
	if h.Options.Stderr {
		o.Stderr = c.channels[protocol.StreamStdErr]
	}
	if h.Options.TTY {
		o.Tty, o.TerminalSizeQueue = true, sizes{json.NewDecoder(c.channels[protocol.StreamResize])}
	}
	return e.StreamWithContext(ctx, o)
}

// client is the WebSocket's end: a channel for each stream.
type client struct {
	conn     *wsstream.Conn
	channels []io.ReadWriteCloser
}

func accept(w http.ResponseWriter, r *http.Request, o Options) (*client, error) {
	only := func(yes bool, as wsstream.ChannelType) wsstream.ChannelType {
		if yes {
			return as
		}
		return wsstream.IgnoreChannel // what comes there is in nobody's way
	}
	types := make([]wsstream.ChannelType, protocol.StreamResize+1)
	types[protocol.StreamStdIn] = only(o.Stdin, wsstream.ReadChannel)
	types[protocol.StreamStdOut] = only(o.Stdout, wsstream.WriteChannel)
	types[protocol.StreamStdErr] = only(o.Stderr, wsstream.WriteChannel)
	types[protocol.StreamErr] = wsstream.WriteChannel
	types[protocol.StreamResize] = only(o.TTY, wsstream.ReadChannel)
	c := &client{conn: wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{protocol.StreamProtocolV5Name: {Binary: true, Channels: types}})}
	c.conn.SetIdleTimeout(idle)
	var err error
	if _, c.channels, err = c.conn.Open(w, r); err != nil {
		return nil, err
	}
	// An empty message tells the client that it is connected, before there is anything to say.
	first := protocol.StreamErr
	switch {
	case o.Stdout:
		first = protocol.StreamStdOut
	case o.Stderr:
		first = protocol.StreamStdErr
	}
	if _, err := c.channels[first].Write(nil); err != nil {
		c.conn.Close() //nolint:errcheck // it is gone
		return nil, err
	}
	return c, nil
}

// say tells the client how it ended.
func (c *client) say(err error) {
	text, err := json.Marshal(statusOf(err))
	if err != nil {
		return
	}
	// Each write begins with a deadline of idle; this one comes in the midst of it.
	late := time.AfterFunc(saying, func() { c.conn.SetWriteDeadline(0) })
	defer late.Stop()
	_, _ = c.channels[protocol.StreamErr].Write(text) // a client that is gone need not know
}

func statusOf(err error) metav1.Status {
	var known *apierrors.StatusError
	var exit exec.CodeExitError
	switch {
	case err == nil:
		return metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &known):
		return known.ErrStatus
	case errors.As(err, &exit) && exit.Exited():
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: protocol.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: protocol.ExitCodeCauseType, Message: strconv.Itoa(exit.ExitStatus())}}},
		}
	}
	return apierrors.NewInternalError(err).ErrStatus
}

// sizes are those of the client's terminal, as it tells them.
type sizes struct{ from *json.Decoder }

// Next implements remotecommand.TerminalSizeQueue; it ends with the client's connection.
func (s sizes) Next() *remotecommand.TerminalSize {
	var size remotecommand.TerminalSize
	if s.from.Decode(&size) != nil {
		return nil
	}
	return &size
}
