package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/pki"
)

func (p *Peer) url() string { return "https://127.0.0.1:" + p.ports.api }

func (p *Peer) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: p.bundle.Pool(), GetClientCertificate: p.bundle.Client(pki.Admin)},
	}}
}

func (p *Peer) startEtcd(ctx context.Context) error {
	url, peers := "http://127.0.0.1:"+p.ports.etcd, "http://127.0.0.1:"+p.ports.etcdPeers
	proc, err := p.launch("etcd", "--data-dir="+p.dir("etcd"), "--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers, "--log-level=warn")
	if err != nil {
		return err
	}
	return proc.until(ctx, func(ctx context.Context) bool {
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
}

func (p *Peer) startAPIServer(ctx context.Context) error {
	proc, err := p.launch("kube-apiserver",
		"--etcd-servers=http://127.0.0.1:"+p.ports.etcd, "--bind-address=127.0.0.1", "--secure-port="+p.ports.api,
		"--advertise-address="+p.cfg.NodeIP.String(), "--cert-dir="+p.dir("apiserver-pki"),
		"--tls-cert-file="+p.dir("apiserver.crt"), "--tls-private-key-file="+p.dir("apiserver.key"), "--client-ca-file="+p.dir("ca.crt"),
		"--kubelet-client-certificate="+p.dir("apiserver-kubelet-client.crt"), "--kubelet-client-key="+p.dir("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority="+p.dir("ca.crt"), "--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range="+p.cfg.Services.String(), "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+p.dir("tokens.key"), "--service-account-signing-key-file="+p.dir("tokens.key"),
	)
	if err != nil {
		return err
	}
	return proc.until(ctx, func(ctx context.Context) bool { return p.get(ctx, "/readyz", nil) })
}

func (p *Peer) startControllers(context.Context) error {
	_, err := p.launch("kube-controller-manager", "--kubeconfig="+p.dir("controllers.kubeconfig"), "--bind-address=127.0.0.1",
		"--secure-port="+p.ports.controllers, "--cert-dir="+p.dir("controllers-pki"), "--leader-elect=false",
		"--use-service-account-credentials", "--kube-api-qps=10000", "--kube-api-burst=10000", "--flex-volume-plugin-dir="+p.dir("plugins"),
		"--service-account-private-key-file="+p.dir("tokens.key"), "--root-ca-file="+p.dir("ca.crt"))
	return err
}

func (p *Peer) startScheduler(context.Context) error {
	_, err := p.launch("kube-scheduler", "--kubeconfig="+p.dir("scheduler.kubeconfig"), "--bind-address=127.0.0.1",
		"--secure-port="+p.ports.scheduler, "--cert-dir="+p.dir("scheduler-pki"), "--leader-elect=false",
		"--kube-api-qps=10000", "--kube-api-burst=10000")
	return err
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: $ENDPOINT
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $CA}}
authorization: {mode: Webhook}
tlsCertFile: $CRT
tlsPrivateKeyFile: $KEY
address: 127.0.0.1
port: $PORT
healthzPort: $HEALTH
podLogsDir: $LOGS
volumePluginDir: $PLUGINS
clusterDomain: cluster.local
clusterDNS: [$DNS]
cgroupDriver: cgroupfs
cgroupRoot: $GROUP
makeIPTablesUtilChains: false
failSwapOn: false
failCgroupV1: false
evictionHard: {nodefs.available: 1%, imagefs.available: 1%, memory.available: 100Mi}
`

func (p *Peer) startKubelet(context.Context) error {
	config := strings.NewReplacer("$ENDPOINT", p.Endpoint(), "$CA", p.dir("ca.crt"), "$CRT", p.dir("kubelet.crt"), "$KEY", p.dir("kubelet.key"),
		"$PORT", p.ports.kubelet, "$HEALTH", p.ports.health, "$LOGS", p.dir("logs"), "$PLUGINS", p.dir("plugins"), "$GROUP", p.host.cgroup,
		"$DNS", p.cfg.Services.Addr().Next().Next().String()).Replace(kubeletConfig)
	if err := os.WriteFile(p.dir("kubelet.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	_, err := p.launch("kubelet", "--config="+p.dir("kubelet.yaml"), "--kubeconfig="+p.dir("kubelet.kubeconfig"), "--root-dir="+p.dir("kubelet"),
		"--cert-dir="+p.dir("kubelet-pki"), "--hostname-override="+NodeName, "--node-ip="+p.cfg.NodeIP.String())
	return err
}

// waitForNode waits until the node is Ready and the default account of pods is there. The kubelet was started last.
func (p *Peer) waitForNode(ctx context.Context) error {
	kubelet := p.procs[len(p.procs)-1]
	return kubelet.until(ctx, func(ctx context.Context) bool {
		var n v1.Node
		if !p.get(ctx, "/api/v1/nodes/"+NodeName, &n) {
			return false
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return p.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
			}
		}
		return false
	})
}

// get asks the API server as administrator; it says whether there was a good answer.
func (p *Peer) get(ctx context.Context, path string, into any) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url()+path, nil)
	if err != nil {
		return false
	}
	resp, err := p.client().Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && (into == nil || json.NewDecoder(resp.Body).Decode(into) == nil)
}
