package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// server is a podo of this run's own, with a data folder, ports and addresses of its own.
type server struct {
	podo, dir string
}

// startPodo starts one and imports the suite's images. It is stopped and its data removed at the end of the run.
func startPodo(ctx context.Context, podo string) (*server, error) {
	archives, err := makeImages()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "podo-conformance-")
	if err != nil {
		return nil, err
	}
	s := &server{podo: podo, dir: dir}
	api, err := freePort()
	if err != nil {
		return nil, err
	}
	kubelet, err := freePort()
	if err != nil {
		return nil, err
	}
	err = s.run(ctx, "up", "--https-port", api, "--kubelet-port", kubelet, "--node-name", "conformance", "--pod-cidr", "10.87.0.0/24")
	if err == nil {
		err = s.run(ctx, append([]string{"image", "import"}, archives...)...)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *server) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

func (s *server) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.podo, append(args, "--data-dir", s.dir)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("podo %s: %w", args[0], err)
	}
	return nil
}

// stop ends and removes everything, also after an interrupt: it has a time limit of its own.
func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return errors.Join(s.run(ctx, "down"), s.run(ctx, "reset", "--yes"), os.RemoveAll(s.dir))
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
