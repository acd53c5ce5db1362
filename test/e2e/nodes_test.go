package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	podoruntime "podo.dev/podo/internal/runtime"
)

// Several machines are network namespaces of this one, joined by veths to a bridge in one more. Each has its own data directory, and
// with that its own containerd, cgroups and pod network.

// site is a story's machines.
type site struct {
	tag      string // in the names of namespaces
	hub      netns.NsHandle
	machines map[string]*machine
}

type machine struct {
	name, ns, ip string
	dir          string // data directory
	handle       netns.NsHandle
	port         string // name of the veth on the bridge
	started      bool   // something may be left of it
	joined       bool   // it has its images
	kubelet      int
}

// nodes NAME...: from here on the story's server is a machine of its own at $SERVER_IP, and there are machines NAME beside it, joined with
// `agent`.
func cmdNodes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: nodes NAME...")
	}
	c := of(ts)
	s := &site{tag: filepath.Base(c.dir), machines: map[string]*machine{}}
	c.site = s
	ts.Check(s.build(c, append([]string{"server"}, args...)))
	server := s.machines["server"]
	// Whatever the story does with podo, it does on the server's machine.
	wrapper := filepath.Join(ts.Getenv("WORK"), "podo-on-server")
	ts.Check(os.WriteFile(wrapper, []byte("#!/bin/sh\nexec "+strings.Join(server.enter(), " ")+" "+c.podo+" \"$@\"\n"), 0o755))
	s.machines["server"].dir = c.dir
	c.real, c.podo = c.podo, wrapper
	ts.Setenv("SERVER_IP", server.ip)
	ts.Defer(func() { s.end(ts, c) })
}

func (m *machine) enter() []string { return []string{"nsenter", "--net=/run/netns/" + m.ns} }

// inNS runs f in a network namespace.
func inNS(h netns.NsHandle, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		return err
	}
	defer home.Close()
	if err := netns.Set(h); err != nil {
		return err
	}
	return errors.Join(f(), netns.Set(home))
}

func newNS(name string) (h netns.NsHandle, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		return h, err
	}
	defer home.Close()
	h, err = netns.NewNamed(name)
	return h, errors.Join(err, netns.Set(home))
}

func (s *site) build(c *cluster, names []string) (err error) {
	if s.hub, err = newNS(s.tag + "-hub"); err != nil {
		return err
	}
	up := func(name string) error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}
	if err := inNS(s.hub, func() error {
		return errors.Join(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "hub"}}), up("hub"))
	}); err != nil {
		return err
	}
	for i, name := range names {
		m := &machine{
			name: name, ns: s.tag + "-" + name, ip: fmt.Sprintf("192.168.77.%d", i+1), port: "to-" + name, dir: c.dir + "-" + name, kubelet: c.kubelet,
		}
		if m.handle, err = newNS(m.ns); err != nil {
			return err
		}
		s.machines[name] = m
		if err := inNS(s.hub, func() error {
			veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: m.port}, PeerName: "eth0", PeerNamespace: netlink.NsFd(m.handle)}
			if err := netlink.LinkAdd(veth); err != nil {
				return err
			}
			bridge, err := netlink.LinkByName("hub")
			if err != nil {
				return err
			}
			return errors.Join(netlink.LinkSetMaster(veth, bridge), up(m.port))
		}); err != nil {
			return err
		}
		if err := inNS(m.handle, func() error {
			l, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(m.ip), Mask: net.CIDRMask(24, 32)}}
			return errors.Join(up("lo"), netlink.AddrAdd(l, address), netlink.LinkSetUp(l))
		}); err != nil {
			return err
		}
	}
	return nil
}

// end takes the machines down, and looks for what they left in their namespaces before those go.
func (s *site) end(ts *testscript.TestScript, c *cluster) {
	if out, err := exec.Command(c.podo, "down", "--grace", "1s", "--data-dir", c.dir).CombinedOutput(); err != nil {
		ts.Logf("podo down: %v\n%s", err, out)
	}
	for name, m := range s.machines {
		if m.started {
			for _, verb := range [][]string{{"down", "--grace", "1s"}, {"reset", "--yes"}} {
				if out, err := m.podo(c, verb...).CombinedOutput(); err != nil {
					c.fault("podo %s on %s: %v\n%s", verb[0], name, err, out)
				}
			}
			for _, left := range leftovers(m.dir) {
				c.fault("left behind on %s: %s", name, left)
			}
		}
		if err := inNS(m.handle, func() error { return m.clean() }); err != nil {
			c.fault("left behind on %s: %v", name, err)
		}
		m.handle.Close()
		if err := netns.DeleteNamed(m.ns); err != nil {
			c.fault("the namespace of %s: %v", name, err)
		}
	}
	s.hub.Close()
	if err := netns.DeleteNamed(s.tag + "-hub"); err != nil {
		c.fault("the hub's namespace: %v", err)
	}
	c.podo = c.real
}

