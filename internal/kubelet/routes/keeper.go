package routes

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"podo.dev/podo/internal/host/dump"
	"podo.dev/podo/internal/pki"
)

// protocol marks our routes in the kernel's table ('p'; `ip route` shows it as proto 112).
const protocol netlink.RouteProtocol = 'p'

// Config is what a Keeper needs.
type Config struct {
	Source Source
	Node   string
	// File remembers which routes are ours.
	File string
	// Ignore are devices that lead to this node's own pods.
	Ignore string
	// Network, when set, is told of this node's range and everybody's whenever they change: it makes the pod network and its rules.
	Network func(ctx context.Context, own, all []netip.Prefix) error
	// Far is told once of each node that is not on the same link.
	Far func(node, message string)
	Log *slog.Logger
}

// Keeper is the one writer of these routes.
type Keeper struct {
	c    Config
	far  map[string]string // nodes that were told of, and their addresses
	told string            // what Network was told last
}

// New makes a Keeper.
func New(c Config) (*Keeper, error) {
	if c.Source == nil || c.Node == "" || c.File == "" || c.Far == nil || c.Log == nil {
		return nil, errors.New("routes: Source, Node, File, Far and Log must be set")
	}
	return &Keeper{c: c, far: map[string]string{}}, nil
}

const (
	retry = 2 * time.Second
	// Nodes join one after another, often by the hundred, and each one changes the rules, which are written as a whole. Hence a
	// pause between looks; only the first looks follow at once, since a new node gets its own range soon after it joined.
	burst   = time.Second
	atFirst = 10
)

// Run keeps the routes until ctx ends, and then leaves them: pods go on. It works whenever a node, a device or an address changes.
func (k *Keeper) Run(ctx context.Context, ready func()) error {
	changed, stop, err := hostChanges()
	if err != nil {
		return err
	}
	defer stop()
	ready()
	k.run(ctx, changed)
	return nil
}

// run is Run, told of the host's changes.
func (k *Keeper) run(ctx context.Context, changed <-chan struct{}) {
	again := time.NewTimer(0)
	defer again.Stop()
	<-again.C
	looks := rate.NewLimiter(rate.Every(burst), atFirst)
	var kept []Node // of the last look at the host; nil when it has to be looked at again
	for looks.Wait(ctx) == nil {
		told := k.c.Source.Changed()
		// Most changes of a node do not concern its routes, and a thousand nodes change often: then the host is not looked at.
		if nodes, known := k.c.Source.Nodes(); known && (kept == nil || !slices.EqualFunc(nodes, kept, Node.same)) {
			kept = nodes
			if err := k.keep(ctx, nodes); err != nil && ctx.Err() == nil {
				k.c.Log.Warn("the way to other nodes' pods is not complete, it is tried again", "in", retry, "err", err)
				again.Reset(retry)
				kept = nil
			}
		}
		select {
		case <-ctx.Done():
		case <-told:
		case <-changed:
			kept = nil
			// Devices and addresses change in bursts, several times for each pod: one look is for all of them.
			select {
			case <-ctx.Done():
			case <-time.After(burst):
			}
		case <-again.C:
			kept = nil
		}
	}
}

func (n Node) same(o Node) bool {
	return n.Name == o.Name && n.IP == o.IP && slices.Equal(n.Pods, o.Pods)
}

// keep does what the plan says.
func (k *Keeper) keep(ctx context.Context, nodes []Node) error {
	if err := k.network(ctx, nodes); err != nil {
		return err
	}
	ours, err := recorded(k.c.File)
	if err != nil {
		return err
	}
	if len(ours) == 0 && !slices.ContainsFunc(nodes, func(n Node) bool { return n.Name != k.c.Node }) {
		k.tell(nil)
		return nil // with no other node: devices come and go with pods, and lead nowhere
	}
	links, err := hostLinks(k.c.Ignore)
	if err != nil {
		return err
	}
	have, err := hostRoutes(ours)
	if err != nil {
		return err
	}
	p := Decide(k.c.Node, nodes, links, have)
	k.tell(p.Far)
	if len(p.Add)+len(p.Remove) == 0 {
		return nil
	}
	next := slices.Clone(ours)
	for _, r := range p.Add {
		if !slices.Contains(next, r.To) {
			next = append(next, r.To)
		}
	}
	// What is about to be made is written down first: a crash in between leaves a line too many, never a route that nobody owns.
	if err := record(k.c.File, next); err != nil {
		return err
	}
	var errs []error
	for _, r := range p.Remove {
		if !slices.ContainsFunc(p.Add, func(a Route) bool { return a.To == r.To }) { // else it is replaced
			errs = append(errs, remove(r.To))
		}
	}
	for _, r := range p.Add {
		errs = append(errs, add(r))
	}
	k.c.Log.Info("routes to other nodes' pods", "added", fmt.Sprint(p.Add), "removed", fmt.Sprint(p.Remove))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	left := slices.DeleteFunc(next, func(to netip.Prefix) bool {
		return slices.ContainsFunc(p.Remove, func(r Route) bool { return r.To == to }) && !slices.ContainsFunc(p.Add, func(r Route) bool { return r.To == to })
	})
	return record(k.c.File, left)
}

// network tells Network what has changed of the ranges.
func (k *Keeper) network(ctx context.Context, nodes []Node) error {
	var own, all []netip.Prefix
	for _, n := range nodes {
		all = append(all, n.Pods...)
		if n.Name == k.c.Node {
			own = n.Pods
		}
	}
	text := fmt.Sprint(own, all)
	if k.c.Network == nil || len(own) == 0 || text == k.told {
		return nil
	}
	if err := k.c.Network(ctx, own, all); err != nil {
		return err
	}
	k.told = text
	return nil
}

