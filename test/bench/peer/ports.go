package peer

import (
	"net"
	"strconv"
)

// ports are where the programs listen; they keep them over a restart.
type ports struct {
	etcd, etcdPeers, api, controllers, scheduler, kubelet, health string
}

// freePorts finds ports that nobody listens on. All are held until all are found, so that they differ.
func freePorts() (ports, error) {
	var p ports
	for _, port := range []*string{&p.etcd, &p.etcdPeers, &p.api, &p.controllers, &p.scheduler, &p.kubelet, &p.health} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return p, err
		}
		defer l.Close()
		*port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	return p, nil
}
