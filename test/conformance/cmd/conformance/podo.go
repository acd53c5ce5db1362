package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"podo.dev/podo/test/conformance/images"
	"podo.dev/podo/test/conformance/suite"
)

// server is a podo of this run's own, with a data folder, ports and addresses of its own.
type server struct {
	podo, dir string
	note      string // file that names dir, so that the next run ends what a killed one left
	scratch   string
	mirror    *images.Mirror
}

// keepPodo copies the program beside the results: a build during the run does not change what is tested.
func keepPodo(podo, report string) (string, error) {
	in, err := os.Open(podo)
	if err != nil {
		return "", fmt.Errorf("podo is not built: `make build` does that (%w)", err)
	}
	defer in.Close()
	file := filepath.Join(report, "podo")
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return file, errors.Join(err, out.Close())
}

// startPodo starts one. It is stopped and its data removed at the end of the run.
func startPodo(ctx context.Context, podo string, report suite.Report) (*server, error) {
	s := &server{podo: podo, note: filepath.Join(report.Dir, "cluster"), scratch: report.Scratch()}
	if old, err := os.ReadFile(s.note); err == nil {
		s.dir = strings.TrimSpace(string(old))
		fmt.Printf("a run that was killed left %s: removing it\n", s.dir)
		if err := s.stop(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "podo-conformance-")
	if err != nil {
		return nil, err
	}
	s.dir = dir
	if err := os.WriteFile(s.note, []byte(dir+"\n"), 0o644); err != nil {
		return nil, err
	}
	if err := s.up(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// up starts it where it meets no other: several runs may share a machine.
func (s *server) up(ctx context.Context) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	n, err := freeRange()
	if err != nil {
		return err
	}
	return s.run(ctx, "up", "--https-port", ports[0], "--kubelet-port", ports[1], "--node-name", "conformance",
		"--pod-cidr", fmt.Sprintf("10.87.%d.0/24", n), "--service-cidr", fmt.Sprintf("10.88.%d.0/20", n*16))
}

// load gives the node the suite's images, and a registry that has them for those who pull anyway.
func (s *server) load(ctx context.Context, archives []string) error {
	if err := s.run(ctx, append([]string{"image", "import"}, archives...)...); err != nil {
		return err
	}
	var err error
	if s.mirror, err = images.Serve(archives, s.scratch); err != nil {
		return err
	}
	return s.mirror.Use(filepath.Join(s.dir, "containerd", "certs.d"))
}

func (s *server) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// run runs a podo command on the data folder. It is interrupted rather than killed, so that it undoes what it began.
func (s *server) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.podo, append(args, "--data-dir", s.dir)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("podo %s: %w", args[0], err)
	}
	return nil
}

// stop ends and removes everything, also after an interrupt: it has a time limit of its own.
func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var errs []error
	if s.mirror != nil {
		errs = append(errs, s.mirror.Close())
	}
	if _, err := os.Stat(filepath.Join(s.dir, "version")); err == nil { // else it never came to life
		errs = append(errs, s.run(ctx, "down", "--grace", "2s"), s.run(ctx, "reset", "--yes"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nleft behind: %s; `%s down --data-dir %[2]s` and `reset` end and remove it, and so does the next run", err, s.dir, s.podo)
	}
	return errors.Join(os.RemoveAll(s.dir), os.Remove(s.note))
}

// freePorts finds ports that nobody listens on. A kubelet's has the health port two below it: that must be free as well.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range 100 {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // only at the end, so that none is found twice
		port := l.Addr().(*net.TCPAddr).Port
		below, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port-2)))
		if err != nil {
			continue
		}
		defer below.Close()
		if ports = append(ports, strconv.Itoa(port)); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free ports")
}

// freeRange finds a number below 16 whose pod addresses no interface has.
func freeRange() (int, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return 0, err
	}
	taken := map[int]bool{}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			if ip := n.IP.To4(); ip != nil && ip[0] == 10 && ip[1] == 87 {
				taken[int(ip[2])] = true
			}
		}
	}
	for n := range 16 {
		if !taken[n] {
			return n, nil
		}
	}
	return 0, errors.New("all pod ranges from 10.87.0.0/24 to 10.87.15.0/24 are in use: end other runs (`ip addr` shows their bridges)")
}

// kubectlScript makes a program named kubectl of podo's own.
func kubectlScript(dir, podo string) (string, error) {
	file := filepath.Join(dir, "kubectl")
	return file, os.WriteFile(file, []byte("#!/bin/sh\nexec '"+podo+"' kubectl \"$@\"\n"), 0o755)
}