func (k *Keeper) tell(far []Node) {
	now := map[string]string{}
	for _, n := range far {
		now[n.Name] = n.IP.String()
		if k.far[n.Name] != n.IP.String() {
			k.c.Far(n.Name, fmt.Sprintf("Node %s (%s) is not on the same link as this node: their pods cannot reach each other. Podo leads from "+
				"node to node by host routes on one link only; give the nodes addresses of one network with --node-ip, or routes of your own", n.Name, n.IP))
		}
	}
	k.far = now
}

// Remove takes away the routes that the file remembers, and the file.
func Remove(file string) error {
	ours, err := recorded(file)
	if err != nil {
		return err
	}
	have, err := hostRoutes(ours)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range have {
		errs = append(errs, remove(r.To))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func recorded(file string) (ours []netip.Prefix, err error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &ours); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it, and the routes that `ip route show proto %d` lists", file, err, protocol)
	}
	return ours, nil
}

func record(file string, ours []netip.Prefix) error {
	content, err := json.Marshal(ours)
	if err != nil {
		return err
	}
	return pki.WriteFile(file, append(content, '\n'), 0o600)
}

// hostChanges has a value after devices or addresses changed, or somebody removed a route of ours, as network managers do with
// unknown routes when they start.
func hostChanges() (changed chan struct{}, stop func(), err error) {
	changed, done := make(chan struct{}, 1), make(chan struct{})
	note := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	lost, err := listen(note, done)
	if err != nil {
		return nil, nil, err
	}
	go func() {
		for {
			select {
			case <-done:
				return
			case <-lost: // the kernel dropped events: anything may have changed
			}
			if next, err := listen(note, done); err == nil {
				lost = next
				note()
				continue
			}
			select {
			case <-done:
				return
			case <-time.After(retry):
			}
		}
	}()
	return changed, func() { close(done) }, nil
}

// listen calls note for each change of the host that matters, until done or lost is closed.
func listen(note func(), done <-chan struct{}) (lost <-chan struct{}, err error) {
	socket, err := subscribe()
	if err != nil {
		return nil, fmt.Errorf("listening to changes of network devices, addresses and routes: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-done:
		case <-ended:
		}
		socket.Close() // ends Receive
	}()
	go func() {
		defer close(ended)
		for {
			messages, _, err := socket.Receive()
			if err != nil {
				return
			}
			for i := range messages {
				if matters(messages[i].Header.Type, messages[i].Data) {
					note()
				}
			}
		}
	}()
	return ended, nil
}

func subscribe() (*nl.NetlinkSocket, error) {
	return nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
}

// matters tells whether the routes depend on what the kernel tells of. Devices of pods do not count: each pod has the kernel tell
// some twenty times of its own, with all that is known of it.
func matters(kind uint16, data []byte) bool {
	switch kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return !strings.HasPrefix(deviceName(data), "veth")
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return true
	case unix.RTM_DELROUTE:
		return len(data) >= unix.SizeofRtMsg && netlink.RouteProtocol(nl.DeserializeRtMsg(data).Protocol) == protocol
	}
	return false
}

// deviceName finds the name in what the kernel tells of a device: a struct ifinfomsg, and attributes of which each begins with its
// length and kind (rtnetlink(7)).
func deviceName(data []byte) string {
	const header = unix.SizeofRtAttr
	for at := unix.SizeofIfInfomsg; at+header <= len(data); {
		length := int(binary.NativeEndian.Uint16(data[at:]))
		if length < header || at+length > len(data) {
			break
		}
		if binary.NativeEndian.Uint16(data[at+2:]) == unix.IFLA_IFNAME {
			return string(bytes.TrimRight(data[at+header:at+length], "\x00"))
		}
		at += (length + unix.RTA_ALIGNTO - 1) &^ (unix.RTA_ALIGNTO - 1)
	}
	return ""
}

// hostLinks are the devices that are up, with their networks. The kernel is asked twice in all, not once for each device: it answers
// each time with the addresses of all, and a node has a device for each of its pods.
func hostLinks(ignore string) (all []Link, err error) {
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing network devices: %w", err)
	}
	addrs, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	nets := map[int][]netip.Prefix{}
	for _, addr := range addrs {
		if p, err := netip.ParsePrefix(addr.IPNet.String()); err == nil {
			nets[addr.LinkIndex] = append(nets[addr.LinkIndex], p)
		}
	}
	for _, l := range links {
		a := l.Attrs()
		if a.Flags&net.FlagUp == 0 || a.Flags&net.FlagLoopback != 0 || a.Name == ignore {
			continue
		}
		all = append(all, Link{Index: a.Index, Name: a.Name, Nets: nets[a.Index]})
	}
	return all, nil
}

// hostRoutes are those of the recorded routes that the kernel has.
func hostRoutes(ours []netip.Prefix) (all []Route, err error) {
	if len(ours) == 0 {
		return nil, nil
	}
	list, err := dump.Whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range list {
		if r.Dst == nil {
			continue
		}
		to, err := netip.ParsePrefix(r.Dst.String())
		via, ok := netip.AddrFromSlice(r.Gw)
		if err == nil && ok && slices.Contains(ours, to) {
			all = append(all, Route{To: to, Via: via.Unmap(), Link: r.LinkIndex})
		}
	}
	return all, nil
}

func add(r Route) error {
	err := netlink.RouteReplace(&netlink.Route{Dst: ipNet(r.To), Gw: r.Via.AsSlice(), LinkIndex: r.Link, Protocol: protocol})
	if err != nil {
		return fmt.Errorf("adding the route to %s: %w", r, err)
	}
	return nil
}

func remove(to netip.Prefix) error {
	err := netlink.RouteDel(&netlink.Route{Dst: ipNet(to), Protocol: protocol})
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("removing the route to %s: %w", to, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
