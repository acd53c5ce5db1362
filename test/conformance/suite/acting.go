package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// A cluster may keep a kind of object that nobody acts on: a test of it would wait until its time is over. So before a run a few
// objects are made, and what their controllers should make of them is looked for.

// acting is what the needs table calls a resource with somebody who acts on it.
const acting = "!"

// clusterDNS stands among the resources of a cluster whose pods find names of services.
const clusterDNS = "names-in-dns"

// probeTime is how long a controller gets for its first deed.
const probeTime = 15 * time.Second

// workload is a resource whose controller makes pods, which are named after their maker.
type workload struct {
	gvr            schema.GroupVersionResource
	kind           string
	selector       string // where the spec holds the labels; empty: nowhere
	restart, extra string
}

var workloads = []workload{
	{schema.GroupVersionResource{Version: "v1", Resource: "replicationcontrollers"}, "ReplicationController", "selector", "Always", ""},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, "ReplicaSet", "selector.matchLabels", "Always", ""},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", "selector.matchLabels", "Always", ""},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, "StatefulSet", "selector.matchLabels", "Always", "none"},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, "DaemonSet", "selector.matchLabels", "Always", ""},
	{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job", "", "Never", ""},
}

func (w workload) name() string { return "probe-" + w.gvr.Resource }

func (w workload) object() map[string]any {
	labels := map[string]any{"probe": w.gvr.Resource}
	spec := map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": labels},
		"spec":     podSpec(w.restart),
	}}
	if w.selector != "" {
		_ = unstructured.SetNestedMap(spec, labels, strings.Split(w.selector, ".")...) // into an empty map
	}
	if w.extra != "" {
		spec["serviceName"] = w.extra
	}
	return object(w.gvr.GroupVersion(), w.kind, w.name(), spec)
}

func podSpec(restart string) map[string]any {
	return map[string]any{
		"restartPolicy": restart,
		"containers":    []any{map[string]any{"name": "c", "image": "registry.k8s.io/pause:3.10.2"}},
	}
}

func object(gv schema.GroupVersion, kind, name string, spec map[string]any) map[string]any {
	o := map[string]any{"apiVersion": gv.String(), "kind": kind, "metadata": map[string]any{"name": name}}
	if spec != nil {
		o["spec"] = spec
	}
	return o
}

// prober makes the objects in a namespace of its own, which goes afterwards.
type prober struct {
	c         dynamic.Interface
	served    map[string]bool
	namespace string
	todo      map[schema.GroupVersionResource]map[string]any // objects that could not be made yet
}

var (
	core       = schema.GroupVersion{Version: "v1"}
	namespaces = core.WithResource("namespaces")
	pods       = core.WithResource("pods")
	services   = core.WithResource("services")
	slicesGVR  = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// Probe finds out who acts, and adds it to what is served. here says that this machine is a node of the cluster, from which services
// must be reached. The images must be there.
func (c *Cluster) Probe(ctx context.Context, here bool) error {
	quiet := rest.CopyConfig(c.config)
	quiet.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(quiet)
	if err != nil {
		return err
	}
	return newProber(client, c.Served).run(ctx, here)
}

func newProber(c dynamic.Interface, served map[string]bool) *prober {
	p := &prober{c: c, served: served, namespace: fmt.Sprintf("conformance-probe-%d", time.Now().UnixNano()), todo: map[schema.GroupVersionResource]map[string]any{}}
	p.todo[pods] = object(core, "Pod", "probe", podSpec("Always"))
	if served["services"] {
		p.todo[services] = object(core, "Service", "probe", map[string]any{
			"selector": map[string]any{"probe": "none"}, "ports": []any{map[string]any{"port": int64(80)}},
		})
	}
	for _, w := range workloads {
		if served[w.gvr.GroupResource().String()] {
			p.todo[w.gvr] = w.object()
		}
	}
	return p
}

func (p *prober) run(ctx context.Context, here bool) error {
	ns := &unstructured.Unstructured{Object: object(core, "Namespace", p.namespace, nil)}
	if _, err := p.c.Resource(namespaces).Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("a namespace to try controllers in: %w", err)
	}
	defer func() {
		_ = p.c.Resource(namespaces).Delete(context.WithoutCancel(ctx), p.namespace, metav1.DeleteOptions{}) // the cluster goes, or its owner sees it
	}()
	for end := time.Now().Add(probeTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(500 * time.Millisecond) {
		if p.round(ctx) {
			break
		}
	}
	p.conclude(ctx, here)
	return ctx.Err()
}

// round makes what is not made yet, and looks; true when nothing is left to wait for.
func (p *prober) round(ctx context.Context) bool {
	for gvr, o := range p.todo {
		_, err := p.c.Resource(gvr).Namespace(p.namespace).Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
		if err == nil || !apierrors.IsForbidden(err) { // the namespace's account is not there yet
			delete(p.todo, gvr)
		}
	}
	all := len(p.todo) == 0
	made := p.names(ctx, pods)
	for _, w := range workloads {
		if r := w.gvr.GroupResource().String(); p.served[r] {
			p.served[r+acting] = hasPrefix(made, w.name()+"-")
			all = all && p.served[r+acting]
		}
	}
	if r := slicesGVR.GroupResource().String(); p.served[r] && p.served["services"] {
		p.served[r+acting] = hasPrefix(p.names(ctx, slicesGVR), "probe-")
		p.served["endpoints"+acting] = slices.Contains(p.names(ctx, core.WithResource("endpoints")), "probe")
		all = all && p.served[r+acting]
	}
	return all && p.running(ctx)
}

func (p *prober) names(ctx context.Context, gvr schema.GroupVersionResource) []string {
	l, err := p.c.Resource(gvr).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	var out []string
	for _, o := range l.Items {
		out = append(out, o.GetName())
	}
	return out
}

func hasPrefix(names []string, prefix string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) })
}

