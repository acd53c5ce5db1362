package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/floor"
	"podo.dev/podo/test/bench/peer"
)

// peerRun is upstream's components, running.
type peerRun struct {
	*peer.Peer
	first time.Duration // its first start, containerd and certificates not counted
}

func (b *bench) openPeer(ctx context.Context) error {
	bin, err := filepath.Abs(b.options.peer)
	if err != nil {
		return err
	}
	ip, err := outwardIP()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "podo-bench-peer-")
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	p, err := peer.New(ctx, peer.Config{
		Bin: bin, DataDir: dir, NodeIP: ip,
		PodCIDR: netip.MustParsePrefix("10.90.0.0/24"), Services: netip.MustParsePrefix("10.91.0.0/16"),
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	b.peer = &peerRun{Peer: p}
	if err := b.peer.importImage(ctx, filepath.Join(b.images, "busybox.tar")); err != nil {
		return err
	}
	if b.peer.first, err = timed(func() error { return p.Up(ctx) }); err != nil {
		return err
	}
	t := b.newTarget(figures.Peer, p.Kubeconfig, p.Processes())
	b.targets = append(b.targets, t)
	// The controllers would only take the scheduler's processor time.
	t.suspend = func(context.Context) (resume, restore func(context.Context) error, err error) { return p.Suspend() }
	t.runtime, err = floor.Dial(ctx, p.Endpoint())
	return err
}

func (p *peerRun) importImage(ctx context.Context, file string) error {
	c, err := containerd.New(p.Endpoint())
	if err != nil {
		return err
	}
	defer c.Close()
	archive, err := os.Open(file)
	if err != nil {
		return err
	}
	defer archive.Close()
	_, err = c.Import(ctx, archive)
	return err
}

// outwardIP is the address that this machine would use towards the outside. Nothing is sent: connecting a UDP socket only asks the
// routing table.
func outwardIP() (net.IP, error) {
	conn, err := net.Dial("udp4", "192.0.2.1:9")
	if err != nil {
		return nil, fmt.Errorf("upstream's node needs an address beyond loopback, and this machine has no default route: ip route add default ... (%w)", err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP, nil
}
