package clients

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// server is bin/podo without a container runtime.
type server struct {
	t    testing.TB
	dir  string
	args []string
	url  string
	cmd  *exec.Cmd
}

// start starts a server with these flags besides its own.
func start(t testing.TB, flags ...string) *server {
	t.Helper()
	podo, err := filepath.Abs("../../bin/podo")
	if err != nil {
		t.Fatal(err)
	}
	if given := os.Getenv("PODO"); given != "" {
		podo = given
	}
	if _, err := os.Stat(podo); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	dir, err := os.MkdirTemp("", "podo-clients-") // short: sockets live below it. The data directory is podo's alone
	if err != nil {
		t.Fatal(err)
	}
	https, kubelet := freePort(t), freePort(t)
	s := &server{t: t, dir: dir, url: fmt.Sprintf("https://127.0.0.1:%d", https), args: append([]string{
		podo, "server", "--data-dir", filepath.Join(dir, "data"), "--https-port", fmt.Sprint(https), "--kubelet-port", fmt.Sprint(kubelet),
		"--container-runtime-endpoint", "unix://" + filepath.Join(dir, "none.sock"),
	}, flags...)}
	t.Cleanup(func() {
		// A server that ends leaves its pods and what is theirs on the machine, such as cgroups.
		if out, err := exec.Command(podo, "down", "--data-dir", filepath.Join(dir, "data")).CombinedOutput(); err != nil {
			t.Errorf("podo down: %v\n%s", err, out)
		}
		_ = s.cmd.Wait() // it was told to end
		if t.Failed() {
			if log, err := os.ReadFile(filepath.Join(dir, "server.log")); err == nil {
				t.Logf("server log:\n%s", log[max(0, len(log)-5000):])
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.run()
	return s
}

// run starts the process and waits until its API is alive.
func (s *server) run() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	hc := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if res, err := hc.Get(s.url + "/livez"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatal("the server does not come up")
		}
	}
}

// killed is the server after a kill -9 and a start.
func (s *server) killed() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Error(err)
	}
	_ = s.cmd.Wait() // it was killed
	s.run()
}

func (s *server) config() *rest.Config {
	s.t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "data", "kubeconfig"))
	if err != nil {
		s.t.Fatal(err)
	}
	c.QPS = -1
	return c
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// within runs a test's part with an end.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
