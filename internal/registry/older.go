package registry

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Older is how an object is read that an older cluster stored in another version: upstream's API server still reads what it once wrote.
// The next write stores it in today's.
type Older struct {
	// New makes what the value is decoded into; nil where every field has today's number and name.
	New func() runtime.Object
	// In turns what was decoded into an object of the kind; nil leaves it as it is.
	In func(obj runtime.Object) runtime.Object
}

// older has every version in which upstream's 1.37 reads a kind that is served, but for those that it is served and stored in.
var older = olderVersions()

func olderVersions() map[schema.GroupVersionKind]Older {
	all := map[schema.GroupVersionKind]Older{}
	add := func(version string, o Older, kinds ...string) {
		for _, kind := range kinds {
			all[schema.FromAPIVersionAndKind(version, kind)] = o
		}
	}
	same := func(version string, kinds ...string) { add(version, Older{}, kinds...) }
	same("apps/v1beta1", "ControllerRevision")
	same("apps/v1beta2", "ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
	same("batch/v1beta1", "CronJob")
	same("certificates.k8s.io/v1alpha1", "ClusterTrustBundle")
	same("certificates.k8s.io/v1beta1", "CertificateSigningRequest")
	same("coordination.k8s.io/v1beta1", "Lease")
	same("extensions/v1beta1", "NetworkPolicy")
	same("networking.k8s.io/v1beta1", "IngressClass", "IPAddress", "ServiceCIDR")
	same("node.k8s.io/v1beta1", "RuntimeClass")
	same("rbac.authorization.k8s.io/v1beta1", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
	same("scheduling.k8s.io/v1beta1", "PriorityClass")
	same("storage.k8s.io/v1alpha1", "CSIStorageCapacity", "VolumeAttachment", "VolumeAttributesClass")
	same("storage.k8s.io/v1beta1", "CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment", "VolumeAttributesClass")

	add("apps/v1beta1", Older{In: labelled}, "Deployment", "StatefulSet")
	add("extensions/v1beta1", Older{In: labelled}, "DaemonSet", "Deployment", "ReplicaSet")
	add("autoscaling/v1", olderForm(func(h *autoscalingv1.HorizontalPodAutoscaler) runtime.Object { return autoscalerIn(h) }), "HorizontalPodAutoscaler")
	add("discovery.k8s.io/v1beta1", olderForm(endpointSliceIn), "EndpointSlice")
	add("extensions/v1beta1", olderForm(ingressIn), "Ingress") // has the numbers of the next
	add("networking.k8s.io/v1beta1", olderForm(ingressIn), "Ingress")
	add("node.k8s.io/v1alpha1", olderForm(runtimeClassIn), "RuntimeClass")
	add("policy/v1beta1", olderForm(func(b *policyv1.PodDisruptionBudget) runtime.Object {
		b.Spec.Selector = budgetSelector(b.Spec.Selector)
		return b
	}), "PodDisruptionBudget")
	add("rbac.authorization.k8s.io/v1alpha1", olderForm(func(r *rbacv1alpha1.Role) runtime.Object {
		return &rbacv1.Role{ObjectMeta: r.ObjectMeta, Rules: converted(r.Rules, ruleIn)}
	}), "Role")
	add("rbac.authorization.k8s.io/v1alpha1", olderForm(func(r *rbacv1alpha1.ClusterRole) runtime.Object {
		return &rbacv1.ClusterRole{ObjectMeta: r.ObjectMeta, Rules: converted(r.Rules, ruleIn), AggregationRule: (*rbacv1.AggregationRule)(r.AggregationRule)}
	}), "ClusterRole")
	add("rbac.authorization.k8s.io/v1alpha1", olderForm(func(b *rbacv1alpha1.RoleBinding) runtime.Object {
		return &rbacv1.RoleBinding{ObjectMeta: b.ObjectMeta, Subjects: converted(b.Subjects, subjectIn), RoleRef: rbacv1.RoleRef(b.RoleRef)}
	}), "RoleBinding")
	add("rbac.authorization.k8s.io/v1alpha1", olderForm(func(b *rbacv1alpha1.ClusterRoleBinding) runtime.Object {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: b.ObjectMeta, Subjects: converted(b.Subjects, subjectIn), RoleRef: rbacv1.RoleRef(b.RoleRef)}
	}), "ClusterRoleBinding")
	return all
}

// olderForm is a version whose values are decoded as a type of their own, and turned into one of the kind.
func olderForm[T any, P interface {
	*T
	runtime.Object
}](in func(P) runtime.Object,
) Older {
	return Older{New: func() runtime.Object { return P(new(T)) }, In: func(obj runtime.Object) runtime.Object { return in(obj.(P)) }}
}

// StoredAs is how a stored value of a type is read as an object of the kind; ok is false where it cannot be one.
func (k *Kind) StoredAs(apiVersion, kind string) (o Older, ok bool) {
	if kind != k.GVK.Kind {
		return o, false
	}
	if apiVersion == k.GroupVersion().String() || apiVersion == k.StoredGVK().GroupVersion().String() {
		return o, true
	}
	o, ok = older[schema.FromAPIVersionAndKind(apiVersion, kind)]
	return o, ok
}

// labelled: before apps/v1beta2, what had no labels had its template's.
func labelled(obj runtime.Object) runtime.Object {
	m := accessor(obj)
	var template *v1.PodTemplateSpec
	switch o := obj.(type) {
	case *appsv1.DaemonSet:
		template = &o.Spec.Template
	case *appsv1.Deployment:
		template = &o.Spec.Template
	case *appsv1.ReplicaSet:
		template = &o.Spec.Template
	case *appsv1.StatefulSet:
		template = &o.Spec.Template
	}
	if len(m.GetLabels()) == 0 && template != nil {
		m.SetLabels(maps.Clone(template.Labels))
	}
	return obj
}

// endpointSliceIn: where an endpoint is, v1beta1 said in a map.
func endpointSliceIn(old *discoveryv1beta1.EndpointSlice) runtime.Object {
	out := &discoveryv1.EndpointSlice{ObjectMeta: old.ObjectMeta, AddressType: discoveryv1.AddressType(old.AddressType)}
	out.Ports = converted(old.Ports, func(p *discoveryv1beta1.EndpointPort) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, AppProtocol: p.AppProtocol}
	})
	out.Endpoints = converted(old.Endpoints, func(e *discoveryv1beta1.Endpoint) discoveryv1.Endpoint {
		to := discoveryv1.Endpoint{
			Addresses: e.Addresses, Conditions: discoveryv1.EndpointConditions(e.Conditions), Hostname: e.Hostname, TargetRef: e.TargetRef,
			NodeName: e.NodeName, DeprecatedTopology: maps.Clone(e.Topology),
		}
		if e.Hints != nil {
			to.Hints = &discoveryv1.EndpointHints{
				ForZones: converted(e.Hints.ForZones, func(z *discoveryv1beta1.ForZone) discoveryv1.ForZone { return discoveryv1.ForZone(*z) }),
				ForNodes: converted(e.Hints.ForNodes, func(n *discoveryv1beta1.ForNode) discoveryv1.ForNode { return discoveryv1.ForNode(*n) }),
			}
		}
		placeOf(&to)
		return to
	})
	return out
}

