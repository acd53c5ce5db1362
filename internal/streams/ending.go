//lint:file-ignore SA1019 client-go names connections by apimachinery's types.

package streams

import (
	"errors"
	"io"
	"net/http"
	"net/url"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// executor speaks SPDY with a server, and follows it nowhere else.
func executor(to *url.URL, transport http.RoundTripper) (remotecommand.Executor, error) {
	rt, err := streamspdy.NewRoundTripperWithConfig(streamspdy.RoundTripperConfig{UpgradeTransport: transport, PingPeriod: ping})
	if err != nil {
		return nil, err
	}
	return remotecommand.NewSPDYExecutorRejectRedirects(rt, upgrader{spdy.NewUpgraderForStreaming(rt)}, http.MethodPost, to)
}

// upgrader makes connections that do not end well without a word. client-go takes a stream of errors that is empty for success. That is what
// the first protocols mean by it; the later ones say so, so that there nothing is heard only of who died, or of what was cut.
type upgrader struct{ spdy.Upgrader }

// NewConnection implements spdy.Upgrader.
func (u upgrader) NewConnection(resp *http.Response) (httpstream.Connection, error) {
	conn, err := u.Upgrader.NewConnection(resp)
	if err != nil {
		return nil, err
	}
	switch resp.Header.Get(httpstream.HeaderProtocolVersion) {
	case protocol.StreamProtocolV4Name, protocol.StreamProtocolV5Name:
		return connection{conn}, nil
	}
	return conn, nil
}

type connection struct{ httpstream.Connection }

// CreateStream implements httpstream.Connection.
func (c connection) CreateStream(headers http.Header) (httpstream.Stream, error) {
	s, err := c.Connection.CreateStream(headers)
	if err != nil || headers.Get(v1.StreamType) != v1.StreamTypeError {
		return s, err
	}
	return &ending{Stream: s}, nil
}

var errLost = errors.New("the connection was lost before it was told how the command ended")

// ending is the stream on which it is told how a command ended.
type ending struct {
	httpstream.Stream
	told bool
}

// Read implements io.Reader.
func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Stream.Read(p)
	if e.told = e.told || n > 0; !e.told && errors.Is(err, io.EOF) {
		err = errLost
	}
	return n, err
}
