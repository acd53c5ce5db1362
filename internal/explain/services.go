package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// service explains a Service: where it leads, and whether anything carries its traffic.
func (own Owner) service(c Cluster, o *v1.Service) stand {
	out := stand{fine: true}
	switch {
	case o.Spec.Type == v1.ServiceTypeExternalName:
		out.State = "is another name of " + o.Spec.ExternalName
		out.Why = "That is told by cluster DNS alone, which podo does not bring: who runs none uses the other name itself"
		return out
	case len(o.Spec.Selector) == 0:
		return unselecting(c, o)
	}
	var led []*v1.Pod // ready pods that have its ports
	var lacks *v1.Pod // a ready one that has not
	for _, p := range own.Pods {
		switch {
		case !leads(o, p):
		case unnamed(o, p.Pod) == "":
			led = append(led, p.Pod)
		case lacks == nil:
			lacks = p.Pod
		}
	}
	out.State = fmt.Sprintf("leads to %s of the %d that it selects", count(len(led), "ready pod"), len(own.Pods))
	switch {
	case len(own.Pods) == 0:
		out.State, out.fine = "leads nowhere", false
		out.Why, out.Do = nobody(c, o)
		return out
	case lacks != nil:
		out.fine = false
		port := unnamed(o, lacks)
		out.Why = fmt.Sprintf("Pod %s is ready, and has no container port of the name %s, which is the targetPort", lacks.Name, port)
		out.Do = fmt.Sprintf("Name the port %s in the template (spec.containers[].ports[].name), or say its number as targetPort: `podo kubectl edit svc -n %s %s`", port, o.Namespace, o.Name)
	case len(led) == 0:
		out.fine = false
		out.Why = "None of its pods is ready; what keeps them is below"
	}
	if len(led) > 0 {
		why, do := undeclared(o, led[0])
		out.Why, out.Do = joined(out.Why, why), joined(out.Do, do)
		why, do = carried(o, led[0])
		out.Why, out.Do = joined(out.Why, why), joined(out.Do, do)
	}
	if o.Spec.Type == v1.ServiceTypeLoadBalancer && len(o.Status.LoadBalancer.Ingress) == 0 {
		out.Why = joined(out.Why, "It has no external address: that comes from a program that makes load balancers, and none has given it one")
	}
	return out
}

// unselecting explains a Service without a selector: somebody else says where it leads.
func unselecting(c Cluster, o *v1.Service) stand {
	out := stand{fine: true}
	out.State = "selects no pods: it leads where its EndpointSlices say"
	switch {
	case o.Namespace == metav1.NamespaceDefault && o.Name == "kubernetes":
		out.Why = "It is the API server's own, and the one Service whose address podo leads on: pods reach the API server there"
	case !slices.ContainsFunc(c.List("endpointslices", o.Namespace), func(obj runtime.Object) bool {
		s, is := obj.(*discoveryv1.EndpointSlice)
		return is && s.Labels[discoveryv1.LabelServiceName] == o.Name && len(s.Endpoints) > 0
	}):
		out.State, out.fine = "leads nowhere", false
		out.Why = "It has no selector, and no EndpointSlice says where it leads, as far as you may see them"
		out.Do = fmt.Sprintf("Give it a selector, or write an EndpointSlice with the label %s=%s", discoveryv1.LabelServiceName, o.Name)
	default:
		out.Why, _ = carried(o, nil)
	}
	return out
}

// carried says that podo does not carry a Service's traffic, and how to reach one of its pods nevertheless.
func carried(o *v1.Service, pod *v1.Pod) (why, do string) {
	if o.Spec.ClusterIP == v1.ClusterIPNone {
		why = "It has no address of its own, and podo brings no cluster DNS that would tell those of its pods"
	} else {
		why = "Podo carries no traffic to its address" + address(o) + " and brings no cluster DNS for its name: that takes a service proxy (such as kube-proxy) and a DNS server of yours"
	}
	if pod == nil || len(o.Spec.Ports) == 0 {
		return why, ""
	}
	port := o.Spec.Ports[0]
	if n := target(port, pod); n != 0 && pod.Status.PodIP != "" {
		do = fmt.Sprintf("Pods and nodes reach it at a pod's own address, such as %s", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(n))))
	}
	if cmp.Or(port.Protocol, v1.ProtocolTCP) == v1.ProtocolTCP {
		do = joined(do, fmt.Sprintf("From your own machine: `podo kubectl port-forward -n %s svc/%s %d`", o.Namespace, o.Name, port.Port))
	}
	return why, do
}

