package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/runtime"
	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/floor"
	"podo.dev/podo/test/bench/load"
)

// podo is a server with a data directory of its own.
type podo struct {
	binary string
	dir    string
	port   string
	config string // the kubelet's file
	args   []string
	first  time.Duration // its first start
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 600
`

func newPodo(binary string) (*podo, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	api, kubelet, err := twoPorts()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "podo-bench-")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	// Room for the many pods of the group crowd.
	config := dir + ".kubelet.yaml"
	if err := os.WriteFile(config, []byte(kubeletConfig), 0o600); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &podo{binary: binary, dir: dir, port: api, config: config, args: []string{
		"--node-name", "bench", "--pod-cidr", "10.89.0.0/22", "--https-port", api, "--kubelet-port", kubelet, "--kubelet-config", config,
	}}, nil
}

// twoPorts finds ports that nobody listens on. The kubelet's is high, since two below it is its health port.
func twoPorts() (a, b string, err error) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer first.Close()
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer second.Close()
	port := func(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }
	return port(first), port(second), nil
}

func (b *bench) openPodo(ctx context.Context) (err error) {
	if b.podo, err = newPodo(b.options.podo); err != nil {
		return err
	}
	p := b.podo
	began := time.Now()
	if err := p.up(ctx); err != nil {
		return err
	}
	p.first = time.Since(began)
	if err := p.cmd(ctx, "image", "import", filepath.Join(b.images, "busybox.tar")); err != nil {
		return err
	}
	layout := runtime.LayoutFor(p.dir)
	t := b.newTarget(figures.Podo, filepath.Join(p.dir, "kubeconfig"), regexp.MustCompile(regexp.QuoteMeta(p.dir)+"|"+regexp.QuoteMeta(layout.Run)+"/"))
	t.suspend = p.suspend
	b.targets = append(b.targets, t)
	if t.runtime, err = floor.Dial(ctx, "unix://"+layout.Socket); err != nil {
		return err
	}
	if b.floor, err = floor.Dial(ctx, "unix://"+layout.Socket); err != nil {
		return err
	}
	b.floor.Image, b.floor.Command = b.image, sleep
	return nil
}

func (p *podo) cmd(ctx context.Context, verb string, args ...string) error {
	cmd := exec.CommandContext(ctx, p.binary, append([]string{verb, "--data-dir", p.dir}, args...)...)
	// An interrupt ends it as it would in a terminal, where it takes back what it began.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("podo %s: %w\n%s", verb, err, out)
	}
	return nil
}

func (p *podo) up(ctx context.Context, more ...string) error {
	return p.cmd(ctx, "up", append(p.args, more...)...)
}

func (p *podo) down(ctx context.Context) error { return p.cmd(ctx, "down", "--grace", "1s") }

func (p *podo) remove(ctx context.Context) error {
	config := os.Remove(p.config)
	if entries, err := os.ReadDir(p.dir); err == nil && len(entries) == 0 {
		return errors.Join(config, os.Remove(p.dir)) // it never started
	}
	return errors.Join(config, p.down(ctx), p.cmd(ctx, "reset", "--yes"))
}

func (p *podo) pid() (int, error) {
	content, err := os.ReadFile(filepath.Join(p.dir, "lock"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// end ends the server with a signal; containers stay. It returns when the process has gone.
func (p *podo) end(ctx context.Context, signal unix.Signal) error {
	pid, err := p.pid()
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, signal); err != nil {
		return err
	}
	for unix.Kill(pid, 0) == nil { // it is no child of ours
		if err := load.Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// suspend starts the server again without its scheduler; resume with it.
func (p *podo) suspend(ctx context.Context) (resume, restore func(context.Context) error, err error) {
	again := func(ctx context.Context, flags ...string) error {
		if err := p.end(ctx, unix.SIGTERM); err != nil {
			return err
		}
		return p.up(ctx, flags...)
	}
	resume = func(ctx context.Context) error { return again(ctx) }
	restore = func(context.Context) error { return nil }
	return resume, restore, again(ctx, "--disable-scheduler")
}

// untilServing asks /readyz until it says ok. (From outside a process that does not run yet there is nothing to watch.)
func (p *podo) untilServing(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, Timeout: time.Second}
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		resp, err := client.Get("https://127.0.0.1:" + p.port + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := load.Pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("not serving after 30 s")
}
