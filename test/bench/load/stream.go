package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/client-go/rest"
)

// stream is one answer of a server over HTTP/2, on a connection of its own, read by whoever wants it and by nobody else: no goroutine hands its
// bytes on. Hundreds of watchers of one process on the server's own machine are to take little of what the server is measured by.
type stream struct {
	conn   net.Conn
	framer *http2.Framer
	came   []byte // of the answer, from the last event on
	left   []byte // the end of it, which nobody has had yet
}

// room is what the server may send ahead: more than any watch of a measurement brings.
const room = 1 << 30

// get asks for path, with its query, and has read the answer's headers.
func get(ctx context.Context, cfg *rest.Config, path, accept string) (*stream, error) {
	host, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, err
	}
	secure, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	if host.Scheme != "https" || secure == nil {
		return nil, fmt.Errorf("%s: only HTTP/2 over TLS is followed", cfg.Host)
	}
	secure.NextProtos = []string{http2.NextProtoTLS}
	address := host.Host
	if host.Port() == "" {
		address = net.JoinHostPort(host.Hostname(), "443")
	}
	conn, err := (&tls.Dialer{Config: secure}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &stream{conn: conn, framer: http2.NewFramer(conn, bufio.NewReader(conn))}
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := s.ask(host.Host, path, accept, cfg.BearerToken); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

func (s *stream) ask(host, path, accept, token string) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	header := func(name, value string) { encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) } //nolint:errcheck // into memory
	header(":method", http.MethodGet)
	header(":scheme", "https")
	header(":authority", host)
	header(":path", path)
	header("accept", accept)
	if token != "" {
		header("authorization", "Bearer "+token)
	}
	_, err := s.conn.Write([]byte(http2.ClientPreface))
	err = errors.Join(err,
		s.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: room}, http2.Setting{ID: http2.SettingEnablePush, Val: 0}),
		s.framer.WriteWindowUpdate(0, room),
		s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}))
	if err != nil {
		return err
	}
	for {
		f, err := s.next()
		if err != nil {
			return err
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok {
			if status := h.PseudoValue("status"); status != strconv.Itoa(http.StatusOK) {
				return fmt.Errorf("%s is answered with %s", path, status)
			}
			return nil
		}
	}
}

// next is the next frame that is not about the connection itself.
func (s *stream) next() (http2.Frame, error) {
	for {
		f, err := s.framer.ReadFrame()
		if err != nil {
			return nil, err
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = s.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = s.framer.WritePing(true, f.Data)
			}
		case *http2.WindowUpdateFrame:
		case *http2.GoAwayFrame:
			err = fmt.Errorf("the server goes away: %v", f.ErrCode)
		case *http2.RSTStreamFrame:
			err = fmt.Errorf("the server ends the answer: %v", f.ErrCode)
		default:
			return f, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// event is the next part of the answer, which says its length in front; it is good until the next one.
func (s *stream) event() ([]byte, error) {
	const lead = 4
	for {
		if len(s.left) >= lead {
			if end := lead + int(binary.BigEndian.Uint32(s.left)); len(s.left) >= end {
				event := s.left[lead:end]
				s.left = s.left[end:]
				return event, nil
			}
		}
		f, err := s.next()
		if err != nil {
			return nil, err
		}
		if d, ok := f.(*http2.DataFrame); ok {
			s.came = append(s.came[:copy(s.came, s.left)], d.Data()...)
			s.left = s.came
			if d.StreamEnded() {
				return nil, errors.New("the watch has ended")
			}
		}
	}
}

func (s *stream) close() { s.conn.Close() } // nothing is written, so nothing can be lost