// placeOf moves out of the map what has a field today.
func placeOf(e *discoveryv1.Endpoint) {
	all := e.DeprecatedTopology
	if zone, ok := all[v1.LabelTopologyZone]; ok {
		e.Zone = &zone
		delete(all, v1.LabelTopologyZone)
	}
	if node, ok := all[v1.LabelHostname]; ok && e.NodeName != nil && *e.NodeName == node {
		delete(all, v1.LabelHostname)
	}
	if len(all) == 0 {
		e.DeprecatedTopology = nil
	}
}

func ingressIn(old *networkingv1beta1.Ingress) runtime.Object {
	backend := func(b *networkingv1beta1.IngressBackend) networkingv1.IngressBackend {
		out := networkingv1.IngressBackend{Resource: b.Resource}
		if b.ServiceName != "" || b.ServicePort != (intstr.IntOrString{}) {
			out.Service = &networkingv1.IngressServiceBackend{
				Name: b.ServiceName, Port: networkingv1.ServiceBackendPort{Name: b.ServicePort.StrVal, Number: b.ServicePort.IntVal},
			}
		}
		return out
	}
	out := &networkingv1.Ingress{ObjectMeta: old.ObjectMeta, Spec: networkingv1.IngressSpec{IngressClassName: old.Spec.IngressClassName}}
	if b := old.Spec.Backend; b != nil {
		out.Spec.DefaultBackend = new(backend(b))
	}
	out.Spec.TLS = converted(old.Spec.TLS, func(t *networkingv1beta1.IngressTLS) networkingv1.IngressTLS { return networkingv1.IngressTLS(*t) })
	out.Spec.Rules = converted(old.Spec.Rules, func(r *networkingv1beta1.IngressRule) networkingv1.IngressRule {
		rule := networkingv1.IngressRule{Host: r.Host}
		if r.HTTP != nil {
			rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: converted(r.HTTP.Paths, func(p *networkingv1beta1.HTTPIngressPath) networkingv1.HTTPIngressPath {
				path := networkingv1.HTTPIngressPath{Path: p.Path, Backend: backend(&p.Backend), PathType: (*networkingv1.PathType)(p.PathType)}
				if path.PathType == nil {
					path.PathType = new(networkingv1.PathTypeImplementationSpecific)
				}
				return path
			})}
		}
		return rule
	})
	out.Status.LoadBalancer.Ingress = converted(old.Status.LoadBalancer.Ingress, func(i *networkingv1beta1.IngressLoadBalancerIngress) networkingv1.IngressLoadBalancerIngress {
		return networkingv1.IngressLoadBalancerIngress{
			IP: i.IP, Hostname: i.Hostname,
			Ports: converted(i.Ports, func(p *networkingv1beta1.IngressPortStatus) networkingv1.IngressPortStatus {
				return networkingv1.IngressPortStatus(*p)
			}),
		}
	})
	return out
}

