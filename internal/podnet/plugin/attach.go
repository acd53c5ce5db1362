package plugin

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/podnet"
)

// ends are what the host sees of an attached pod.
type ends struct{ host, hostMAC string }

// hostEnd is the name of the host's end of the owner's veth pair.
func (c *call) hostEnd() string {
	h := fnv.New64a()
	h.Write([]byte(c.owner.String()))              //nolint:errcheck // never fails
	return fmt.Sprintf("veth%011x", h.Sum64()>>20) // a name has at most 15 bytes
}

// attach joins the sandbox to the bridge with these addresses, or leaves nothing.
func (c *call) attach(addrs []netip.Addr) (ends, error) {
	space, err := os.Open(c.netns)
	if err != nil {
		return ends{}, err
	}
	defer space.Close()
	inside, err := netlink.NewHandleAt(netns.NsHandle(space.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return ends{}, fmt.Errorf("%s is no network namespace: %w", c.netns, err)
	}
	defer inside.Close()
	outside, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return ends{}, err
	}
	defer outside.Close()
	bridge, err := c.bridge(outside)
	if err != nil {
		return ends{}, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = c.hostEnd(), c.conf.Bridge.MTU, bridge.Attrs().Index
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: c.owner.Interface, PeerHardwareAddr: podnet.MAC(addrs[0]), PeerNamespace: netlink.NsFd(space.Fd()),
	}
	if err := outside.LinkAdd(veth); err != nil {
		return ends{}, fmt.Errorf("making the pod's interface: %w", err)
	}
	if err := c.configure(inside, outside, veth, addrs); err != nil {
		return ends{}, errors.Join(err, outside.LinkDel(veth))
	}
	mac, err := awaitUp(outside, veth.Name)
	if err != nil {
		return ends{}, errors.Join(err, outside.LinkDel(veth))
	}
	return ends{veth.Name, mac}, nil
}

// bridge is podo's, with the gateways' addresses; podo makes it when it starts, and here it is made again if somebody took it away.
func (c *call) bridge(outside *netlink.Handle) (netlink.Link, error) {
	link, err := outside.LinkByName(c.conf.Bridge.Name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		link, err = c.conf.Bridge.Make(c.conf.Pods)
	}
	if err != nil {
		return nil, err
	}
	return link, c.conf.Bridge.Address(link, c.conf.Pods)
}

func (c *call) configure(inside, outside *netlink.Handle, veth *netlink.Veth, addrs []netip.Addr) error {
	// A pod that asks for its own Service comes back through the port that it left by.
	if err := outside.LinkSetHairpin(veth, true); err != nil {
		return err
	}
	link, err := inside.LinkByName(c.owner.Interface)
	if err != nil {
		return err
	}
	for i, a := range addrs {
		err := inside.AddrAdd(link, &netlink.Addr{IPNet: podnet.IPNet(netip.PrefixFrom(a, c.conf.Pods[i].Bits())), Flags: podnet.NoDAD(a)})
		if err != nil {
			return fmt.Errorf("giving %s to the pod's interface: %w", a, err)
		}
	}
	if err := errors.Join(inside.LinkSetUp(link), outside.LinkSetUp(veth)); err != nil {
		return err
	}
	for i, a := range addrs {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: everywhere(a), Gw: podnet.Gateway(c.conf.Pods[i]).AsSlice()}
		if err := inside.RouteAdd(route); err != nil {
			return fmt.Errorf("the pod's way out over %s: %w", route.Gw, err)
		}
	}
	return nil
}

// awaitUp waits until the bridge forwards for the port, which the kernel decides a moment after both ends are up, and returns the
// port's hardware address.
func awaitUp(outside *netlink.Handle, name string) (string, error) {
	const limit = 3 * time.Second
	start := time.Now()
	for pause := 250 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		link, err := outside.LinkByName(name)
		if err != nil {
			return "", err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return link.Attrs().HardwareAddr.String(), nil
		}
		if time.Since(start) > limit {
			return "", fmt.Errorf("the pod's port on the bridge is %s after %s", link.Attrs().OperState, limit)
		}
		time.Sleep(pause)
	}
}

// inside opens the sandbox's network; nil when it has gone, and with it all that was in there.
func (c *call) inside() (*netlink.Handle, error) {
	if c.netns == "" {
		return nil, nil
	}
	space, err := os.Open(c.netns)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer space.Close()
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(space.Fd()), &on); err != nil {
		return nil, err
	}
	if on.Type != unix.NSFS_MAGIC {
		return nil, nil // the file is there, but no namespace is mounted on it
	}
	return netlink.NewHandleAt(netns.NsHandle(space.Fd()), unix.NETLINK_ROUTE)
}

// detach takes the pod's interface away: by its name in the sandbox, or, of a sandbox whose namespace has no name any more, by the host's end,
// which is there for as long as anything still holds the namespace.
func (c *call) detach() error {
	inside, err := c.inside()
	if err != nil {
		return err
	}
	if inside == nil {
		outside, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer outside.Close()
		return remove(outside, c.hostEnd())
	}
	defer inside.Close()
	return remove(inside, c.owner.Interface)
}

// remove deletes one end of a pair, and so both, where it is still there.
func remove(there *netlink.Handle, name string) error {
	link, err := there.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil
	}
	if err == nil {
		err = there.LinkDel(link)
	}
	if errors.Is(err, unix.ENODEV) {
		return nil // it went meanwhile
	}
	return err
}

// attached tells what the sandbox lacks of what attach gave it.
func (c *call) attached(addrs []netip.Addr) error {
	inside, err := c.inside()
	if err != nil {
		return err
	}
	if inside == nil {
		return fmt.Errorf("the sandbox's network namespace %s has gone", c.netns)
	}
	defer inside.Close()
	link, err := inside.LinkByName(c.owner.Interface)
	if err != nil {
		return fmt.Errorf("the pod's interface %s: %w", c.owner.Interface, err)
	}
	have, err := inside.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		found := false
		for _, h := range have {
			ip, _ := netip.AddrFromSlice(h.IP)
			found = found || ip.Unmap() == a
		}
		if !found {
			return fmt.Errorf("the pod's interface %s lacks its address %s", c.owner.Interface, a)
		}
	}
	outside, err := netlink.LinkByName(c.hostEnd())
	if err == nil && outside.Attrs().MasterIndex == 0 {
		err = errors.New("it is on no bridge")
	}
	if err != nil {
		return fmt.Errorf("the host's end %s of the pod's interface: %w", c.hostEnd(), err)
	}
	return nil
}

// everywhere is the destination of a default route.
func everywhere(a netip.Addr) *net.IPNet {
	return podnet.IPNet(netip.PrefixFrom(a, 0).Masked())
}
