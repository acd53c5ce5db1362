package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"podo.dev/podo/internal/kubelet/images/provider"
)

// Node is the part of the configuration that servers and agents share.
type Node struct {
	DataDir                  string
	KubeletPort              int
	NodeName                 string // empty: the host's name, lower case
	NodeIP                   string // empty: the address of the default route's device
	KubeletConfig            string // a KubeletConfiguration v1beta1 file
	KubeletConfigDir         string // a folder of such, over it in the order of their names
	CredentialProviderConfig string // a CredentialProviderConfig file or a folder of such
	CredentialProviderBinDir string
	ContainerRuntimeEndpoint string // empty: the embedded containerd
	Verbosity                int
	LogFormat                string // text or json
	// Flags are the flags of the process, for the kubelet's /flagz; no secrets.
	Flags map[string]string
}

func defaultNode() Node {
	return Node{DataDir: DefaultDataDir, KubeletPort: 10250, LogFormat: "text"}
}

// complete fills in what can be found out and checks the rest.
func (c *Node) complete() error {
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if dir == "/" || strings.ContainsAny(dir, "\n,:") {
		return fmt.Errorf("--data-dir %q cannot be used: give a folder of its own, without ',' or ':' in its path", c.DataDir)
	}
	c.DataDir = dir
	if c.NodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("cannot read the host's name (%w): give --node-name", err)
		}
		c.NodeName = strings.ToLower(strings.TrimSpace(host))
	}
	if errs := validation.IsDNS1123Subdomain(c.NodeName); len(errs) > 0 {
		return fmt.Errorf("--node-name %q: %s", c.NodeName, strings.Join(errs, "; "))
	}
	if errs := validation.IsValidPortNum(c.KubeletPort); len(errs) > 0 {
		return fmt.Errorf("--kubelet-port %d: %s", c.KubeletPort, strings.Join(errs, "; "))
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return fmt.Errorf("--log-format %q: use text or json", c.LogFormat)
	}
	if err := c.completeProviders(); err != nil {
		return err
	}
	if c.NodeIP == "" {
		ip, err := defaultNodeIP()
		if err != nil {
			return fmt.Errorf("%w: give --node-ip", err)
		}
		c.NodeIP = ip.String()
	}
	ip, err := netip.ParseAddr(c.NodeIP)
	switch {
	case err != nil:
		return fmt.Errorf("--node-ip: %w", err)
	case ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
		return fmt.Errorf("--node-ip %s: want the address at which other machines reach this one", ip)
	}
	c.NodeIP = ip.Unmap().String() // as it will be in the Node
	return nil
}

// IP is NodeIP of a completed configuration.
func (c *Node) IP() netip.Addr { return netip.MustParseAddr(c.NodeIP) }

// defaultNodeIP is the address that the host would use towards the outside. Nothing is sent: connecting a UDP socket only asks
// the routing table. A host without a default route gets its first global address.
func defaultNodeIP() (netip.Addr, error) {
	if conn, err := net.Dial("udp4", "192.0.2.1:9"); err == nil {
		defer conn.Close()
		if a, ok := conn.LocalAddr().(*net.UDPAddr); ok && !a.IP.IsLoopback() {
			return a.AddrPort().Addr().Unmap(), nil
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("cannot list the host's addresses: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the host has no address beyond loopback")
}

// HealthzPort is the kubelet's loopback health port: upstream's 10248 beside 10250, and the same distance beside other ports, so
// that several servers run on one machine.
func (c *Node) HealthzPort() int { return c.KubeletPort - 2 }

// completeProviders: the server's working directory need not be where it was started.
func (c *Node) completeProviders() (err error) {
	if (c.CredentialProviderConfig == "") != (c.CredentialProviderBinDir == "") {
		return errors.New("--image-credential-provider-config and --image-credential-provider-bin-dir need each other: give both")
	}
	if c.CredentialProviderConfig == "" {
		return nil
	}
	if c.CredentialProviderConfig, err = filepath.Abs(c.CredentialProviderConfig); err != nil {
		return fmt.Errorf("--image-credential-provider-config: %w", err)
	}
	if c.CredentialProviderBinDir, err = filepath.Abs(c.CredentialProviderBinDir); err != nil {
		return fmt.Errorf("--image-credential-provider-bin-dir: %w", err)
	}
	if err := provider.Check(c.CredentialProviderConfig, c.CredentialProviderBinDir); err != nil {
		return fmt.Errorf("--image-credential-provider-config: %w", err)
	}
	return nil
}
