package wire

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/proxy"
	netutils "k8s.io/utils/net"
)

// proxyMethods are the methods that are proxied.
var proxyMethods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
}

// proxyTransport connects to pods and services, whose certificates nobody vouches for. It speaks HTTP/1.1, for upgrades.
func proxyTransport() *http.Transport {
	return &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}, //nolint:gosec // as upstream: nobody vouches for pods
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: proxyableOnly}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
	}
}

// proxied tells whether the request goes through a pod, a service or a node. What follows ".../proxy" belongs to them.
func (c *call) proxied() bool {
	if c.info.Subresource != "proxy" || c.kind.GVK.Group != "" {
		return false
	}
	return c.kind.Resource == "pods" || c.kind.Resource == "services" || c.kind.Resource == "nodes"
}

// proxy passes on the request and the answer: path and query unchanged, redirects and links in HTML rewritten to lead through
// here again. The client's identity is not passed on.
func (c *call) proxy(u user.Info) error {
	if !slices.Contains(proxyMethods, c.r.Method) {
		return unrouted(http.StatusMethodNotAllowed)
	}
	if err := c.s.c.Verbs.Authorize(c.r.Context(), u, c.info.Verb, c.info.ref()); err != nil {
		return err
	}
	if c.r.URL.Query().Has("dryRun") {
		return errNoDryRun()
	}
	var target *url.URL
	var err error
	transport := c.s.proxies
	switch c.kind.Resource {
	case "pods":
		target, err = c.podTarget()
	case "services":
		target, err = c.serviceTarget()
	default:
		target, transport, err = c.nodeTarget()
	}
	if err != nil {
		return err
	}
	target.Path, target.RawPath = c.behindProxy()
	r := c.r.Clone(c.r.Context())
	for name := range r.Header {
		if name == "Authorization" || strings.HasPrefix(name, "Impersonate-") || strings.HasPrefix(name, "X-Remote-") {
			delete(r.Header, name)
		}
	}
	h := utilproxy.NewUpgradeAwareHandler(target, transport, true, false, utilproxy.NewErrorResponder(responder{c}))
	h.ServeHTTP(c.w, r)
	return nil
}

// behindProxy is the rest of the path, decoded and as it was written.
func (c *call) behindProxy() (plain, written string) {
	segments := 5 // api, v1, nodes, NAME, proxy
	if c.kind.Namespaced {
		segments = 7 // api, v1, namespaces, NAMESPACE, pods, NAME, proxy
	}
	behind := func(path string) string {
		path = strings.TrimLeft(path, "/")
		for range segments {
			_, rest, ok := strings.Cut(path, "/")
			if !ok {
				return ""
			}
			path = rest
		}
		return "/" + path
	}
	plain, written = behind(c.r.URL.Path), behind(c.r.URL.EscapedPath())
	if same, err := url.PathUnescape(written); err != nil || same != plain {
		written = "" // an escaped slash in our part of the path: use the decoded one
	}
	return plain, written
}

// podTarget parses the name: NAME, NAME:PORT or SCHEME:NAME:PORT; the default is the first port that the pod lists.
func (c *call) podTarget() (*url.URL, error) {
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(c.info.Name)
	if !valid {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", c.info.Name))
	}
	pod, err := c.s.c.Verbs.Pod(c.r.Context(), c.info.Namespace, name)
	if err != nil {
		return nil, err
	}
	for i := range pod.Spec.Containers {
		if ports := pod.Spec.Containers[i].Ports; port == "" && len(ports) > 0 {
			port = strconv.Itoa(int(ports[0].ContainerPort))
		}
	}
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	if !proxyable(netutils.ParseIPSloppy(ip)) {
		return nil, errNotProxyable()
	}
	return &url.URL{Scheme: scheme, Host: hostPort(ip, port)}, nil
}

// proxyable excludes this machine itself, and link-local addresses (where clouds keep their secrets).
func proxyable(ip net.IP) bool { return ip != nil && ip.IsGlobalUnicast() }

// proxyableOnly checks the address that is finally dialled: a name may resolve to another one by then.
func proxyableOnly(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if !proxyable(netutils.ParseIPSloppy(host)) {
		return errNotProxyable()
	}
	return nil
}

func errNotProxyable() error { return apierrors.NewBadRequest("address not allowed") }

func hostPort(ip, port string) string {
	if port != "" {
		return net.JoinHostPort(ip, port)
	}
	if strings.Contains(ip, ":") {
		return "[" + ip + "]"
	}
	return ip
}

// serviceTarget picks one of the pods behind a service; the port is a port's name or number.
func (c *call) serviceTarget() (*url.URL, error) {
	ctx, namespace := c.r.Context(), c.info.Namespace
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(c.info.Name)
	if !valid {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", c.info.Name))
	}
	if n, err := strconv.ParseInt(port, 10, 64); err == nil {
		s, err := c.s.c.Verbs.Service(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(s.Spec.Ports, func(p v1.ServicePort) bool { return int64(p.Port) == n })
		if i < 0 {
			return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", n, name))
		}
		port = s.Spec.Ports[i].Name
	}
	all := c.s.c.Verbs.EndpointSlices(namespace, name)
	if len(all) == 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	// Only endpoints that are certainly pods of the namespace: anybody may write any address into an EndpointSlice.
	host, err := proxy.RandomEndpoint(name, all, port, v1.IPv4Protocol, func(e *discoveryv1.Endpoint) bool {
		if e.TargetRef == nil || e.TargetRef.Namespace != namespace || !proxyable(netutils.ParseIPSloppy(e.Addresses[0])) {
			return false
		}
		pod, err := c.s.c.Verbs.Pod(ctx, namespace, e.TargetRef.Name)
		return err == nil && slices.ContainsFunc(pod.Status.PodIPs, func(ip v1.PodIP) bool { return ip.IP == e.Addresses[0] })
	})
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: scheme, Host: host}, nil
}

// nodeTarget is a node's kubelet, to which this server authenticates by its certificate, or another port of the node.
func (c *call) nodeTarget() (*url.URL, *http.Transport, error) {
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(c.info.Name)
	if !valid {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", c.info.Name))
	}
	kubelet, err := c.kubeletOf(name)
	if err != nil {
		return nil, nil, err
	}
	addrs, err := net.DefaultResolver.LookupIPAddr(c.r.Context(), kubelet.Hostname())
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(addrs) == 0 {
		return nil, nil, apierrors.NewBadRequest("no addresses for hostname")
	}
	for _, a := range addrs {
		if !proxyable(a.IP) {
			return nil, nil, errNotProxyable()
		}
	}
	if port == "" || port == kubelet.Port() {
		return kubelet, c.s.kubelets, nil
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(kubelet.Hostname(), port)}, c.s.proxies, nil
}
