//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package endpoints

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"
)

// Repack brings subsets into their one form: ports that the same addresses have, in the same state, are in one subset, and everything has
// its order. An address that is both ready and not is not.
func Repack(subsets []v1.EndpointSubset) []v1.EndpointSubset {
	addresses := map[who]*v1.EndpointAddress{}
	byPort := map[string]*portAddresses{}
	add := func(port *v1.EndpointPort, a *v1.EndpointAddress, ready bool) {
		id := who{ip: a.IP}
		if a.TargetRef != nil {
			id.uid = a.TargetRef.UID
		}
		if addresses[id] == nil {
			addresses[id] = a
		}
		p := byPort[portText(port)]
		if p == nil {
			p = &portAddresses{port: port, ready: map[who]bool{}}
			byPort[portText(port)] = p
		}
		if was, known := p.ready[id]; !known || was {
			p.ready[id] = ready
		}
	}
	for i := range subsets {
		s := &subsets[i]
		each := func(port *v1.EndpointPort) {
			for j := range s.Addresses {
				add(port, &s.Addresses[j], true)
			}
			for j := range s.NotReadyAddresses {
				add(port, &s.NotReadyAddresses[j], false)
			}
		}
		if len(s.Ports) == 0 {
			each(nil) // addresses without ports stay
		}
		for j := range s.Ports {
			each(&s.Ports[j])
		}
	}
	return grouped(byPort, addresses)
}

// who is an address: two pods may have the same one.
type who struct {
	ip  string
	uid types.UID
}

func (w who) compare(o who) int { return cmp.Or(cmp.Compare(w.ip, o.ip), cmp.Compare(w.uid, o.uid)) }

// portAddresses are the addresses of a port, nil for none, and whether each is ready.
type portAddresses struct {
	port  *v1.EndpointPort
	ready map[who]bool
}

// key is the same for ports with the same addresses in the same state.
func (p *portAddresses) key() string {
	var b strings.Builder
	for _, id := range p.sorted() {
		fmt.Fprintf(&b, "%s|%s|%t\n", id.ip, id.uid, p.ready[id])
	}
	return b.String()
}

func (p *portAddresses) sorted() []who {
	ids := make([]who, 0, len(p.ready))
	for id := range p.ready {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, who.compare)
	return ids
}

func portText(p *v1.EndpointPort) string {
	if p == nil {
		return ""
	}
	app := ""
	if p.AppProtocol != nil {
		app = *p.AppProtocol
	}
	return fmt.Sprintf("%s/%05d/%s/%s", p.Name, p.Port, p.Protocol, app)
}

func grouped(byPort map[string]*portAddresses, addresses map[who]*v1.EndpointAddress) []v1.EndpointSubset {
	texts := make([]string, 0, len(byPort))
	for text := range byPort {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	out, at := []v1.EndpointSubset{}, map[string]int{}
	for _, text := range texts { // by the first of their ports
		p := byPort[text]
		key := p.key()
		i, known := at[key]
		if !known {
			i = len(out)
			at[key] = i
			var s v1.EndpointSubset
			for _, id := range p.sorted() {
				if p.ready[id] {
					s.Addresses = append(s.Addresses, *addresses[id])
				} else {
					s.NotReadyAddresses = append(s.NotReadyAddresses, *addresses[id])
				}
			}
			out = append(out, s)
		}
		if p.port != nil {
			out[i].Ports = append(out[i].Ports, *p.port)
		}
	}
	for i := range out {
		byHash(out[i].Ports)
	}
	byHash(out)
	return out
}

// byHash gives a list the order that upstream gives it, in which clients show it.
func byHash[T any](list []T) {
	if len(list) < 2 {
		return
	}
	type hashed struct {
		hash []byte
		item T
	}
	all := make([]hashed, len(list))
	for i, item := range list {
		h := fnv.New128a()
		fmt.Fprint(h, dump.ForHash(item))
		all[i] = hashed{h.Sum(nil), item}
	}
	slices.SortStableFunc(all, func(a, b hashed) int { return bytes.Compare(a.hash, b.hash) })
	for i := range all {
		list[i] = all[i].item
	}
}
