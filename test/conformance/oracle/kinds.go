package oracle

import (
	"strings"
	_ "unsafe" // go:linkname

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	certificatesapi "k8s.io/kubernetes/pkg/apis/certificates"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/extensions/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"

	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/certificates/clustertrustbundle"
	"k8s.io/kubernetes/pkg/registry/certificates/podcertificaterequest"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"

	clocktesting "k8s.io/utils/clock/testing"

	"podo.dev/podo/internal/registry"
)

// Kind is one kind on both sides.
type Kind struct {
	Podo   *registry.Kind
	Create rest.RESTCreateStrategy
	// Update are the rules of each endpoint that takes the whole object: "" and subresources.
	Update map[string]rest.RESTUpdateStrategy
	// Attrs are the selectable fields; nil where upstream takes the metadata's only.
	Attrs func(obj runtime.Object) (labels.Set, fields.Set, error)
	// Grace, when set, decides the grace of a deletion.
	Grace rest.RESTGracefulDeleteStrategy
}

// What upstream stamps happens when everything does.
func init() {
	persistentvolume.NowFunc = func() metav1.Time { return created }
	csrNow = persistentvolume.NowFunc
}

//go:linkname csrNow k8s.io/kubernetes/pkg/registry/certificates/certificates.nowFunc
var csrNow func() metav1.Time

// podCertificate and its status: whoever asks may sign.
var (
	podCertificate       = podcertificaterequest.NewStrategy()
	podCertificateStatus = podcertificaterequest.NewStatusStrategy(podCertificate, authorizerfactory.NewAlwaysAllowAuthorizer(), clocktesting.NewFakePassiveClock(created.Time))
)

// Kinds are the kinds that are compared: those of lines that Podo serves. A new kind is a line in lines and a file of valid
// manifests, corpus/<name>.yaml.
var Kinds = served(lines)

// strategy is what most kinds have: the same rules for a creation and for an update.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// line is a kind without subresources; grown by with and selected.
func line(group, resource string, s strategy) Kind {
	k := registry.Lookup(schema.GroupResource{Group: group, Resource: resource})
	return Kind{Podo: k, Create: s, Update: map[string]rest.RESTUpdateStrategy{"": s}}
}

// with adds the rules of a subresource.
func (k Kind) with(subresource string, s rest.RESTUpdateStrategy) Kind {
	k.Update[subresource] = s
	return k
}

// selected adds selectable fields.
func (k Kind) selected(attrs storage.AttrFunc) Kind {
	k.Attrs = attrs
	return k
}

// graceful adds the rule for the grace of a deletion.
func (k Kind) graceful(s rest.RESTGracefulDeleteStrategy) Kind {
	k.Grace = s
	return k
}

