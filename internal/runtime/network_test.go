//go:build e2e

package runtime_test

import (
	"fmt"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Pods reach each other and the host under their own addresses, and what is outside under the host's, from where alone answers find
// their way back.
func TestPodNetwork(t *testing.T) {
	n := newNode(t, "10.213.83.0/24")
	n.up()
	image := n.shellImage()
	config := n.pod("server")
	sandbox, serverIP := n.sandbox(config)
	n.run(sandbox, config, "server", image, "/bin/sh", "-c", "mkdir -p /tmp/www; echo the pod >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www")
	get(t, "http://"+serverIP+":8080")
	config = n.pod("client")
	sandbox, clientIP := n.sandbox(config)
	client := n.run(sandbox, config, "client", image, "/bin/sh", "-c", "sleep 3600 & wait")
	fetch := func(url string) string {
		t.Helper()
		// No -T: Debian's busybox-static 1.35 crashes on it.
		out, stderr, code, err := n.cri.ExecSync(t.Context(), client, []string{"wget", "-qO-", url}, 30*time.Second)
		if err != nil || code != 0 {
			t.Fatalf("%s: %v, exit code %d, %s", url, err, code, stderr)
		}
		return strings.TrimSpace(string(out))
	}
	if got := fetch("http://" + serverIP + ":8080"); got != "the pod" {
		t.Errorf("pod to pod: %q", got)
	}
	host := echo(t, net.JoinHostPort("10.213.83.1", "0"))
	if got := fetch("http://" + host); got != clientIP {
		t.Errorf("pod to host: the host sees %q, the pod is %s", got, clientIP)
	}
	outside := outsideEcho(t)
	if got := fetch("http://" + outside); got != "198.18.83.1" {
		t.Errorf("pod to the outside: it sees %q, want the host's address", got)
	}
}

func newEcho() *http.Server {
	return &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintln(w, host)
	})}
}

// echo serves each client its own address.
func echo(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	srv := newEcho()
	go srv.Serve(l) //nolint:errcheck // ends with Close
	t.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

// outsideEcho is echo in a network namespace of its own, which knows nobody but this host: as far away as a test can be.
func outsideEcho(t *testing.T) string {
	t.Helper()
	address := make(chan string)
	errs := make(chan error, 1)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		// The thread ends with this goroutine, since it is never unlocked, and the namespace with the last of its sockets.
		goruntime.LockOSThread()
		errs <- func() error {
			outer, err := netns.Get()
			if err != nil {
				return err
			}
			defer outer.Close()
			inner, err := netns.New() // and enters it
			if err != nil {
				return err
			}
			defer inner.Close()
			there, err := netlink.NewHandleAt(outer)
			if err != nil {
				return err
			}
			defer there.Close()
			attrs := netlink.NewLinkAttrs()
			attrs.Name = "podotestout"
			veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "podotestin", PeerNamespace: netlink.NsFd(int(inner))}
			if err := there.LinkAdd(veth); err != nil {
				return err
			}
			for _, end := range []struct {
				at   *netlink.Handle
				name string
				addr string
			}{{there, "podotestout", "198.18.83.1/24"}, {&netlink.Handle{}, "podotestin", "198.18.83.2/24"}} {
				link, err := end.at.LinkByName(end.name)
				if err != nil {
					return fmt.Errorf("%s: %w", end.name, err)
				}
				addr, err := netlink.ParseAddr(end.addr)
				if err != nil {
					return err
				}
				if err := end.at.AddrAdd(link, addr); err != nil {
					return err
				}
				if err := end.at.LinkSetUp(link); err != nil {
					return err
				}
			}
			l, err := net.Listen("tcp", "198.18.83.2:0")
			if err != nil {
				return err
			}
			srv := newEcho()
			go srv.Serve(l) //nolint:errcheck // ends with Close
			address <- l.Addr().String()
			<-done
			return srv.Close()
		}()
	}()
	t.Cleanup(func() {
		if link, err := netlink.LinkByName("podotestout"); err == nil {
			netlink.LinkDel(link) //nolint:errcheck // it goes with its namespace as well
		}
	})
	select {
	case a := <-address:
		return a
	case err := <-errs:
		t.Fatal(err)
		return ""
	}
}
