//go:build e2e

package routes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// inNamespace runs f in a network namespace of its own, with a link "wire" that has the address 198.18.7.1/24.
func inNamespace(t *testing.T, f func(ns netns.NsHandle)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never given back: the thread ends with the goroutine
		ns, err := netns.New()
		if err != nil {
			t.Error(err)
			return
		}
		defer ns.Close()
		wire := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "wire"}, PeerName: "far"}
		addr, err := netlink.ParseAddr("198.18.7.1/24")
		if err != nil {
			t.Error(err)
			return
		}
		for _, step := range []func() error{
			func() error { return netlink.LinkAdd(wire) },
			func() error { return netlink.AddrAdd(wire, addr) },
			func() error { return netlink.LinkSetUp(wire) },
			func() error {
				far, err := netlink.LinkByName("far")
				if err != nil {
					return err
				}
				return netlink.LinkSetUp(far)
			},
		} {
			if err := step(); err != nil {
				t.Error(err)
				return
			}
		}
		f(ns)
	}()
	<-done
}

type noSource struct{}

func (noSource) Nodes() ([]Node, bool)    { return nil, false }
func (noSource) Changed() <-chan struct{} { return nil }

func table(t *testing.T) []string {
	t.Helper()
	list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		t.Error(err)
	}
	var out []string
	for _, r := range list {
		if r.Dst != nil && r.Gw != nil {
			out = append(out, fmt.Sprintf("%s via %s proto %d", r.Dst, r.Gw, r.Protocol))
		}
	}
	slices.Sort(out)
	return out
}

// The kernel's table follows the nodes: routes come, move and go, somebody else's stay, and Remove takes away what was made.
func TestRoutesInTheKernel(t *testing.T) {
	inNamespace(t, func(netns.NsHandle) {
		prefix := netip.MustParsePrefix
		node := func(name, ip, pods string) Node {
			return Node{Name: name, IP: netip.MustParseAddr(ip), Pods: []netip.Prefix{prefix(pods)}}
		}
		self, file := node("self", "198.18.7.1", "10.7.0.0/24"), filepath.Join(t.TempDir(), "routes.json")
		far := ""
		k, err := New(Config{Source: noSource{}, Node: "self", File: file, Far: func(n, _ string) { far += n }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Error(err)
			return
		}
		foreign := Route{To: prefix("10.9.0.0/24"), Via: netip.MustParseAddr("198.18.7.9")}
		if err := netlink.RouteAdd(&netlink.Route{Dst: ipNet(foreign.To), Gw: foreign.Via.AsSlice()}); err != nil {
			t.Error(err)
		}
		const theirs = "10.9.0.0/24 via 198.18.7.9 proto 3"
		for _, step := range []struct {
			nodes []Node
			want  []string
		}{
			{[]Node{self, node("a", "198.18.7.2", "10.7.1.0/24")}, []string{"10.7.1.0/24 via 198.18.7.2 proto 112", theirs}},
			{[]Node{self, node("a", "198.18.7.2", "10.7.1.0/24")}, []string{"10.7.1.0/24 via 198.18.7.2 proto 112", theirs}},
			{
				[]Node{self, node("a", "198.18.7.3", "10.7.1.0/24"), node("b", "198.18.7.4", "10.7.2.0/24"), node("c", "192.0.2.1", "10.7.3.0/24")},
				[]string{"10.7.1.0/24 via 198.18.7.3 proto 112", "10.7.2.0/24 via 198.18.7.4 proto 112", theirs},
			},
			{[]Node{self, node("b", "198.18.7.4", "10.7.2.0/24")}, []string{"10.7.2.0/24 via 198.18.7.4 proto 112", theirs}},
		} {
			if err := k.keep(context.Background(), step.nodes); err != nil {
				t.Error(err)
			}
			if got := table(t); !slices.Equal(got, step.want) {
				t.Errorf("%v, want %v", got, step.want)
			}
		}
		if far != "c" {
			t.Errorf("told of %q, want c, once", far)
		}
		if err := Remove(file); err != nil {
			t.Error(err)
		}
		if got := table(t); !slices.Equal(got, []string{theirs}) {
			t.Errorf("after Remove: %v", got)
		}
	})
}

// Devices that come and go while they are listed, as those of pods do, are no error.
func TestListedWhileTheyChange(t *testing.T) {
	inNamespace(t, func(ns netns.NsHandle) {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		wg.Go(func() {
			runtime.LockOSThread()
			if err := netns.Set(ns); err != nil {
				t.Error(err)
				return
			}
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("v", i)}, PeerName: fmt.Sprint("w", i)}
				if err := netlink.LinkAdd(v); err != nil {
					t.Error(err)
					return
				}
				_ = netlink.LinkSetUp(v)
				_ = netlink.LinkDel(v)
			}
		})
		for range 300 {
			links, err := hostLinks("")
			if err != nil {
				t.Error(err)
				break
			}
			if !slices.ContainsFunc(links, func(l Link) bool { return l.Name == "wire" && len(l.Nets) > 0 }) {
				t.Errorf("%v: wire is missing", links)
				break
			}
		}
		close(stop)
		wg.Wait()
	})
}

