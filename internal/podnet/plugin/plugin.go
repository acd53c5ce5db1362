// Package plugin is the CNI plug-in of pod networks: one program that does what bridge, host-local and, where a pod asks for ports of
// its node, portmap do in turn. The last is still that plug-in, run only for such pods.
package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"podo.dev/podo/internal/podnet"
	"podo.dev/podo/internal/podnet/lease"
)

// Main answers the one call that the environment and standard input make, by CNI's rules, and ends the process.
func Main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: del, Check: check}, version.PluginSupports("0.4.0", "1.0.0"), podnet.Type+", podo's pod network")
}

// call is one of them, parsed.
type call struct {
	conf   podnet.Config
	owner  lease.Owner
	leases lease.Store
	netns  string
	prev   *types100.Result // what add said, where the runtime remembers
}

func parse(args *skel.CmdArgs) (*call, error) {
	c := &call{owner: lease.Owner{ID: args.ContainerID, Interface: args.IfName}, netns: args.Netns}
	if err := json.Unmarshal(args.StdinData, &c.conf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "the network's configuration cannot be read", err.Error())
	}
	if c.conf.Bridge.Name == "" || len(c.conf.Pods) == 0 || c.conf.Leases == "" || c.conf.Name == "" {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, "the network's configuration lacks its name, bridge, pods or leases", "")
	}
	if c.conf.RawPrevResult != nil {
		if err := version.ParsePrevResult(&c.conf.PluginConf); err != nil {
			return nil, err
		}
		var err error
		if c.prev, err = types100.NewResultFromResult(c.conf.PrevResult); err != nil {
			return nil, err
		}
	}
	var err error
	c.leases, err = lease.Open(filepath.Join(c.conf.Leases, c.conf.Name))
	return c, err
}

// add leaves nothing behind when it fails.
func add(args *skel.CmdArgs) (err error) {
	c, err := parse(args)
	if err != nil {
		return err
	}
	addrs, err := c.leases.Take(c.owner, c.conf.Pods)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.leases.Give(c.owner, addrs))
		}
	}()
	ends, err := c.attach(addrs)
	if err != nil {
		return err
	}
	result := c.result(ends, addrs)
	if len(c.conf.RuntimeConfig.PortMappings) > 0 {
		if err := c.mapPorts(result); err != nil {
			return errors.Join(err, c.detach())
		}
	}
	return types.PrintResult(result, c.conf.CNIVersion)
}

// del takes away what is there of what add made, and may be asked for again.
func del(args *skel.CmdArgs) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	if len(c.conf.RuntimeConfig.PortMappings) > 0 {
		if err := c.mapPorts(c.prev); err != nil {
			return err
		}
	}
	// The address goes last: nobody else has it while it is still in use.
	if err := c.detach(); err != nil {
		return err
	}
	return c.leases.Give(c.owner, addresses(c.prev))
}

// check tells what is missing of what add made.
func check(args *skel.CmdArgs) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	if c.prev == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "a check needs the result of the pod's attachment", "")
	}
	addrs := addresses(c.prev)
	if !c.leases.Holds(c.owner, addrs) {
		return fmt.Errorf("the addresses %v are not this pod's", addrs)
	}
	if err := c.attached(addrs); err != nil {
		return err
	}
	if len(c.conf.RuntimeConfig.PortMappings) > 0 {
		return c.mapPorts(c.prev)
	}
	return nil
}

// result is what the runtime, and through it the kubelet, is told.
func (c *call) result(e ends, addrs []netip.Addr) *types100.Result {
	r := &types100.Result{CNIVersion: types100.ImplementedSpecVersion, Interfaces: []*types100.Interface{
		{Name: c.conf.Bridge.Name, Mac: c.conf.Bridge.MAC},
		{Name: e.host, Mac: e.hostMAC},
		{Name: c.owner.Interface, Mac: podnet.MAC(addrs[0]).String(), Sandbox: c.netns},
	}}
	for i, a := range addrs {
		gateway := podnet.Gateway(c.conf.Pods[i]).AsSlice()
		r.IPs = append(r.IPs, &types100.IPConfig{
			Interface: types100.Int(2), Gateway: gateway,
			Address: *podnet.IPNet(netip.PrefixFrom(a, c.conf.Pods[i].Bits())),
		})
		r.Routes = append(r.Routes, &types.Route{Dst: *everywhere(a), GW: gateway})
	}
	return r
}

// addresses are those in a result; none in none.
func addresses(r *types100.Result) []netip.Addr {
	if r == nil {
		return nil
	}
	var out []netip.Addr
	for _, ip := range r.IPs {
		if a, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			out = append(out, a.Unmap())
		}
	}
	return out
}
