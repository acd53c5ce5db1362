// Package config is the configuration of a server, of an agent, and of the node that both are: what the flags mean, their
// defaults, and their checks.
package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/authn"
	"podo.dev/podo/internal/controllers/nodeipam"
	"podo.dev/podo/internal/controllers/nodelifecycle"
)

// DefaultDataDir is where a server keeps everything unless told otherwise.
const DefaultDataDir = "/var/lib/podo"

// Server is the configuration of `podo server`. Field names follow the flags.
type Server struct {
	Node
	HTTPSPort                  int
	TLSSANs                    []string // further names and addresses in the API server's certificate
	PodCIDR                    string   // the server's own node's
	ClusterCIDR                string   // all nodes'; empty: see ClusterRanges
	NodeMonitorGrace           time.Duration
	ServiceCIDR                string
	ServiceNodePortRange       string
	EtcdEndpoints              []string // empty: the embedded member
	EtcdCAFile                 string
	EtcdCertFile               string
	EtcdKeyFile                string
	AdmissionControlConfigFile string   // an AdmissionConfiguration v1 file
	SchedulerConfig            string   // a KubeSchedulerConfiguration v1 file
	DisableScheduler           bool     // pods wait until somebody else binds them
	TokenAuthFile              string   // CSV: token, user, UID, groups
	ServiceAccountIssuers      []string // the first issues tokens, all are accepted
	APIAudiences               []string // empty: the first issuer
	AnonymousAuth              string   // health, true or false
	Audit                      audit.Config
}

// DefaultServer is a server on its defaults.
func DefaultServer() Server {
	return Server{
		Node:        defaultNode(),
		HTTPSPort:   6443,
		PodCIDR:     "10.42.0.0/24",
		ServiceCIDR: "10.43.0.0/16",

		NodeMonitorGrace:      nodelifecycle.GracePeriod,
		ServiceNodePortRange:  "30000-32767",
		ServiceAccountIssuers: []string{"https://kubernetes.default.svc.cluster.local"},
		AnonymousAuth:         "health",
	}
}

// Complete fills in what can be found out (node name and address, absolute paths) and checks the rest. Errors name the flag.
func (c *Server) Complete() error {
	if err := c.Node.complete(); err != nil {
		return err
	}
	if errs := validation.IsValidPortNum(c.HTTPSPort); len(errs) > 0 {
		return fmt.Errorf("--https-port %d: %s", c.HTTPSPort, strings.Join(errs, "; "))
	}
	if c.NodeMonitorGrace < time.Second {
		return fmt.Errorf("--node-monitor-grace-period %s: a second or more", c.NodeMonitorGrace)
	}
	if err := c.completeAudit(); err != nil {
		return err
	}
	if err := c.checkIdentity(); err != nil {
		return err
	}
	if err := c.completeAddresses(); err != nil {
		return err
	}
	return c.checkEtcd()
}

func (c *Server) checkIdentity() error {
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

// anonymity is what --anonymous-auth can say.
var anonymity = map[string]authn.Anonymous{"health": authn.Health, "true": authn.Everywhere, "false": authn.Nowhere}

// Anonymous is what strangers may ask for.
func (c *Server) Anonymous() authn.Anonymous { return anonymity[c.AnonymousAuth] }

// Audiences is who the API server is in tokens.
func (c *Server) Audiences() []string {
	if len(c.APIAudiences) > 0 {
		return c.APIAudiences
	}
	return c.ServiceAccountIssuers[:1]
}

// completeAudit: the server's working directory need not be where it was started.
func (c *Server) completeAudit() (err error) {
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

func (c *Server) completeAddresses() error {
	node := c.IP() // checked with the node
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
	ranges, err := c.ClusterRanges()
	switch cluster := ranges.Cluster; {
	case err != nil:
		return err
	case cluster.Overlaps(services):
		return fmt.Errorf("--cluster-cidr %s and --service-cidr %s overlap: choose ranges apart", cluster, services)
	case cluster.Contains(node):
		return fmt.Errorf("--node-ip %s lies inside --cluster-cidr %s: choose other ranges", node, cluster)
	}
	return nil
}

// Values of a completed configuration, parsed:

// Pods are the addresses of the server's own node's pods.
func (c *Server) Pods() netip.Prefix { return netip.MustParsePrefix(c.PodCIDR) }

// Services are the addresses of Services.
func (c *Server) Services() netip.Prefix { return netip.MustParsePrefix(c.ServiceCIDR) }

// APIService is the address of the Service "kubernetes", the first one.
func (c *Server) APIService() netip.Addr { return c.Services().Addr().Next() }

// API is the address at which other machines reach the API server.
func (c *Server) API() netip.AddrPort { return netip.AddrPortFrom(c.IP(), uint16(c.HTTPSPort)) }

// LocalURL is how programs on this machine reach the API server.
func (c *Server) LocalURL() string { return "https://127.0.0.1:" + strconv.Itoa(c.HTTPSPort) }

// NodePorts are the ports that Services may have on every node.
func (c *Server) NodePorts() admit.NodePorts {
	ports, err := admit.ParseNodePorts(c.ServiceNodePortRange)
	if err != nil {
		panic(err)
	}
	return ports
}

// ClusterRanges are the ranges from which nodes get their pods' addresses, each as wide as the server's own. Without
// --cluster-cidr they are taken from the /16 around that (16 bits more for IPv6), or there is only the server's own where the
// wider range would overlap others.
func (c *Server) ClusterRanges() (nodeipam.Ranges, error) {
	own, err := parseCIDR("--pod-cidr", c.PodCIDR)
	if err != nil {
		return nodeipam.Ranges{}, err
	}
	r := nodeipam.Ranges{Bits: own.Bits()}
	if c.ClusterCIDR != "" {
		if r.Cluster, err = parseCIDR("--cluster-cidr", c.ClusterCIDR); err != nil {
			return r, err
		}
		if !r.Cluster.Contains(own.Addr()) || r.Cluster.Bits() > own.Bits() {
			return r, fmt.Errorf("--pod-cidr %s lies outside of --cluster-cidr %s: the server's own node is one of the cluster", own, r.Cluster)
		}
		if err := r.Validate(); err != nil {
			return r, fmt.Errorf("--cluster-cidr: %w", err)
		}
		return r, nil
	}
	bits := min(own.Bits(), 16)
	if own.Addr().Is6() {
		bits = max(own.Bits()-16, 0)
	}
	r.Cluster = netip.PrefixFrom(own.Addr(), bits).Masked()
	node, _ := netip.ParseAddr(c.NodeIP)
	if services, err := netip.ParsePrefix(c.ServiceCIDR); err != nil || r.Cluster.Overlaps(services) || r.Cluster.Contains(node) {
		r.Cluster = own
	}
	return r, nil
}

func (c *Server) checkEtcd() error {
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
		return p, fmt.Errorf("%s %q: want addresses as a range, such as 10.42.0.0/16", flag, s)
	}
	if p.Masked() != p {
		return p, fmt.Errorf("%s %s has host bits set: use %s", flag, s, p.Masked())
	}
	return p, nil
}
