package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"podo.dev/podo/internal/apiserver/audit"

	"podo.dev/podo/internal/apiserver/admit"
)

// DefaultDataDir is where a server keeps everything unless told otherwise.
const DefaultDataDir = "/var/lib/podo"

// Config is everything that `podo server` can be told. Field names follow the flags.
type Config struct {
	DataDir                    string
	HTTPSPort                  int
	KubeletPort                int
	NodeName                   string   // empty: the host's name, lower case
	NodeIP                     string   // empty: the address of the default route's device
	TLSSANs                    []string // further names and addresses in the API server's certificate
	KubeletConfig              string   // a KubeletConfiguration v1beta1 file
	CredentialProviderConfig   string   // a CredentialProviderConfig file or a folder of such
	CredentialProviderBinDir   string
	PodCIDR                    string
	ServiceCIDR                string
	ServiceNodePortRange       string
	EtcdEndpoints              []string // empty: the embedded member
	EtcdCAFile                 string
	EtcdCertFile               string
	EtcdKeyFile                string
	ContainerRuntimeEndpoint   string   // empty: the embedded containerd
	AdmissionControlConfigFile string   // an AdmissionConfiguration v1 file
	DisableScheduler           bool     // pods wait until somebody else binds them
	TokenAuthFile              string   // CSV: token, user, UID, groups
	ServiceAccountIssuers      []string // the first issues tokens, all are accepted
	APIAudiences               []string // empty: the first issuer
	AnonymousAuth              string   // health, true or false
	Audit                      audit.Config
	Verbosity                  int
	LogFormat                  string // text or json
}

// Default is a server on its defaults.
func Default() Config {
	return Config{
		DataDir:     DefaultDataDir,
		HTTPSPort:   6443,
		KubeletPort: 10250,
		PodCIDR:     "10.42.0.0/24",
		ServiceCIDR: "10.43.0.0/16",
		LogFormat:   "text",

		ServiceNodePortRange:  "30000-32767",
		ServiceAccountIssuers: []string{"https://kubernetes.default.svc.cluster.local"},
		AnonymousAuth:         "health",
	}
}

// Complete fills what can be found out (node name and address, absolute paths) and checks the rest. Errors name the flag.
func (c *Config) Complete() error {
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
	for flag, port := range map[string]int{"--https-port": c.HTTPSPort, "--kubelet-port": c.KubeletPort} {
		if errs := validation.IsValidPortNum(port); len(errs) > 0 {
			return fmt.Errorf("%s %d: %s", flag, port, strings.Join(errs, "; "))
		}
	}
	if c.HTTPSPort == c.KubeletPort {
		return fmt.Errorf("--https-port and --kubelet-port are both %d: they must differ", c.HTTPSPort)
	}
	if err := c.completeAudit(); err != nil {
		return err
	}
	if err := c.completeProviders(); err != nil {
		return err
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return fmt.Errorf("--log-format %q: use text or json", c.LogFormat)
	}
	if err := c.checkIdentity(); err != nil {
		return err
	}
	if err := c.completeAddresses(); err != nil {
		return err
	}
	return c.checkEtcd()
}

func (c *Config) checkIdentity() error {
	if len(c.ServiceAccountIssuers) == 0 {
		return fmt.Errorf("--service-account-issuer must not be empty")
	}
	for _, issuer := range c.ServiceAccountIssuers {
		if u, err := url.Parse(issuer); issuer == "" || strings.Contains(issuer, ":") && (err != nil || u.Scheme == "") {
			return fmt.Errorf("--service-account-issuer %q: use a URL (https://...) or a name without ':'", issuer)
		}
	}
	if anonymity[c.AnonymousAuth] == nil {
		return fmt.Errorf("--anonymous-auth %q: use health, true or false", c.AnonymousAuth)
	}
	if c.TokenAuthFile != "" {
		if _, err := os.Stat(c.TokenAuthFile); err != nil {
			return fmt.Errorf("--token-auth-file: %w", err)
		}
	}
	return nil
}