func runtimeClassIn(old *nodev1alpha1.RuntimeClass) runtime.Object {
	out := &nodev1.RuntimeClass{ObjectMeta: old.ObjectMeta, Handler: old.Spec.RuntimeHandler}
	if o := old.Spec.Overhead; o != nil {
		out.Overhead = &nodev1.Overhead{PodFixed: o.PodFixed}
	}
	if s := old.Spec.Scheduling; s != nil {
		out.Scheduling = &nodev1.Scheduling{NodeSelector: s.NodeSelector, Tolerations: s.Tolerations}
	}
	return out
}

// matchesAllNote is the label by which v1beta1 told a budget of all pods from one of none: its empty selector chose none.
const matchesAllNote = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

func budgetSelector(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	without := func(op metav1.LabelSelectorOperator) bool {
		return len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 1 && s.MatchExpressions[0].Key == matchesAllNote &&
			s.MatchExpressions[0].Operator == op && len(s.MatchExpressions[0].Values) == 0
	}
	switch {
	case len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: matchesAllNote, Operator: metav1.LabelSelectorOpExists}}}
	case without(metav1.LabelSelectorOpDoesNotExist):
		return &metav1.LabelSelector{}
	}
	return withoutNote(s)
}

// withoutNote is a selector that does not speak of the label: it is nobody's but ours.
func withoutNote(s *metav1.LabelSelector) *metav1.LabelSelector {
	out := s.DeepCopy()
	maps.DeleteFunc(out.MatchLabels, func(name, _ string) bool { return name == matchesAllNote })
	kept := out.MatchExpressions[:0]
	for _, e := range out.MatchExpressions {
		if e.Key != matchesAllNote {
			kept = append(kept, e)
		}
	}
	out.MatchExpressions = kept
	return out
}

func ruleIn(r *rbacv1alpha1.PolicyRule) rbacv1.PolicyRule { return rbacv1.PolicyRule(*r) }

// subjectIn: v1alpha1 named a subject's version where today its group is named.
func subjectIn(s *rbacv1alpha1.Subject) rbacv1.Subject {
	out := rbacv1.Subject{Kind: s.Kind, Name: s.Name, Namespace: s.Namespace}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
	case rbacv1.UserKind, rbacv1.GroupKind:
		out.APIGroup = rbacv1.GroupName
	default:
		if gv, err := schema.ParseGroupVersion(s.APIVersion); err == nil {
			out.APIGroup = gv.Group
		}
	}
	if out.Kind == rbacv1.UserKind && out.Name == "*" {
		out.Kind, out.Name = rbacv1.GroupKind, "system:authenticated"
	}
	return out
}