// address is a Service's address, with the node ports that would lead to it.
func address(o *v1.Service) string {
	var nodes []string
	for _, p := range o.Spec.Ports {
		if p.NodePort != 0 {
			nodes = append(nodes, strconv.Itoa(int(p.NodePort)))
		}
	}
	out := ""
	if o.Spec.ClusterIP != "" {
		out = " " + o.Spec.ClusterIP
	}
	if len(nodes) > 0 {
		out += fmt.Sprintf(" (nor to the nodes' port %s)", listed(nodes))
	}
	return out
}

// nobody says why a Service selects no pods: the maker of such pods has none, or nothing has the label.
func nobody(c Cluster, o *v1.Service) (why, do string) {
	by := labels.SelectorFromSet(o.Spec.Selector)
	why = fmt.Sprintf("No pod in namespace %s has the labels that it selects: %s", o.Namespace, metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: o.Spec.Selector}))
	for _, m := range sources(c, o.Namespace) {
		if !by.Matches(labels.Set(m.labels)) {
			continue
		}
		why = joined(why, fmt.Sprintf("%s %s would make such pods", m.kind, m.name))
		if m.wanted == 0 {
			return why + ", and is scaled to 0", fmt.Sprintf("`podo kubectl scale -n %s %s --replicas=1` starts one", o.Namespace, quoted(strings.ToLower(m.kind)+"/"+m.name))
		}
		return why, fmt.Sprintf("See why it has none: `podo why -n %s %s`", o.Namespace, quoted(strings.ToLower(m.kind)+"/"+m.name))
	}
	if has := similar(c.List("pods", o.Namespace), o.Spec.Selector); has != "" {
		why = joined(why, "Pods there have "+has)
	}
	return why, fmt.Sprintf("Correct spec.selector (`podo kubectl edit svc -n %s %s`) or the pods' labels: `podo kubectl get pods -n %s --show-labels`", o.Namespace, quoted(o.Name), o.Namespace)
}

// some bounds how many of a namespace's objects are looked at for each Service, since a question may be about many Services.
func some(all []runtime.Object) []runtime.Object { return all[:min(len(all), 200)] }

// source is a maker of pods, with the number and the labels of its pods.
type source struct {
	kind, name string
	labels     map[string]string
	wanted     int32
}

func sources(c Cluster, namespace string) (out []source) {
	for _, resource := range []string{"deployments", "statefulsets", "daemonsets"} {
		for _, obj := range some(c.List(resource, namespace)) {
			switch o := obj.(type) {
			case *appsv1.Deployment:
				out = append(out, source{"Deployment", o.Name, o.Spec.Template.Labels, want(o.Spec.Replicas)})
			case *appsv1.StatefulSet:
				out = append(out, source{"StatefulSet", o.Name, o.Spec.Template.Labels, want(o.Spec.Replicas)})
			case *appsv1.DaemonSet:
				out = append(out, source{"DaemonSet", o.Name, o.Spec.Template.Labels, 1})
			}
		}
	}
	return out
}

// similar are the values that pods have for the keys of a selector.
func similar(pods []runtime.Object, selector map[string]string) string {
	seen := map[string]bool{}
	for _, obj := range some(pods) {
		if p, ok := obj.(*v1.Pod); ok {
			for key := range selector {
				if value, has := p.Labels[key]; has {
					seen[key+"="+value] = true
				}
			}
		}
	}
	return listed(slices.Sorted(maps.Keys(seen)))
}

// leads tells whether a Service leads to a pod that it selects.
func leads(o *v1.Service, f Facts) bool {
	p := f.Pod
	if p.Status.PodIP == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return false
	}
	return o.Spec.PublishNotReadyAddresses || f.fine()
}