// clean says what is in the namespace that was not there at first: devices, routes, tables of nftables.
func (m *machine) clean() error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, l := range links {
		if n := l.Attrs().Name; n != "lo" && n != "eth0" {
			err = errors.Join(err, fmt.Errorf("device %s", n))
		}
	}
	list, rerr := netlink.RouteList(nil, netlink.FAMILY_V4)
	for _, r := range list {
		if r.Gw != nil {
			err = errors.Join(err, fmt.Errorf("route %s", r))
		}
	}
	l := podoruntime.LayoutFor(m.dir)
	if tables, terr := exec.Command("nft", "list", "tables").Output(); terr != nil || strings.Contains(string(tables), l.Table) {
		err = errors.Join(err, terr, fmt.Errorf("nftables tables %s", tables))
	}
	return errors.Join(err, rerr)
}

func (m *machine) podo(c *cluster, args ...string) *exec.Cmd {
	// The story's kubeconfig is the server's machine's.
	argv := append(append([]string{"env", "-u", "KUBECONFIG"}, m.enter()...), c.real, args[0], "--data-dir", m.dir)
	argv = append(argv, args[1:]...)
	return exec.Command(argv[0], argv[1:]...)
}

func machineOf(ts *testscript.TestScript, name string) *machine {
	c := of(ts)
	if c.site == nil || c.site.machines[name] == nil {
		ts.Fatalf("there is no machine %q: `nodes %s` first", name, name)
	}
	return c.site.machines[name]
}

// agent NAME [FLAGS...]: run `podo agent` on a machine and wait until its node is Ready; the first time with a fresh token, and the test
// images are imported.
func cmdAgent(ts *testscript.TestScript, neg bool, args []string) {
	c, m := of(ts), machineOf(ts, args[0])
	argv := []string{
		"agent", "--background", "--wait", "45s", "--node-name", m.name, "--node-ip", m.ip, "--kubelet-port", strconv.Itoa(m.kubelet), "--v=4",
		"--server", "https://" + c.site.machines["server"].ip + ":" + strconv.Itoa(c.https),
	}
	first := !m.joined
	m.joined = m.joined || !neg
	m.started = true
	if first && !strings.Contains(strings.Join(args, " "), "--token") {
		token, err := exec.Command(c.podo, "token", "create", "--quiet", "--data-dir", c.dir).Output()
		ts.Check(err)
		argv = append(argv, "--token", strings.TrimSpace(string(token)))
	}
	cmd := m.podo(c, append(argv, args[1:]...)...)
	err := ts.Exec(cmd.Args[0], cmd.Args[1:]...)
	if err != nil && !neg {
		ts.Logf("log of %s:\n%s", m.name, tail(filepath.Join(m.dir, "log", "podo.log"), 25))
	}
	result(ts, neg, "podo agent", err)
	if err == nil && first {
		images := ts.Getenv("IMAGES")
		if out, err := m.podo(c, "image", "import", images+"/busybox.tar").CombinedOutput(); err != nil {
			ts.Fatalf("podo image import: %v\n%s", err, out)
		}
	}
}

// on NAME VERB...: podo VERB on a machine, with its data directory.
func cmdOn(ts *testscript.TestScript, neg bool, args []string) {
	cmd := machineOf(ts, args[0]).podo(of(ts), args[1:]...)
	result(ts, neg, strings.Join(args, " "), ts.Exec(cmd.Args[0], cmd.Args[1:]...))
}

// wire NAME up|down: plug a machine's cable in, or pull it out.
func cmdWire(ts *testscript.TestScript, neg bool, args []string) {
	m := machineOf(ts, args[0])
	ts.Check(inNS(of(ts).site.hub, func() error {
		l, err := netlink.LinkByName(m.port)
		if err != nil {
			return err
		}
		if args[1] == "up" {
			return netlink.LinkSetUp(l)
		}
		return netlink.LinkSetDown(l)
	}))
}
