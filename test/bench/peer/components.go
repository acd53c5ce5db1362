package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/pki"
)

func (p *Peer) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: p.bundle.Pool(), GetClientCertificate: p.bundle.Client(pki.Admin)},
	}}
}

func (p *Peer) startEtcd(ctx context.Context) error {
	client, err := freePort()
	if err != nil {
		return err
	}
	peer, err := freePort()
	if err != nil {
		return err
	}
	url := "http://127.0.0.1:" + itoa(client)
	peers := "http://127.0.0.1:" + itoa(peer)
	proc, err := p.launch("etcd", "--data-dir="+p.dir("etcd"), "--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers, "--log-level=warn")
	if err != nil {
		return err
	}
	if p.api, err = freePort(); err != nil {
		return err
	}
	p.url = "https://127.0.0.1:" + itoa(p.api)
	p.Kubeconfig = p.dir("admin.kubeconfig")
	for name, file := range map[pki.Name]string{
		pki.Admin: p.Kubeconfig, pki.Node: p.dir("kubelet.kubeconfig"), pki.Scheduler: p.dir("scheduler.kubeconfig"),
		pki.ControllerManager: p.dir("controllers.kubeconfig"),
	} {
		if err := p.bundle.WriteKubeconfig(name, p.url, file); err != nil {
			return err
		}
	}
	err = proc.until(ctx, func(ctx context.Context) bool {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
		if err != nil {
			return false
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	if err != nil {
		return err
	}
	_, err = p.launch("kube-apiserver",
		"--etcd-servers="+url, "--bind-address=0.0.0.0", "--secure-port="+itoa(p.api), "--advertise-address="+p.cfg.NodeIP.String(),
		"--tls-cert-file="+p.dir("apiserver.crt"), "--tls-private-key-file="+p.dir("apiserver.key"), "--client-ca-file="+p.dir("ca.crt"),
		"--kubelet-client-certificate="+p.dir("apiserver-kubelet-client.crt"), "--kubelet-client-key="+p.dir("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority="+p.dir("ca.crt"), "--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--service-cluster-ip-range="+p.cfg.Services.String(), "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+p.dir("tokens.key"), "--service-account-signing-key-file="+p.dir("tokens.key"),
	)
	return err
}

func (p *Peer) startAPIServer(ctx context.Context) error {
	return p.procs[len(p.procs)-1].until(ctx, func(ctx context.Context) bool {
		resp, err := p.get(ctx, "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (p *Peer) startControllers(context.Context) error {
	if _, err := p.launch("kube-controller-manager", "--kubeconfig="+p.dir("controllers.kubeconfig"), "--secure-port=0",
		"--service-account-private-key-file="+p.dir("tokens.key"), "--root-ca-file="+p.dir("ca.crt")); err != nil {
		return err
	}
	_, err := p.launch("kube-scheduler", "--kubeconfig="+p.dir("scheduler.kubeconfig"), "--secure-port=0")
	return err
}

func (p *Peer) startKubelet(context.Context) error {
	var err error
	if p.kube, err = freePort(); err != nil {
		return err
	}
	health, err := freePort()
	if err != nil {
		return err
	}
	config := strings.NewReplacer("ENDPOINT", p.Endpoint(), "CA", p.dir("ca.crt"), "CRT", p.dir("kubelet.crt"), "KEY", p.dir("kubelet.key"),
		"PORT", itoa(p.kube), "HEALTH", itoa(health), "LOGS", p.dir("logs")).Replace(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: ENDPOINT
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: CA}}
authorization: {mode: Webhook}
tlsCertFile: CRT
tlsPrivateKeyFile: KEY
port: PORT
healthzPort: HEALTH
podLogsDir: LOGS
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
evictionHard: {nodefs.available: 1%, imagefs.available: 1%, memory.available: 100Mi}
`)
	if err := os.WriteFile(p.dir("kubelet.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	_, err = p.launch("kubelet", "--config="+p.dir("kubelet.yaml"), "--kubeconfig="+p.dir("kubelet.kubeconfig"), "--root-dir="+p.dir("kubelet"),
		"--cert-dir="+p.dir("kubelet-pki"), "--hostname-override="+NodeName, "--node-ip="+p.cfg.NodeIP.String())
	return err
}

// waitForNode waits until the node is Ready and the default account of pods is there.
func (p *Peer) waitForNode(ctx context.Context) error {
	kubelet := p.procs[len(p.procs)-1]
	err := kubelet.until(ctx, func(ctx context.Context) bool {
		resp, err := p.get(ctx, "/api/v1/nodes/"+NodeName)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var n v1.Node
		if json.NewDecoder(resp.Body).Decode(&n) != nil {
			return false
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return true
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	return kubelet.until(ctx, func(ctx context.Context) bool {
		resp, err := p.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// String tells what the peer is.
func (p *Peer) String() string { return fmt.Sprintf("upstream's components at %s", p.url) }
