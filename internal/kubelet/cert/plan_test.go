package cert

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestDue(t *testing.T) {
	const day = 24 * time.Hour
	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	c := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}},
		NotBefore: begin, NotAfter: begin.Add(100 * day), DNSNames: []string{"n1"}, IPAddresses: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("10.0.0.2")},
	}
	own := nodeSubject("n1")
	for _, x := range []struct {
		name string
		h    held
		want subject
		now  time.Time
		due  time.Duration
	}{
		{"none", held{}, own, begin, 0},
		{"new", held{cert: c}, own, begin, 70 * day},
		{"new, drawn late", held{cert: c, part: 0.5}, own, begin, 80 * day},
		{"old", held{cert: c}, own, begin.Add(60 * day), 10 * day},
		{"near its end", held{cert: c}, own, begin.Add(75 * day), 0},
		{"over", held{cert: c}, own, begin.Add(200 * day), 0},
		{"before its time", held{cert: c}, own, begin.Add(-1000 * day), 1070 * day},
		{"another node's", held{cert: c}, nodeSubject("n2"), begin, 0},
		{"with an address that it has", held{cert: c}, own.at([]v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.2"}}), begin, 70 * day},
		{"with an address that it lacks", held{cert: c}, own.at([]v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.3"}}), begin, 0},
		{"with a name that it lacks", held{cert: c}, own.at([]v1.NodeAddress{{Type: v1.NodeHostName, Address: "n2"}}), begin, 0},
		// The server signed it just now; if our clock says that it is over, or far from beginning, the clock is wrong.
		{"just come, by a clock ten years ahead", held{cert: c, arrived: begin.AddDate(10, 0, 0)}, own, begin.AddDate(10, 0, 0), 70 * day},
		{"come a day ago, by a clock ten years ahead", held{cert: c, arrived: begin.AddDate(10, 0, 0)}, own, begin.AddDate(10, 0, 1), 69 * day},
		{"come long ago, by a clock ten years ahead", held{cert: c, arrived: begin.AddDate(10, 0, 0)}, own, begin.AddDate(11, 0, 0), 0},
		{"just come, by a clock ten years behind", held{cert: c, arrived: begin.AddDate(-10, 0, 0)}, own, begin.AddDate(-10, 0, 0), 70 * day},
		{"just come, by a good clock", held{cert: c, arrived: begin.Add(5 * time.Minute)}, own, begin.Add(5 * time.Minute), 70*day - 5*time.Minute},
	} {
		if got := due(x.h, x.want, x.now); got != x.due {
			t.Errorf("%s: %v, want %v", x.name, got, x.due)
		}
	}
}

func TestSubjectAt(t *testing.T) {
	a := []v1.NodeAddress{
		{Type: v1.NodeHostName, Address: "b"},
		{Type: v1.NodeInternalIP, Address: "10.0.0.2"},
		{Type: v1.NodeExternalDNS, Address: "a"},
		{Type: v1.NodeHostName, Address: "10.0.0.1"},
		{Type: v1.NodeExternalIP, Address: "10.0.0.2"},
		{Type: v1.NodeInternalDNS, Address: "a"},
		{Type: v1.NodeInternalIP, Address: ""},
		{Type: v1.NodeInternalIP, Address: "no address"},
	}
	s := nodeSubject("n1").at(a)
	if len(s.dns) != 2 || s.dns[0] != "a" || s.dns[1] != "b" || len(s.addresses) != 2 || s.addresses[0].String() != "10.0.0.1" || s.addresses[1].String() != "10.0.0.2" {
		t.Errorf("%v %v", s.dns, s.addresses)
	}
	if !s.located() || nodeSubject("n1").at(nil).located() {
		t.Error("who has an address can serve, and nobody else")
	}
}
