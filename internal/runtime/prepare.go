package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"podo.dev/podo/internal/host/dump"
	"podo.dev/podo/internal/podnet"
)

// prepare puts everything in place that containerd needs and returns the configuration to start it with. It is safe to repeat, also
// while containerd runs.
func (r *Runtime) prepare(ctx context.Context) (config string, err error) {
	l := r.layout
	for _, d := range []struct {
		path string
		mode os.FileMode
	}{
		{l.Root, 0o711},
		{l.Certs, 0o700},
		{l.Config, 0o700},
		{l.CNI, 0o700},
		// Containers in user namespaces walk through these to their files; names below are not secret, listing is denied.
		{filepath.Dir(l.Run), 0o711},
		{l.Run, 0o711},
		{l.State, 0o711},
		{l.Shims, 0o700},
		{l.RuncDir, 0o711},
		{l.Leases, 0o700},
	} {
		if err := os.MkdirAll(d.path, d.mode); err != nil {
			return "", err
		}
		if err := os.Chmod(d.path, d.mode); err != nil {
			return "", err
		}
	}
	if err := r.cfg.Payload.Unpack(ctx, l.Bin); err != nil {
		return "", err
	}
	if len(r.cfg.PodCIDRs) > 0 {
		if err := r.SetNetwork(ctx, Network{Pods: r.cfg.PodCIDRs, Cluster: r.cfg.ClusterCIDRs, Redirects: r.cfg.Redirects}); err != nil {
			return "", err
		}
	}
	if err := writeChanged(l.seccompFile(), sandboxSeccomp(), 0o600); err != nil {
		return "", err
	}
	return r.writeConfig()
}

// writeConfig writes containerd's configuration under a name that holds a digest of all that decides how it behaves, its own program
// included. So a running containerd's command line says whether it is the right one.
func (r *Runtime) writeConfig() (string, error) {
	restrict := !hasSysResource()
	if restrict {
		r.cfg.Log.Warn("this node has no CAP_SYS_RESOURCE: containers keep podo's own OOM score where a lower one is asked for")
	}
	text, err := containerdConfig{
		Layout: r.layout, PauseImage: PauseImage, SystemdCgroup: r.cfg.SystemdCgroup, RestrictOOM: restrict,
	}.render()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text + "\x00" + r.cfg.Payload.Digest("containerd") + "\x00" + r.cfg.LogLevel))
	file := filepath.Join(r.layout.Config, "containerd-"+hex.EncodeToString(sum[:6])+".toml")
	if err := writeChanged(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	old, err := filepath.Glob(filepath.Join(r.layout.Config, "containerd-*.toml"))
	for _, f := range old {
		if f != file {
			err = errors.Join(err, os.Remove(f))
		}
	}
	return file, err
}

// Network is what the pod network depends on.
type Network struct {
	Pods      []netip.Prefix // this node's
	Cluster   []netip.Prefix // all nodes'; Pods when empty
	Redirects []Redirect
}

// SetNetwork makes the pod network: its bridge, the masquerading of what leaves it, and the network list, which containerd notices by
// itself. Pods that have addresses keep them.
func (r *Runtime) SetNetwork(ctx context.Context, n Network) error {
	l := r.layout
	if len(n.Cluster) == 0 {
		n.Cluster = n.Pods
	}
	bridge := podnet.Bridge{Name: l.Bridge, MAC: l.bridgeMAC(), MTU: routeMTU()}
	list, err := conflist(bridge, l.Leases, n.Pods)
	if err != nil {
		return err
	}
	if _, err := bridge.Make(n.Pods); err != nil {
		return err
	}
	if err := nft(ctx, rules(l.Table, n.Pods, n.Cluster, n.Redirects), false); err != nil {
		return err
	}
	return writeChanged(filepath.Join(l.CNI, "10-podo.conflist"), list, 0o600)
}

// routeMTU is the MTU of the way out, which pods must not exceed; 0 when there is no default route.
func routeMTU() int {
	routes, err := dump.Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return 0
	}
	for _, rt := range routes {
		if rt.Dst != nil {
			if ones, _ := rt.Dst.Mask.Size(); ones != 0 {
				continue
			}
		}
		if link, err := netlink.LinkByIndex(rt.LinkIndex); err == nil {
			return link.Attrs().MTU
		}
	}
	return 0
}

// nft runs a script as one transaction; with dry it only asks whether the kernel would take it.
func nft(ctx context.Context, script string, dry bool) error {
	program, err := findNFT()
	if err != nil {
		return err
	}
	args := []string{"-f", "-"}
	if dry {
		args = append([]string{"--check"}, args...)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft refused podo's rules: %w: %s (the kernel needs nf_tables with NAT: modprobe nft_chain_nat nft_masq)", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// findNFT looks on PATH and then where distributions put it, since a user's PATH may lack sbin.
func findNFT() (string, error) {
	if p, err := exec.LookPath("nft"); err == nil {
		return p, nil
	}
	for _, dir := range filepath.SplitList(systemPath) {
		if p, err := exec.LookPath(filepath.Join(dir, "nft")); err == nil {
			return p, nil
		}
	}
	return "", errors.New("nft was not found, and the pod network needs it: install nftables (Debian: apt-get install nftables)")
}
