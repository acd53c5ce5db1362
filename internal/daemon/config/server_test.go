package config

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCompleteRefusesWithTheFlag(t *testing.T) {
	for _, tc := range []struct {
		change func(*Server)
		want   string
	}{
		{func(c *Server) { c.DataDir = "/" }, "--data-dir"},
		{func(c *Server) { c.HTTPSPort = 70000 }, "--https-port 70000"},
		{func(c *Server) { c.NodeName = "Big_Name" }, "--node-name"},
		{func(c *Server) { c.LogFormat = "xml" }, "--log-format"},
		{func(c *Server) { c.NodeIP = "nowhere" }, "--node-ip"},
		{func(c *Server) { c.NodeIP = "0.0.0.0" }, "--node-ip 0.0.0.0: want the address"},
		{func(c *Server) { c.NodeIP = "fe80::1%eth0" }, "--node-ip fe80::1%eth0: want the address"},
		{func(c *Server) { c.NodeIP = "224.0.0.1" }, "--node-ip 224.0.0.1: want the address"},
		{func(c *Server) { c.PodCIDR = "10.0.0.1/8" }, "use 10.0.0.0/8"},
		{func(c *Server) { c.PodCIDR = "10.43.0.0/16" }, "overlap"},
		{func(c *Server) { c.PodCIDR = "192.0.2.0/24" }, "lies inside"},
		{func(c *Server) { c.PodCIDR = "10.42.0.0/30" }, "too few addresses"},
		{func(c *Server) { c.EtcdCAFile = "/x" }, "belong to --etcd-endpoints"},
		{func(c *Server) { c.EtcdEndpoints = []string{"http://10.0.0.1:2379"} }, "use https://"},
		{func(c *Server) { c.EtcdEndpoints = []string{"https://e:2379"}; c.EtcdCertFile = "/x" }, "go together"},
		{func(c *Server) { c.EtcdEndpoints = []string{"https://e:2379"}; c.EtcdCAFile = "/does/not/exist" }, "--etcd-cafile"},
	} {
		c := DefaultServer()
		c.NodeName, c.NodeIP = "node-a", "192.0.2.7"
		tc.change(&c)
		if err := c.Complete(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("want an error with %q, got %v", tc.want, err)
		}
	}
	c := DefaultServer()
	c.NodeName, c.NodeIP = "node-a", "192.0.2.7"
	if err := c.Complete(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestClusterRanges(t *testing.T) {
	for _, tc := range []struct{ pods, cluster, services, want string }{
		{"10.42.0.0/24", "", "10.43.0.0/16", "10.42.0.0/16 of /24"},
		{"10.42.0.0/22", "", "10.43.0.0/16", "10.42.0.0/16 of /22"},
		{"10.0.0.0/12", "", "10.43.0.0/16", "10.0.0.0/12 of /12"},
		{"10.42.0.0/24", "", "10.42.128.0/17", "10.42.0.0/24 of /24"}, // no room for more
		{"10.42.0.0/24", "10.42.0.0/20", "10.43.0.0/16", "10.42.0.0/20 of /24"},
		{"fd00:0:0:1::/64", "", "10.43.0.0/16", "fd00::/48 of /64"},
	} {
		c := DefaultServer()
		c.NodeIP, c.PodCIDR, c.ClusterCIDR, c.ServiceCIDR = "192.0.2.7", tc.pods, tc.cluster, tc.services
		r, err := c.ClusterRanges()
		if got := r.Cluster.String() + " of /" + strings.TrimPrefix(netip.PrefixFrom(r.Cluster.Addr(), r.Bits).String(), r.Cluster.Addr().String()+"/"); err != nil || got != tc.want {
			t.Errorf("%+v: %s, %v", tc, got, err)
		}
	}
	for cluster, want := range map[string]string{"10.44.0.0/16": "lies outside", "10.42.0.0/25": "lies outside", "10.0.0.0/5": "host bits", "8.0.0.0/5": "too many ranges"} {
		c := DefaultServer()
		c.NodeName, c.NodeIP, c.ClusterCIDR = "a", "192.0.2.7", cluster
		if err := c.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--cluster-cidr %s: want an error with %q, got %v", cluster, want, err)
		}
	}
}
