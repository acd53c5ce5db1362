package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	clientexec "k8s.io/client-go/util/exec"

	cri "k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const patience = 20 * time.Second

// executors are the two ways in which kubectl streams.
var executors = map[string]func(*rest.Config, *url.URL) (remotecommand.Executor, error){
	"websocket": func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(c, "GET", u.String())
	},
	"spdy": func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(c, "POST", u)
	},
}

func each(t *testing.T, body func(t *testing.T, stream func(g *rig, path string, o remotecommand.StreamOptions) error)) {
	for name, make := range executors {
		t.Run(name, func(t *testing.T) {
			body(t, func(g *rig, path string, o remotecommand.StreamOptions) error {
				e, err := make(g.config("system:masters"), g.url(path))
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				return e.StreamWithContext(ctx, o)
			})
		})
	}
}

func TestExecHalfCloseAndExitCode(t *testing.T) {
	each(t, func(t *testing.T, stream func(*rig, string, remotecommand.StreamOptions) error) {
		g := newRig(t)
		g.rt.exec = func(cmd []string, in io.Reader, out, errOut io.Writer, _ bool, _ <-chan cri.TerminalSize) error {
			b, err := io.ReadAll(in) // ends only when the client closes its half
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%q %d", cmd, len(b))
			fmt.Fprint(errOut, "to stderr")
			return exit(3)
		}
		var out, errOut bytes.Buffer
		big := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
		err := stream(g, "/exec/ns/p/a?input=1&output=1&error=1&command=cat&command=-n",
			remotecommand.StreamOptions{Stdin: strings.NewReader(big), Stdout: &out, Stderr: &errOut})
		var code clientexec.CodeExitError
		if !errors.As(err, &code) || code.Code != 3 {
			t.Errorf("%v, want exit code 3", err)
		}
		if out.String() != fmt.Sprintf("%q %d", []string{"cat", "-n"}, len(big)) || errOut.String() != "to stderr" {
			t.Errorf("stdout %q, stderr %q", out.String(), errOut.String())
		}
	})
}

func TestExecWithoutStdinSucceeds(t *testing.T) {
	each(t, func(t *testing.T, stream func(*rig, string, remotecommand.StreamOptions) error) {
		g := newRig(t)
		big := bytes.Repeat([]byte("line of output\n"), 100_000)
		g.rt.exec = func(_ []string, _ io.Reader, out, _ io.Writer, _ bool, _ <-chan cri.TerminalSize) error {
			_, err := out.Write(big)
			return err
		}
		var out bytes.Buffer
		if err := stream(g, "/exec/ns/p/u/a?output=1&command=x", remotecommand.StreamOptions{Stdout: &out}); err != nil || !bytes.Equal(out.Bytes(), big) {
			t.Errorf("%v, %d bytes of %d", err, out.Len(), len(big))
		}
	})
}

type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	v, ok := <-s
	if !ok {
		return nil
	}
	return &v
}

func TestTerminalAndItsSize(t *testing.T) {
	each(t, func(t *testing.T, stream func(*rig, string, remotecommand.StreamOptions) error) {
		for _, verb := range []string{"exec", "attach"} {
			g := newRig(t)
			g.rt.exec = func(_ []string, _ io.Reader, out, errOut io.Writer, tty bool, resize <-chan cri.TerminalSize) error {
				if !tty || errOut != nil {
					return errors.New("no terminal, or one with a stderr")
				}
				for range 2 {
					s := <-resize
					fmt.Fprintf(out, "%dx%d ", s.Width, s.Height)
				}
				return nil
			}
			queue := make(sizes, 2)
			queue <- remotecommand.TerminalSize{Width: 80, Height: 24}
			queue <- remotecommand.TerminalSize{Width: 132, Height: 43}
			in, _ := io.Pipe()
			var out bytes.Buffer
			err := stream(g, "/"+verb+"/ns/p/tty?input=1&output=1&tty=1&command=sh",
				remotecommand.StreamOptions{Stdin: in, Stdout: &out, Tty: true, TerminalSizeQueue: queue})
			close(queue)
			if err != nil || out.String() != "80x24 132x43 " {
				t.Errorf("%s: %q %v", verb, out.String(), err)
			}
		}
	})
}