// What the kernel tells of devices, addresses and removed routes of ours matters; what it tells of pods' devices and others' routes does not.
func TestWhatMatters(t *testing.T) {
	inNamespace(t, func(netns.NsHandle) {
		socket, err := subscribe()
		if err != nil {
			t.Error(err)
			return
		}
		defer socket.Close()
		device := func(name string) *netlink.Veth {
			return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}
		}
		route := func(to string, by netlink.RouteProtocol) *netlink.Route {
			return &netlink.Route{Dst: ipNet(netip.MustParsePrefix(to)), Gw: net.ParseIP("198.18.9.2"), Protocol: by}
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			t.Error(err)
			return
		}
		ours, theirs := "\x0a\x07\x02\x00", "\x0a\x07\x03\x00"
		for i, step := range []struct {
			do    func() error
			kind  uint16
			about string // in the message: others come by themselves
			want  bool
		}{
			{func() error { return netlink.LinkAdd(device("veth9")) }, unix.RTM_NEWLINK, "veth9\x00", false},
			{func() error { return netlink.LinkDel(device("veth9")) }, unix.RTM_DELLINK, "veth9\x00", false},
			{func() error { return netlink.LinkAdd(device("wire9")) }, unix.RTM_NEWLINK, "wire9\x00", true},
			{func() error { return addAddress("wire9", "198.18.9.1/24") }, unix.RTM_NEWADDR, "\xc6\x12\x09\x01", true},
			{func() error { return netlink.LinkSetUp(device("wire9")) }, unix.RTM_NEWLINK, "wire9\x00", true},
			{func() error { return netlink.RouteAdd(route("10.7.2.0/24", protocol)) }, unix.RTM_NEWROUTE, ours, false},
			{func() error { return netlink.RouteAdd(route("10.7.3.0/24", unix.RTPROT_STATIC)) }, unix.RTM_NEWROUTE, theirs, false},
			{func() error { return netlink.RouteDel(route("10.7.3.0/24", unix.RTPROT_STATIC)) }, unix.RTM_DELROUTE, theirs, false},
			{func() error { return netlink.RouteDel(route("10.7.2.0/24", protocol)) }, unix.RTM_DELROUTE, ours, true},
			{func() error { return netlink.LinkDel(device("wire9")) }, unix.RTM_DELLINK, "wire9\x00", true},
		} {
			// An address of a number of its own tells that all that came of the step has been read.
			end := netip.AddrFrom4([4]byte{127, 9, 9, byte(i)})
			if err := errors.Join(step.do(), addAddress(lo.Attrs().Name, end.String()+"/32")); err != nil {
				t.Errorf("%d: %v", i, err)
				return
			}
			told, matter := false, false
			for ended := false; !ended; {
				messages, _, err := socket.Receive()
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range messages {
					if m.Header.Type == step.kind && bytes.Contains(m.Data, []byte(step.about)) {
						told, matter = true, matter || matters(m.Header.Type, m.Data)
					}
					ended = ended || m.Header.Type == unix.RTM_NEWADDR && bytes.Contains(m.Data, end.AsSlice())
				}
			}
			if !told || matter != step.want {
				t.Errorf("%d (%q): told %v, matters %v", i, step.about, told, matter)
			}
		}
	})
}

func addAddress(device, address string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(link, a)
}

type fixed []Node

func (f fixed) Nodes() ([]Node, bool)  { return f, true }
func (fixed) Changed() <-chan struct{} { return nil }

// A route that somebody else removes, as network managers do when they begin anew, is there again.
func TestARouteThatSomebodyRemoves(t *testing.T) {
	inNamespace(t, func(ns netns.NsHandle) {
		// Without IPv6, whose addresses come by themselves, nothing else changes here.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0o600); err != nil {
			t.Error(err)
		}
		to := netip.MustParsePrefix("10.7.1.0/24")
		k, err := New(Config{
			Source: fixed{
				{Name: "self", IP: netip.MustParseAddr("198.18.7.1")},
				{Name: "a", IP: netip.MustParseAddr("198.18.7.2"), Pods: []netip.Prefix{to}},
			},
			Node: "self", File: filepath.Join(t.TempDir(), "routes.json"), Far: func(string, string) {}, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Error(err)
			return
		}
		updates, end := make(chan netlink.RouteUpdate, 100), make(chan struct{})
		defer close(end)
		if err := netlink.RouteSubscribe(updates, end); err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() {
			runtime.LockOSThread()
			err := netns.Set(ns)
			if err == nil {
				err = k.Run(ctx, func() {})
			}
			if err != nil {
				t.Error(err)
			}
		})
		for range 3 {
			for there := false; !there; {
				select {
				case u := <-updates:
					there = u.Type == unix.RTM_NEWROUTE && u.Dst.String() == to.String()
				case <-ctx.Done():
					t.Error("there is no route")
					return
				}
			}
			if err := netlink.RouteDel(&netlink.Route{Dst: ipNet(to), Protocol: protocol}); err != nil {
				t.Error(err)
			}
		}
	})
}
