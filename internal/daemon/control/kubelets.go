package control

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/pki"
)

// kubeletTLS authenticates both sides between the server and kubelets: its certificate, and the cluster's authority for theirs.
func (p *Plane) kubeletTLS() *tls.Config {
	return &tls.Config{RootCAs: p.cfg.Certs.Pool(), MinVersion: tls.VersionTLS12, GetClientCertificate: p.cfg.Certs.Client(pki.KubeletClient)}
}

// newKubeletClient keeps connections to nodes that are asked often. It follows no redirects: a node could otherwise lead the
// server, which may do everything, to another node.
func (p *Plane) newKubeletClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:     p.kubeletTLS(),
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout:     90 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// callKubelet asks a node's kubelet; the path is escaped.
func (p *Plane) callKubelet(ctx context.Context, node *v1.Node, method, path string) (*http.Response, error) {
	i := slices.IndexFunc(node.Status.Addresses, func(a v1.NodeAddress) bool { return a.Type == v1.NodeInternalIP })
	if i < 0 {
		return nil, fmt.Errorf("node %s has no InternalIP address yet", node.Name)
	}
	at := net.JoinHostPort(node.Status.Addresses[i].Address, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)))
	req, err := http.NewRequestWithContext(ctx, method, "https://"+at+path, nil)
	if err != nil {
		return nil, err
	}
	return p.kubelets.Do(req)
}
