package cert

import (
	"bytes"
	"crypto/x509"
	"net"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// held is a certificate that we have, and what is known of it.
type held struct {
	cert *x509.Certificate
	// arrived is when this process got it from the server, by a clock that was not set since; zero otherwise.
	arrived time.Time
	// part, of [0,1), is drawn once a certificate, so that nodes that joined together do not renew together.
	part float64
}

// Life is measured in parts: a certificate is replaced between these.
const (
	earliest = 0.7
	latest   = 0.9
)

// due is how long a certificate may stay before it must be replaced. 0 means now, also when there is none and when it does not
// cover want.
//
// What the server has just signed is valid by the server's clock. If our clock disagrees, ours is wrong, and another request
// would bring the same: the certificate's life then counts from its arrival. Without an arrival our clock counts. A certificate
// whose validity begins in the future is not replaced: its time comes, or the clock is set.
func due(h held, want subject, now time.Time) time.Duration {
	if h.cert == nil || !want.coveredBy(h.cert) {
		return 0
	}
	life := h.cert.NotAfter.Sub(h.cert.NotBefore)
	until := time.Duration(float64(life) * (earliest + (latest-earliest)*h.part)).Round(time.Second)
	if wall := h.arrived.Round(0); !h.arrived.IsZero() && (wall.Before(h.cert.NotBefore) || !wall.Before(h.cert.NotAfter)) {
		return max(until-now.Sub(h.arrived), 0)
	}
	return max(h.cert.NotBefore.Add(until).Sub(now.Round(0)), 0)
}

// subject is what a certificate has to say.
type subject struct {
	name      string
	groups    []string
	dns       []string
	addresses []net.IP
}

const nodesGroup = "system:nodes"

func nodeSubject(node string) subject {
	return subject{name: "system:node:" + node, groups: []string{nodesGroup}}
}

// at is the subject with the node's addresses, sorted and without duplicates, so that equal sets compare equal.
func (s subject) at(addresses []v1.NodeAddress) subject {
	for _, a := range addresses {
		if a.Address == "" {
			continue
		}
		switch a.Type {
		case v1.NodeHostName, v1.NodeInternalDNS, v1.NodeExternalDNS:
			if ip := net.ParseIP(a.Address); ip != nil {
				s.addresses = append(s.addresses, ip)
			} else {
				s.dns = append(s.dns, a.Address)
			}
		case v1.NodeInternalIP, v1.NodeExternalIP:
			if ip := net.ParseIP(a.Address); ip != nil {
				s.addresses = append(s.addresses, ip)
			}
		}
	}
	slices.Sort(s.dns)
	s.dns = slices.Compact(s.dns)
	slices.SortFunc(s.addresses, func(a, b net.IP) int { return bytes.Compare(a.To16(), b.To16()) })
	s.addresses = slices.CompactFunc(s.addresses, net.IP.Equal)
	return s
}

// located says that there is an address to serve at.
func (s subject) located() bool { return len(s.dns)+len(s.addresses) > 0 }

// coveredBy says that a certificate is good for this subject. It may name more addresses: one that disappears for a moment is no
// reason to renew.
func (s subject) coveredBy(c *x509.Certificate) bool {
	if c.Subject.CommonName != s.name || !slices.Equal(c.Subject.Organization, s.groups) {
		return false
	}
	for _, n := range s.dns {
		if !slices.Contains(c.DNSNames, n) {
			return false
		}
	}
	for _, ip := range s.addresses {
		if !slices.ContainsFunc(c.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}