var lines = []Kind{
	line("", "configmaps", configmap.Strategy).selected(configmap.GetAttrs),
	line("", "endpoints", endpoint.Strategy),
	line("", "events", event.Strategy).selected(event.GetAttrs),
	line("", "limitranges", limitrange.Strategy),
	line("", "namespaces", namespace.Strategy).with("status", namespace.StatusStrategy).with("finalize", namespace.FinalizeStrategy).
		selected(namespace.GetAttrs),
	line("", "nodes", node.Strategy).with("status", node.StatusStrategy).selected(node.GetAttrs),
	line("", "persistentvolumeclaims", persistentvolumeclaim.Strategy).with("status", persistentvolumeclaim.StatusStrategy).
		selected(persistentvolumeclaim.GetAttrs),
	line("", "persistentvolumes", persistentvolume.Strategy).with("status", persistentvolume.StatusStrategy).
		selected(persistentvolume.GetAttrs),
	line("", "pods", pod.Strategy).with("status", pod.StatusStrategy).with("ephemeralcontainers", pod.EphemeralContainersStrategy).
		with("resize", pod.ResizeStrategy).selected(pod.GetAttrs).graceful(pod.Strategy),
	line("", "podtemplates", podtemplate.Strategy),
	line("", "replicationcontrollers", replicationcontroller.Strategy).with("status", replicationcontroller.StatusStrategy).
		selected(replicationcontroller.GetAttrs),
	line("", "resourcequotas", resourcequota.Strategy).with("status", resourcequota.StatusStrategy),
	line("", "secrets", secret.Strategy).selected(secret.GetAttrs),
	line("", "serviceaccounts", serviceaccount.Strategy),
	line("", "services", service.Strategy).with("status", service.StatusStrategy).selected(service.GetAttrs),
	line("apps", "controllerrevisions", controllerrevision.Strategy),
	line("apps", "daemonsets", daemonset.Strategy).with("status", daemonset.StatusStrategy),
	line("apps", "deployments", deployment.Strategy).with("status", deployment.StatusStrategy),
	line("apps", "replicasets", replicaset.Strategy).with("status", replicaset.StatusStrategy).selected(replicaset.GetAttrs),
	line("apps", "statefulsets", statefulset.Strategy).with("status", statefulset.StatusStrategy),
	line("autoscaling", "horizontalpodautoscalers", horizontalpodautoscaler.Strategy).with("status", horizontalpodautoscaler.StatusStrategy),
	line("batch", "cronjobs", cronjob.Strategy).with("status", cronjob.StatusStrategy),
	line("batch", "jobs", job.Strategy).with("status", job.StatusStrategy).selected(job.GetAttrs),
	line("certificates.k8s.io", "certificatesigningrequests", certificates.Strategy).with("status", certificates.StatusStrategy).
		with("approval", certificates.ApprovalStrategy).selected(certificates.GetAttrs),
	line("certificates.k8s.io", "clustertrustbundles", clustertrustbundle.Strategy).selected(bySigner),
	line("certificates.k8s.io", "podcertificaterequests", podCertificate).with("status", podCertificateStatus).selected(bySigner),
	line("coordination.k8s.io", "leases", lease.Strategy),
	line("discovery.k8s.io", "endpointslices", endpointslice.Strategy),
	line("events.k8s.io", "events", event.Strategy).selected(newerNames),
	line("networking.k8s.io", "ingressclasses", ingressclass.Strategy),
	line("networking.k8s.io", "ingresses", ingress.Strategy).with("status", ingress.StatusStrategy),
	line("networking.k8s.io", "ipaddresses", ipaddress.Strategy),
	line("networking.k8s.io", "networkpolicies", networkpolicy.Strategy),
	line("networking.k8s.io", "servicecidrs", servicecidr.Strategy).with("status", servicecidr.StatusStrategy),
	line("node.k8s.io", "runtimeclasses", runtimeclass.Strategy),
	line("policy", "poddisruptionbudgets", poddisruptionbudget.Strategy).with("status", poddisruptionbudget.StatusStrategy),
	line("rbac.authorization.k8s.io", "clusterrolebindings", clusterrolebinding.Strategy),
	line("rbac.authorization.k8s.io", "clusterroles", clusterrole.Strategy),
	line("rbac.authorization.k8s.io", "rolebindings", rolebinding.Strategy),
	line("rbac.authorization.k8s.io", "roles", role.Strategy),
	line("scheduling.k8s.io", "priorityclasses", priorityclass.Strategy),
	line("storage.k8s.io", "csidrivers", csidriver.Strategy),
	line("storage.k8s.io", "csinodes", csinode.Strategy).with("status", csinode.StatusStrategy),
	line("storage.k8s.io", "csistoragecapacities", csistoragecapacity.Strategy),
	line("storage.k8s.io", "storageclasses", storageclass.Strategy),
	line("storage.k8s.io", "volumeattachments", volumeattachment.Strategy).with("status", volumeattachment.StatusStrategy),
	line("storage.k8s.io", "volumeattributesclasses", volumeattributesclass.Strategy),
}

// bySigner are the selectable fields that upstream keeps in the storage of the two kinds that tell of signers.
func bySigner(obj runtime.Object) (labels.Set, fields.Set, error) {
	set := fields.Set{"metadata.name": meta1(obj).GetName()}
	switch o := obj.(type) {
	case *certificatesapi.ClusterTrustBundle:
		set["spec.signerName"] = o.Spec.SignerName
	case *certificatesapi.PodCertificateRequest:
		set["metadata.namespace"] = o.Namespace
		set["spec.signerName"], set["spec.podName"], set["spec.nodeName"] = o.Spec.SignerName, o.Spec.PodName, string(o.Spec.NodeName)
	}
	return nil, set, nil
}

// newerNames are an Event's selectable fields by the names that events.k8s.io has for them.
func newerNames(obj runtime.Object) (labels.Set, fields.Set, error) {
	l, older, err := event.GetAttrs(obj)
	out := fields.Set{}
	for name, value := range older {
		switch {
		case name == "source": // has none
			continue
		case name == "reportingComponent":
			name = "reportingController"
		}
		out[strings.Replace(name, "involvedObject.", "regarding.", 1)] = value
	}
	return l, out, err
}

// served leaves out the lines of kinds that are not served yet.
func served(lines []Kind) []Kind {
	var out []Kind
	for _, k := range lines {
		if k.Podo != nil && k.Podo.Served == nil { // another row's objects are compared as that row's
			out = append(out, k)
		}
	}
	return out
}

// name is what the kind's subtests, its corpus and the flag -kind call it: "pods", "leases.coordination.k8s.io".
func (k Kind) name() string { return k.Podo.GroupResource().String() }

// kind finds one that is always served.
func kind(name string) Kind {
	for _, k := range Kinds {
		if k.name() == name {
			return k
		}
	}
	panic("not compared: " + name)
}
