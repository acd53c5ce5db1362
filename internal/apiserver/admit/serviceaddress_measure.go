package admit

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/service"
	"podo.dev/podo/internal/view"
)

// allocations counts allocations, under upstream's names. What is used and what is free is counted at each scrape.
type allocations struct {
	ips, ipErrors     *prometheus.CounterVec
	ports, portErrors *prometheus.CounterVec
}

// How an address or a port was asked for.
const (
	asStatic  = "static"
	asDynamic = "dynamic"
)

func newAllocations() *allocations {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kube_apiserver_" + name, Help: help}, labels)
	}
	return &allocations{
		ips:        counter("clusterip_allocator_allocation_total", "Cluster IPs that were taken, by their range and how they were asked for.", "cidr", "scope"),
		ipErrors:   counter("clusterip_allocator_allocation_errors_total", "Cluster IPs that could not be taken, by their range and how they were asked for.", "cidr", "scope"),
		ports:      counter("nodeport_allocator_allocation_total", "Node ports that were taken, by how they were asked for.", "scope"),
		portErrors: counter("nodeport_allocator_allocation_errors_total", "Node ports that could not be taken, by how they were asked for.", "scope"),
	}
}

func (p *ServiceAddresses) counts() *allocations {
	p.once.Do(func() { p.allocations = newAllocations() })
	return p.allocations
}

func scopeOf(asked bool) string {
	if asked {
		return asStatic
	}
	return asDynamic
}

func (p *ServiceAddresses) countIP(asked bool, err error) {
	of := p.counts().ips
	if err != nil {
		of = p.counts().ipErrors
	}
	of.WithLabelValues(p.CIDR.String(), scopeOf(asked)).Inc()
}

func (p *ServiceAddresses) countPort(asked bool, err error) {
	of := p.counts().ports
	if err != nil {
		of = p.counts().portErrors
	}
	of.WithLabelValues(scopeOf(asked)).Inc()
}

// Metrics are what is measured of addresses and ports.
func (p *ServiceAddresses) Metrics() []prometheus.Collector {
	c := p.counts()
	return []prometheus.Collector{c.ips, c.ipErrors, c.ports, c.portErrors, &stock{
		p:         p,
		usedIPs:   prometheus.NewDesc("kube_apiserver_clusterip_allocator_allocated_ips", "Cluster IPs that Services have, by their range.", []string{"cidr"}, nil),
		freeIPs:   prometheus.NewDesc("kube_apiserver_clusterip_allocator_available_ips", "Cluster IPs that are free, by their range.", []string{"cidr"}, nil),
		usedPorts: prometheus.NewDesc("kube_apiserver_nodeport_allocator_allocated_ports", "Node ports that Services have.", nil, nil),
		freePorts: prometheus.NewDesc("kube_apiserver_nodeport_allocator_available_ports", "Node ports that are free.", nil, nil),
	}}
}

// stock counts what is taken and what is free.
type stock struct {
	p                                      *ServiceAddresses
	usedIPs, freeIPs, usedPorts, freePorts *prometheus.Desc
}

func (s *stock) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.usedIPs, s.freeIPs, s.usedPorts, s.freePorts} {
		ch <- d
	}
}

func (s *stock) Collect(ch chan<- prometheus.Metric) {
	now := s.p.View.Snapshot()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, r := range s.p.ranges(now) {
		used := 0
		for e := range now.All(addressesResource, "", view.Key{}) {
			if addr, err := netip.ParseAddr(e.Key.Name); err == nil && r.contains(addr) {
				used++
			}
		}
		gauge(s.usedIPs, float64(used), r.prefix.String())
		gauge(s.freeIPs, float64(distance(r.first, r.last)+1)-float64(used), r.prefix.String())
	}
	ports := map[int32]bool{}
	for e := range now.All(servicesResource, "", view.Key{}) {
		for _, n := range service.NodePorts(e.Object.(*v1.Service)) {
			ports[n] = true
		}
	}
	gauge(s.usedPorts, float64(len(ports)))
	gauge(s.freePorts, float64(int(s.p.Ports.Last-s.p.Ports.First)+1-len(ports)))
}