// Whether there is a terminal has been settled when the container began, of whatever kind it is.
func TestAContainersTerminalIsItsOwn(t *testing.T) {
	g := newRig(t)
	g.rt.exec = func(_ []string, _ io.Reader, out, _ io.Writer, tty bool, _ <-chan cri.TerminalSize) error {
		_, err := fmt.Fprint(out, tty)
		return err
	}
	for container, want := range map[string]string{"a": "false", "tty": "true", "init": "true", "debugger": "true"} {
		for _, ask := range []string{"", "&tty=1"} {
			e, err := executors["websocket"](g.config("system:masters"), g.url("/attach/ns/p/"+container+"?output=1"+ask))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Tty: ask != ""}); err != nil || out.String() != want {
				t.Errorf("%s, asked with %q: a terminal: %s %v", container, ask, out.String(), err)
			}
		}
	}
}

func TestWhatCannotBeStreamedIsSaid(t *testing.T) {
	g := newRig(t)
	for path, want := range map[string]string{
		"/exec/ns/p/b?output=1&command=x":         `500 container not found ("b")`,
		"/exec/ns/q/a?output=1&command=x":         "404 pod does not exist",
		"/exec/ns/p/other/a?output=1&command=x":   `500 container not found ("a")`,
		"/exec/ns/p/a?command=x":                  "400 you must specify at least 1 of stdin, stdout, stderr",
		"/exec/ns/p/a?output=1&command=x":         "500 Upgrade request required",
		"/attach/ns/p/b?output=1":                 "500 container b not found in pod p_ns",
		"/portForward/ns/q":                       "404 pod does not exist",
		"/portForward/ns/p":                       "500 Upgrade request required",
		"/runningpods/":                           "200 ",
		"/nonsense":                               "404 404 page not found",
		"/containerLogs/ns/q/a":                   `404 pod "q" does not exist`,
		"/containerLogs/ns/p/b":                   `404 container "b" not found in pod "p"`,
		"/containerLogs/ns/p/a":                   `400 container "a" in pod "p" is not available`,
		"/containerLogs/ns/p/a?tailLines=x":       `400 {"message": "Unable to decode query."}`,
		"/containerLogs/ns/p/a?tailLines=-1":      `422 {"message": "Invalid request."}`,
		"/containerLogs/ns/p/a?stream=Neither":    `422 {"message": "Invalid request."}`,
		"/containerLogs/ns/p/a?limitBytes=0&x=no": `422 {"message": "Invalid request."}`,
	} {
		code, body := g.get("system:masters", path)
		if got := fmt.Sprint(code, " ", strings.TrimSpace(body)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	_, err := executors["spdy"](g.config("system:masters"), g.url("/exec/ns/p/b?output=1&command=x"))
	if err != nil {
		t.Fatal(err)
	}
	e, _ := executors["spdy"](g.config("system:masters"), g.url("/exec/ns/p/b?output=1&command=x"))
	err = e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
	if err == nil || err.Error() != `unable to upgrade connection: container not found ("b")` {
		t.Errorf("as kubectl shows it: %v", err)
	}
}

func TestOneClientsResetEndsNobodyElse(t *testing.T) {
	g := newRig(t)
	started, goOn := make(chan struct{}, 2), make(chan struct{})
	g.rt.exec = func(cmd []string, in io.Reader, out, _ io.Writer, _ bool, _ <-chan cri.TerminalSize) error {
		started <- struct{}{}
		if cmd[0] == "victim" {
			<-goOn
			fmt.Fprint(out, "still here")
			return nil
		}
		_, err := io.Copy(out, in)
		return err
	}
	var out bytes.Buffer
	done := make(chan error, 1)
	e, err := executors["websocket"](g.config("system:masters"), g.url("/exec/ns/p/a?output=1&command=victim"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}) }()
	<-started
	conn := g.dial("/exec/ns/p/a?input=1&output=1&command=attacker", "v4.channel.k8s.io", "v5.channel.k8s.io")
	<-started
	if err := conn.NetConn().(interface{ NetConn() net.Conn }).NetConn().(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	conn.NetConn().(interface{ NetConn() net.Conn }).NetConn().Close() // a reset, in the middle of everything
	close(goOn)
	if err := <-done; err != nil || out.String() != "still here" {
		t.Errorf("%q %v", out.String(), err)
	}
}

// dial opens a bare WebSocket with the first of the protocols that the server takes.
func (g *rig) dial(path string, protocols ...string) *websocket.Conn {
	g.t.Helper()
	conf, err := rest.TLSConfigFor(g.config("system:masters"))
	if err != nil {
		g.t.Fatal(err)
	}
	d := websocket.Dialer{TLSClientConfig: conf, Subprotocols: protocols, HandshakeTimeout: patience}
	u := g.url(path)
	u.Scheme = "wss"
	conn, res, err := d.Dial(u.String(), nil)
	if err != nil {
		g.t.Fatalf("%v (%+v)", err, res)
	}
	g.t.Cleanup(func() { conn.Close() })
	return conn
}

func TestOldWebSocketProtocol(t *testing.T) {
	g := newRig(t)
	g.rt.exec = func(_ []string, in io.Reader, out, _ io.Writer, _ bool, _ <-chan cri.TerminalSize) error {
		b := make([]byte, 2)
		if _, err := io.ReadFull(in, b); err != nil {
			return err
		}
		fmt.Fprintf(out, "got %s", b)
		return exit(7)
	}
	conn := g.dial("/exec/ns/p/a?input=1&output=1&command=x", "v4.channel.k8s.io")
	if conn.Subprotocol() != "v4.channel.k8s.io" {
		t.Fatalf("protocol %q", conn.Subprotocol())
	}
	if err := conn.WriteMessage(websocket.BinaryMessage, []byte("\x00hi")); err != nil {
		t.Fatal(err)
	}
	var all string
	for {
		_, b, err := conn.ReadMessage()
		if err != nil {
			break
		}
		all += string(b)
	}
	if !strings.Contains(all, "\x01got hi") || !strings.Contains(all, `"message":"7"`) {
		t.Errorf("%q", all)
	}
}

func TestPortForward(t *testing.T) {
	type forward func(g *rig, stop, ready chan struct{}) (*portforward.PortForwarder, error)
	forwarders := map[string]forward{
		"tunnel": func(g *rig, stop, ready chan struct{}) (*portforward.PortForwarder, error) {
			d, err := portforward.NewSPDYOverWebsocketDialer(g.url("/portForward/ns/p"), g.config("system:masters"))
			if err != nil {
				return nil, err
			}
			return portforward.NewOnAddresses(d, []string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
		},
		"spdy": func(g *rig, stop, ready chan struct{}) (*portforward.PortForwarder, error) {
			tr, up, err := spdy.RoundTripperFor(g.config("system:masters"))
			if err != nil {
				return nil, err
			}
			d := spdy.NewDialer(up, &http.Client{Transport: tr}, "POST", g.url("/portForward/ns/p"))
			return portforward.NewOnAddresses(d, []string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
		},
	}
	for name, forwarder := range forwarders {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			stop, ready := make(chan struct{}), make(chan struct{})
			f, err := forwarder(g, stop, ready)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- f.ForwardPorts() }()
			select {
			case <-ready:
			case err := <-done:
				t.Fatal(err)
			}
			ports, _ := f.GetPorts()
			dial := func() *net.TCPConn {
				c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", ports[0].Local))
				if err != nil {
					t.Fatal(err)
				}
				if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
					t.Fatal(err)
				}
				return c.(*net.TCPConn)
			}
			say := func(c *net.TCPConn, text string) {
				t.Helper()
				buf := make([]byte, len(text))
				if _, err := c.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil || string(buf) != strings.ToUpper(text) {
					t.Fatalf("%q %v", buf, err)
				}
			}
			a, b := dial(), dial()
			say(a, "hello")
			say(b, "from b")
			if err := a.SetLinger(0); err != nil {
				t.Fatal(err)
			}
			a.Close() // a reset
			say(b, "b goes on")
			if err := b.CloseWrite(); err != nil { // half-close: the other half still says its end
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(b); err != nil || len(rest) != 0 {
				t.Errorf("%q %v", rest, err)
			}
			b.Close()
			c := dial()
			say(c, "and a third")
			c.Close()
			close(stop)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStreamsEndWhenTheServerStops(t *testing.T) {
	g := newRig(t)
	g.rt.exec = func(_ []string, in io.Reader, _, _ io.Writer, _ bool, _ <-chan cri.TerminalSize) error {
		_, err := io.Copy(io.Discard, in)
		return err
	}
	v4 := g.dial("/exec/ns/p/a?input=1&command=x", "v4.channel.k8s.io")
	v5 := g.dial("/exec/ns/p/a?input=1&command=x", "v5.channel.k8s.io")
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	for _, c := range []*websocket.Conn{v4, v5} {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		for {
			if _, _, err := c.ReadMessage(); err != nil {
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					t.Error("a stream is still open")
				}
				break
			}
		}
	}
}
