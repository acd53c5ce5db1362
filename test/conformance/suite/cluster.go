package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Cluster is what the tests run against.
type Cluster struct {
	Kubeconfig string // the file that the suite gets
	Server     string // its version
	Served     map[string]bool
	StandIn    []string
	// Accounts says that namespaces get a default service account and the cluster's CA, which the suite waits for before each test.
	Accounts bool
	config   *rest.Config
	close    func()
}

// Close ends what Open started.
func (c *Cluster) Close() {
	if c.close != nil {
		c.close()
	}
}

// Open asks a cluster what it serves. The suite's own set-up, before any test, asks for the Service "kubernetes" to learn the
// family of addresses, and gives up without it. Where services are not served, a stand-in on loopback answers that one request and
// hands on everything else, so that tests of pods can be judged already; the report says so.
func Open(ctx context.Context, kubeconfig, dir string) (*Cluster, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	version, err := d.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("the cluster of %s does not answer: is it running? %w", kubeconfig, err)
	}
	c := &Cluster{Kubeconfig: kubeconfig, config: cfg, Server: version.GitVersion, Served: map[string]bool{}}
	// Groups that cannot be listed count as not served.
	_, lists, err := d.ServerGroupsAndResources()
	if len(lists) == 0 && err != nil {
		return nil, err
	}
	for _, l := range lists {
		group, _, ok := strings.Cut(l.GroupVersion, "/")
		for _, r := range l.APIResources {
			name := r.Name
			if ok {
				name += "." + group
			}
			c.Served[name] = true
		}
	}
	var nodes v1.NodeList
	raw, err := d.RESTClient().Get().AbsPath("/api/v1/nodes").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(raw, &nodes)
	}
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	c.Served[TwoNodes] = len(nodes.Items) > 1
	c.Accounts = c.Served["serviceaccounts"]
	for _, path := range []string{"serviceaccounts/default", "configmaps/kube-root-ca.crt"} {
		if _, err := d.RESTClient().Get().AbsPath("/api/v1/namespaces/default/" + path).DoRaw(ctx); err != nil {
			c.Accounts = false
		}
	}
	if !c.Accounts {
		c.StandIn = append(c.StandIn, "the default service account and CA of each namespace: the suite is told not to wait for them")
	}
	if c.Served["services"] {
		return c, nil
	}
	return c, c.standIn(cfg, dir)
}

const kubernetesService = "/api/v1/namespaces/default/services/kubernetes"

func (c *Cluster) standIn(cfg *rest.Config, dir string) error {
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"} // streams of exec and attach cannot be upgraded on HTTP/2
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return err
	}
	host := cfg.Host
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	target, err := url.Parse(host)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == kubernetesService {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"kind":"Service","apiVersion":"v1","metadata":{"name":"kubernetes","namespace":"default"},"spec":{"clusterIP":"10.43.0.1"}}`)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	c.close = server.Close
	c.StandIn = append(c.StandIn, "the Service kubernetes, read by the suite's own set-up")
	k := clientcmdapi.NewConfig()
	k.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	k.AuthInfos["u"] = &clientcmdapi.AuthInfo{}
	k.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	k.CurrentContext = "x"
	c.Kubeconfig = filepath.Join(dir, "stand-in.kubeconfig")
	if err := clientcmd.WriteToFile(*k, c.Kubeconfig); err != nil {
		server.Close()
		return err
	}
	return os.Chmod(c.Kubeconfig, 0o600)
}