// unnamed is the port name that a Service asks for and the pod does not have; "" when there is none.
func unnamed(o *v1.Service, pod *v1.Pod) string {
	for _, port := range o.Spec.Ports {
		if name := port.TargetPort.StrVal; port.TargetPort.Type == intstr.String && name != "" && target(port, pod) == 0 {
			return name
		}
	}
	return ""
}

// target is the pod's port to which a Service's port leads, 0 when it has none of that name.
func target(port v1.ServicePort, pod *v1.Pod) int32 {
	switch {
	case port.TargetPort.Type == intstr.Int && port.TargetPort.IntVal == 0, port.TargetPort.Type == intstr.String && port.TargetPort.StrVal == "":
		return port.Port
	case port.TargetPort.Type == intstr.Int:
		return port.TargetPort.IntVal
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range c.Ports {
			if p.Name == port.TargetPort.StrVal && cmp.Or(p.Protocol, v1.ProtocolTCP) == cmp.Or(port.Protocol, v1.ProtocolTCP) {
				return p.ContainerPort
			}
		}
	}
	return 0
}

// undeclared mentions a numeric target port that the pods do not declare although they declare others. They may listen there
// nevertheless: declaring a port opens nothing.
func undeclared(o *v1.Service, pod *v1.Pod) (why, do string) {
	var declared []string
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			declared = append(declared, strconv.Itoa(int(p.ContainerPort)))
		}
	}
	for _, port := range o.Spec.Ports {
		number := strconv.Itoa(int(target(port, pod)))
		if len(declared) == 0 || slices.Contains(declared, number) {
			continue
		}
		return fmt.Sprintf("Its port %d leads to %s, which its pods do not declare: they declare %s", port.Port, number, listed(declared)),
			fmt.Sprintf("If nothing listens on %s there, correct targetPort: `podo kubectl edit svc -n %s %s`", number, o.Namespace, o.Name)
	}
	return "", ""
}

// ingress explains an Ingress: whether anything acts on it, and whether its Services exist.
func ingress(c Cluster, o *networkingv1.Ingress) stand {
	out := stand{fine: true}
	var at []string
	for _, i := range o.Status.LoadBalancer.Ingress {
		at = append(at, cmp.Or(i.IP, i.Hostname))
	}
	out.State = "is served at " + listed(at)
	if len(at) == 0 {
		out.State, out.fine = "is served by nobody that says so", false
		out.Why = "Podo brings no ingress controller, and none has written an address into its status"
		out.Do = "Run one for its class, or reach the Services themselves"
		if o.Spec.IngressClassName != nil {
			out.Do = fmt.Sprintf("Run one for its class %s, or reach the Services themselves", *o.Spec.IngressClassName)
		}
	}
	for _, name := range backends(o) {
		if obj, known := c.Get("services", o.Namespace, name); known && obj == nil {
			out.fine = false
			out.Why = joined(fmt.Sprintf("The Service %s to which it leads does not exist in namespace %s", name, o.Namespace), out.Why)
			out.Do = joined(fmt.Sprintf("Create that Service, or correct the Ingress: `podo kubectl edit ingress -n %s %s`", o.Namespace, quoted(o.Name)), out.Do)
			break
		}
	}
	return out
}

// backends are the Services to which an Ingress leads.
func backends(o *networkingv1.Ingress) (out []string) {
	add := func(b *networkingv1.IngressBackend) {
		if b != nil && b.Service != nil && !slices.Contains(out, b.Service.Name) {
			out = append(out, b.Service.Name)
		}
	}
	add(o.Spec.DefaultBackend)
	for _, rule := range o.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for i := range rule.HTTP.Paths {
			add(&rule.HTTP.Paths[i].Backend)
		}
	}
	return out
}

// policy explains a NetworkPolicy.
func policy() stand {
	out := stand{fine: true}
	out.State = "is kept, and changes nothing"
	out.Why = "Podo's pod network lets through what a NetworkPolicy forbids"
	return out
}