func (p *prober) running(ctx context.Context) bool {
	o, err := p.c.Resource(pods).Namespace(p.namespace).Get(ctx, "probe", metav1.GetOptions{})
	if err != nil {
		return false
	}
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return phase == "Running"
}

// conclude judges what takes more than one object.
func (p *prober) conclude(ctx context.Context, here bool) {
	events, err := p.c.Resource(core.WithResource("events")).Namespace(p.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=MissingClusterDNS"})
	p.served[clusterDNS] = p.served["services"] && err == nil && len(events.Items) == 0
	p.served["services"+acting] = p.served[slicesGVR.GroupResource().String()+acting] && (!here || p.reaches(ctx) == nil)
}

// reaches tells whether somebody acts on the traffic to a service's address: one with this program behind it leads here. (That the API
// server's own service leads there says nothing of the others, and who answers at an address of nobody may be a router.)
func (p *prober) reaches(ctx context.Context) error {
	here, err := net.ListenTCP("tcp", nil)
	if err != nil {
		return err
	}
	defer here.Close()
	address, err := ownAddress()
	if err != nil {
		return err
	}
	const name = "probe-traffic"
	port := int64(here.Addr().(*net.TCPAddr).Port)
	service, err := p.make(ctx, services, object(core, "Service", name, map[string]any{"ports": []any{map[string]any{"port": int64(80), "targetPort": port}}}))
	if err != nil {
		return err
	}
	ip, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP")
	if net.ParseIP(ip) == nil {
		return errors.New("no address")
	}
	slice := object(slicesGVR.GroupVersion(), "EndpointSlice", name, nil)
	slice["metadata"].(map[string]any)["labels"] = map[string]any{"kubernetes.io/service-name": name}
	slice["addressType"] = "IPv4"
	slice["endpoints"] = []any{map[string]any{"addresses": []any{address}}}
	slice["ports"] = []any{map[string]any{"name": "", "port": port, "protocol": "TCP"}}
	if _, err := p.make(ctx, slicesGVR, slice); err != nil {
		return err
	}
	// A proxy takes a moment to hear of it; where there is none, an answer never comes.
	d := net.Dialer{Timeout: time.Second}
	for end := time.Now().Add(5 * time.Second); ; {
		c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(ip, "80"))
		if err == nil {
			err = errors.Join(arrived(here), c.Close())
		}
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// arrived waits for a connection. There are networks in which somebody answers for every address.
func arrived(here *net.TCPListener) error {
	if err := here.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	c, err := here.Accept()
	if err != nil {
		return err
	}
	return c.Close()
}

func (p *prober) make(ctx context.Context, gvr schema.GroupVersionResource, o map[string]any) (*unstructured.Unstructured, error) {
	return p.c.Resource(gvr).Namespace(p.namespace).Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
}

// ownAddress is one of this machine's that is not loopback.
func ownAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address that a service could lead to")
}
