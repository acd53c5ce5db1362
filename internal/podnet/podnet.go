// Package podnet is what podo and its CNI plug-in agree on about a node's pod network: the plug-in's configuration, the bridge, and
// which addresses mean what. The plug-in is plugin, a program of its own (cmd/podo-net); lease is its memory.
package podnet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
)

// Type is the plug-in's name, in network lists and as a program.
const Type = "podo-net"

// PortMapper is the plug-in that leads ports of the node to pods. Ours runs it, for pods that ask for such ports.
const PortMapper = "portmap"

// Config is the plug-in's entry in the network list, with what the runtime adds to it for a pod.
type Config struct {
	types.PluginConf
	Bridge Bridge `json:"bridge"`
	// Pods are this node's addresses, one range a family: a pod gets one of each.
	Pods   []netip.Prefix `json:"pods"`
	Leases string         `json:"leases"` // folder; each network has its own in it

	// RuntimeConfig is what the runtime says of the pod; what is in it goes to the port mapper as it is.
	RuntimeConfig struct {
		PortMappings []any `json:"portMappings,omitempty"`
	} `json:"runtimeConfig,omitzero"`
}

// Bridge is the node's end of the pod network.
type Bridge struct {
	Name string `json:"name"`
	MAC  string `json:"mac"` // of its own: a bridge without one takes its lowest port's, and changes it as pods come and go
	MTU  int    `json:"mtu,omitempty"`
}

// Gateway is the bridge's address in a range of pods, and their way out: the first.
func Gateway(pods netip.Prefix) netip.Addr { return pods.Masked().Addr().Next() }

// MAC is the hardware address of the pod that has the address. Whoever knows an address's owner knows the next one's too: nobody
// remembers a wrong one when an address changes hands. It begins otherwise than bridges' addresses do.
func MAC(a netip.Addr) net.HardwareAddr {
	raw := a.AsSlice()
	return append(net.HardwareAddr{0x0a, 0x59}, raw[len(raw)-4:]...)
}

// Make makes the bridge where there is none and takes away addresses of ranges that are no longer this node's. Its own it gets with its
// first pod, by Address: ranges of servers that have no pods meet nobody's.
func (b Bridge) Make(pods []netip.Prefix) (netlink.Link, error) {
	link, err := b.makeLink()
	if err != nil {
		return nil, err
	}
	return link, b.dropOthers(link, pods)
}

// Address gives the bridge the gateways of these ranges, and has the kernel forward between it and the world. What is so already
// costs a call each.
func (b Bridge) Address(link netlink.Link, pods []netip.Prefix) error {
	for _, p := range pods {
		addr := &netlink.Addr{IPNet: IPNet(netip.PrefixFrom(Gateway(p), p.Bits())), Flags: NoDAD(p.Addr())}
		if err := netlink.AddrAdd(link, addr); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("giving %s to the pod bridge %s: %w", addr.IPNet, b.Name, err)
		}
		file := "/proc/sys/net/ipv4/ip_forward"
		if p.Addr().Is6() {
			file = "/proc/sys/net/ipv6/conf/all/forwarding"
		}
		if err := switchOn(file); err != nil {
			return fmt.Errorf("having the kernel forward for pods: %w", err)
		}
	}
	return nil
}

// switchOn leaves alone what is on: the kernel's settings may be there to be read only.
func switchOn(file string) error {
	if text, err := os.ReadFile(file); err == nil && string(bytes.TrimSpace(text)) == "1" {
		return nil
	}
	return os.WriteFile(file, []byte("1"), 0)
}

func (b Bridge) makeLink() (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = b.Name, b.MTU
	var err error
	if attrs.HardwareAddr, err = net.ParseMAC(b.MAC); err != nil {
		return nil, err
	}
	err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making the pod bridge %s: %w (is the kernel's bridge module there? modprobe bridge)", b.Name, err)
	}
	link, err := netlink.LinkByName(b.Name)
	if err != nil {
		return nil, err
	}
	if link.Type() != "bridge" {
		return nil, fmt.Errorf("the interface %s is a %s, podo needs that name for its bridge: rename it", b.Name, link.Type())
	}
	return link, netlink.LinkSetUp(link)
}

func (b Bridge) dropOthers(link netlink.Link, pods []netip.Prefix) error {
	addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return err
	}
	for _, a := range addrs {
		ip, _ := netip.AddrFromSlice(a.IP)
		ones, _ := a.Mask.Size()
		keep := ip.Unmap().IsLinkLocalUnicast()
		for _, p := range pods {
			keep = keep || ip.Unmap() == Gateway(p) && ones == p.Bits()
		}
		if !keep {
			if err := netlink.AddrDel(link, &a); err != nil {
				return fmt.Errorf("taking %s from the pod bridge %s: %w", a.IPNet, b.Name, err)
			}
		}
	}
	return nil
}
