//lint:file-ignore SA1019 leases are written as Endpoints, as upstream's servers read them.

package kubernetesservice

import (
	"context"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view/codec"
)

// A server renews its lease every renewal; without that it is gone after lease. Both are upstream's.
const (
	renewal = 10 * time.Second
	lease   = 15 * time.Second
)

// leasePrefix is where upstream's servers keep theirs.
const leasePrefix = "/registry/masterleases/"

var endpointsKind = registry.Lookup(schema.GroupResource{Resource: "endpoints"})

// Leases are the keys by which servers on one store know of each other.
type Leases struct {
	Store store.Store
	self  netip.AddrPort
	times int64 // how often it was renewed: a generation, by which upstream makes sure that there is something to write
}

func (l *Leases) key() string { return leasePrefix + l.self.Addr().String() }

func (l *Leases) renew(ctx context.Context) error {
	l.times++
	e := &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{Generation: l.times}, Subsets: []v1.EndpointSubset{{
		Addresses: []v1.EndpointAddress{{IP: l.self.Addr().String()}},
		Ports:     []v1.EndpointPort{{Name: portName, Port: int32(l.self.Port()), Protocol: v1.ProtocolTCP}},
	}}}
	e.SetGroupVersionKind(endpointsKind.GVK)
	value, err := codec.Encode(e)
	if err != nil {
		return err
	}
	_, err = l.Store.Txn(ctx, nil, []store.Op{{Key: l.key(), Value: value, TTL: lease}})
	return err
}

func (l *Leases) remove(ctx context.Context) error {
	_, err := l.Store.Txn(ctx, nil, []store.Op{{Key: l.key(), Delete: true}})
	return err
}

// list are the servers that are there. One of upstream's does not tell its port, which is 0 then.
func (l *Leases) list(ctx context.Context) (out []netip.AddrPort, err error) {
	res, err := l.Store.List(ctx, leasePrefix, store.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, kv := range res.KVs {
		obj, err := codec.Decode(endpointsKind, kv.Value, kv.ModRevision)
		if err != nil {
			continue // whatever it is, it is no server
		}
		for _, s := range obj.(*v1.Endpoints).Subsets {
			port := uint16(0)
			if len(s.Ports) > 0 {
				port = uint16(s.Ports[0].Port)
			}
			for _, a := range s.Addresses {
				if addr, err := netip.ParseAddr(a.IP); err == nil {
					out = append(out, netip.AddrPortFrom(addr, port))
				}
			}
		}
	}
	return out, nil
}