// audiences is who the API server is in tokens.
func (c *Config) audiences() []string {
	if len(c.APIAudiences) > 0 {
		return c.APIAudiences
	}
	return c.ServiceAccountIssuers[:1]
}

// completeAudit: the server's working directory need not be where it was started.
func (c *Config) completeAudit() (err error) {
	if c.Audit.PolicyFile != "" {
		if c.Audit.PolicyFile, err = filepath.Abs(c.Audit.PolicyFile); err != nil {
			return fmt.Errorf("--audit-policy-file: %w", err)
		}
	}
	if c.Audit.LogPath != "" && c.Audit.LogPath != "-" {
		if c.Audit.LogPath, err = filepath.Abs(c.Audit.LogPath); err != nil {
			return fmt.Errorf("--audit-log-path: %w", err)
		}
	}
	return c.Audit.Validate()
}

func (c *Config) completeAddresses() error {
	if c.NodeIP == "" {
		ip, err := defaultNodeIP()
		if err != nil {
			return fmt.Errorf("%w: give --node-ip", err)
		}
		c.NodeIP = ip.String()
	}
	node, err := netip.ParseAddr(c.NodeIP)
	if err != nil {
		return fmt.Errorf("--node-ip: %w", err)
	}
	pods, err := parseCIDR("--pod-cidr", c.PodCIDR)
	if err != nil {
		return err
	}
	services, err := parseCIDR("--service-cidr", c.ServiceCIDR)
	if err != nil {
		return err
	}
	if _, err := admit.ParseNodePorts(c.ServiceNodePortRange); err != nil {
		return fmt.Errorf("--service-node-port-range: %w", err)
	}
	switch {
	case pods.Overlaps(services):
		return fmt.Errorf("--pod-cidr %s and --service-cidr %s overlap: choose ranges apart", pods, services)
	case pods.Contains(node), services.Contains(node):
		return fmt.Errorf("--node-ip %s lies inside --pod-cidr %s or --service-cidr %s: choose other ranges", node, pods, services)
	case services.Addr().Is4() != node.Is4():
		return fmt.Errorf("--service-cidr %s and --node-ip %s are of different families: the API server's own service leads to the node", services, node)
	case pods.Addr().Is4() && pods.Bits() > 29:
		return fmt.Errorf("--pod-cidr %s has too few addresses: /29 or wider", pods)
	}
	return nil
}

func (c *Config) checkEtcd() error {
	if len(c.EtcdEndpoints) == 0 {
		if c.EtcdCAFile != "" || c.EtcdCertFile != "" || c.EtcdKeyFile != "" {
			return fmt.Errorf("--etcd-cafile, --etcd-certfile and --etcd-keyfile belong to --etcd-endpoints, which is not given")
		}
		return nil
	}
	for _, e := range c.EtcdEndpoints {
		if !strings.HasPrefix(e, "https://") && !strings.HasPrefix(e, "http://127.") && !strings.HasPrefix(e, "unix://") && !strings.HasPrefix(e, "unixs://") {
			return fmt.Errorf("--etcd-endpoints %q: use https:// (plain http only on loopback)", e)
		}
	}
	if (c.EtcdCertFile == "") != (c.EtcdKeyFile == "") {
		return fmt.Errorf("--etcd-certfile and --etcd-keyfile go together")
	}
	for flag, file := range map[string]string{"--etcd-cafile": c.EtcdCAFile, "--etcd-certfile": c.EtcdCertFile, "--etcd-keyfile": c.EtcdKeyFile} {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}

func parseCIDR(flag, s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%s: %w", flag, err)
	}
	if p.Masked() != p {
		return p, fmt.Errorf("%s %s has host bits set: use %s", flag, s, p.Masked())
	}
	return p, nil
}

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

// healthzPort is the kubelet's loopback health port: upstream's 10248 beside 10250, and the same distance beside other ports, so
// that several servers run on one machine.
func (c *Config) healthzPort() int { return c.KubeletPort - 2 }
