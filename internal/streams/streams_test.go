package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	server "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const patience = 20 * time.Second

// command is what runs at the other end; cut takes away the connection that its streams go over.
type command func(in io.Reader, out, stderr io.Writer, resize <-chan server.TerminalSize, cut func()) error

type running struct {
	command
	cut func()
}

func (r running) ExecInContainer(_ context.Context, _, _, _ string, _ []string, in io.Reader, out, stderr io.WriteCloser, _ bool, resize <-chan server.TerminalSize, _ time.Duration) error {
	return r.command(in, out, stderr, resize, r.cut)
}

type connKey struct{}

// stream has a client of WebSocket run a command at a server of SPDY, by way of a Handler.
func stream(t *testing.T, protocols []string, o Options, c command, client remotecommand.StreamOptions) error {
	t.Helper()
	far := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(connKey{}).(net.Conn)
		server.ServeExec(w, r, running{c, func() { conn.Close() }}, "p", "u", "c", []string{"x"},
			&server.Options{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, TTY: o.TTY}, patience, patience, protocols)
	}))
	far.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	far.Start()
	defer far.Close()
	location, err := url.Parse(far.URL)
	if err != nil {
		t.Fatal(err)
	}
	near := httptest.NewServer(Handler{Location: location, Options: o})
	defer near.Close()
	e, err := remotecommand.NewWebSocketExecutor(&rest.Config{Host: near.URL}, http.MethodGet, near.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return e.StreamWithContext(ctx, client)
}

// A command has ended well when that was said, and not when nobody can say it any more.
func TestHowACommandEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(cut func()) error
		code int    // -1: none is known
		text string // in the error
	}{
		"well":      {func(func()) error { return nil }, 0, ""},
		"with 3":    {func(func()) error { return utilexec.CodeExitError{Err: errors.New("exit status 3"), Code: 3} }, 3, "exit code 3"},
		"not begun": {func(func()) error { return errors.New("no such program") }, -1, "no such program"},
		"cut":       {func(cut func()) error { cut(); return nil }, -1, errLost.Error()},
		"cut, failing": {func(cut func()) error {
			cut()
			return utilexec.CodeExitError{Err: errors.New("exit status 3"), Code: 3}
		}, -1, errLost.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := stream(t, server.SupportedStreamingProtocols, Options{Stdout: true}, func(_ io.Reader, out, _ io.Writer, _ <-chan server.TerminalSize, cut func()) error {
				if _, err := io.WriteString(out, "began"); err != nil {
					return err
				}
				return tc.end(cut)
			}, remotecommand.StreamOptions{Stdout: &out})
			var exit clientexec.CodeExitError
			code := -1
			if errors.As(err, &exit) {
				code = exit.Code
			} else if err == nil {
				code = 0
			}
			if code != tc.code || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%v, exit code %d, want %d and %q", err, code, tc.code, tc.text)
			}
			if !strings.HasPrefix(name, "cut") && out.String() != "began" { // what was on its way is lost with the connection
				t.Errorf("it wrote %q", out.String())
			}
		})
	}
}

// The protocols before the fourth say of success nothing.
func TestAnOldProtocolEndsWell(t *testing.T) {
	err := stream(t, []string{"v3.channel.k8s.io"}, Options{Stdout: true}, func(io.Reader, io.Writer, io.Writer, <-chan server.TerminalSize, func()) error {
		return nil
	}, remotecommand.StreamOptions{Stdout: io.Discard})
	if err != nil {
		t.Error(err)
	}
}

func TestStreamsAndHalfClose(t *testing.T) {
	var out, stderr bytes.Buffer
	big := strings.Repeat("0123456789abcdef", 64<<10)
	err := stream(t, server.SupportedStreamingProtocols, Options{Stdin: true, Stdout: true, Stderr: true},
		func(in io.Reader, out, stderr io.Writer, _ <-chan server.TerminalSize, _ func()) error {
			all, err := io.ReadAll(in) // ends with the client's half
			if err != nil {
				return err
			}
			fmt.Fprint(stderr, len(all))
			_, err = out.Write(all)
			return err
		}, remotecommand.StreamOptions{Stdin: strings.NewReader(big), Stdout: &out, Stderr: &stderr})
	if err != nil || out.String() != big || stderr.String() != fmt.Sprint(len(big)) {
		t.Errorf("%d bytes came back of %d, stderr %q, %v", out.Len(), len(big), stderr.String(), err)
	}
}

type oneSize struct{ told chan struct{} }

func (s oneSize) Next() *remotecommand.TerminalSize {
	if _, first := <-s.told; !first {
		return nil
	}
	return &remotecommand.TerminalSize{Width: 80, Height: 24}
}

func TestSizeOfTheTerminal(t *testing.T) {
	told := make(chan struct{}, 1)
	told <- struct{}{}
	defer close(told)
	var out bytes.Buffer
	err := stream(t, server.SupportedStreamingProtocols, Options{Stdout: true, TTY: true},
		func(_ io.Reader, out, _ io.Writer, resize <-chan server.TerminalSize, _ func()) error {
			s := <-resize
			_, err := fmt.Fprintf(out, "%dx%d", s.Width, s.Height)
			return err
		}, remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: oneSize{told}})
	if err != nil || out.String() != "80x24" {
		t.Errorf("%q %v", out.String(), err)
	}
}
