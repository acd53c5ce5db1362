package registry

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// table is every kind that is served, in discovery's order within a group version. It is built once and never changed: callers
// share the rows.
var table = []*Kind{
	bindingKind(),
	componentStatusKind(),
	configMapKind(),
	endpointsKind(),
	events,
	limitRangeKind(),
	namespaceKind(),
	nodeKind(),
	persistentVolumeClaimKind(),
	persistentVolumeKind(),
	podKind(),
	podTemplateKind(),
	replicationControllerKind(),
	resourceQuotaKind(),
	secretKind(),
	serviceAccountKind(),
	serviceKind(),
	controllerRevisionKind(),
	daemonSetKind(),
	deploymentKind(),
	replicaSetKind(),
	statefulSetKind(),
	selfSubjectReviewKind(),
	tokenReviewKind(),
	localSubjectAccessReviewKind(),
	selfSubjectAccessReviewKind(),
	selfSubjectRulesReviewKind(),
	subjectAccessReviewKind(),
	autoscalers,
	horizontalPodAutoscalerV1Kind(autoscalers),
	cronJobKind(),
	jobKind(),
	certificateSigningRequestKind(),
	clusterTrustBundleKind(),
	podCertificateRequestKind(),
	podDisruptionBudgetKind(),
	clusterRoleBindingKind(),
	clusterRoleKind(),
	roleBindingKind(),
	roleKind(),
	priorityClassKind(),
	leaseKind(),
	endpointSliceKind(),
	eventV1Kind(events),
	ingressClassKind(),
	ingressKind(),
	ipAddressKind(),
	networkPolicyKind(),
	serviceCIDRKind(),
	runtimeClassKind(),
	csiDriverKind(),
	csiNodeKind(),
	csiStorageCapacityKind(),
	storageClassKind(),
	volumeAttachmentKind(),
	volumeAttributesClassKind(),
	nodeMetricsKind(),
	podMetricsKind(),
}

// events and autoscalers are served in two versions.
var (
	events      = eventKind()
	autoscalers = horizontalPodAutoscalerKind()
)

// All returns the rows of the table. The slice is the caller's; the rows are shared and read-only.
func All() []*Kind { return slices.Clone(table) }

// Lookup finds the kind of a resource ("pods", or "leases" of coordination.k8s.io); nil when it is not served.
func Lookup(r schema.GroupResource) *Kind {
	for _, k := range table {
		if k.Resource == r.Resource && k.GVK.Group == r.Group {
			return k
		}
	}
	return nil
}

// ByGVK finds a kind by its type; nil when it is not served in that version.
func ByGVK(gvk schema.GroupVersionKind) *Kind {
	for _, k := range table {
		if k.GVK == gvk {
			return k
		}
	}
	return nil
}

// GroupVersions are the versions served, each once, the core group first.
func GroupVersions() []schema.GroupVersion {
	var out []schema.GroupVersion
	for _, k := range table {
		if gv := k.GroupVersion(); !slices.Contains(out, gv) {
			out = append(out, gv)
		}
	}
	return out
}

// The verbs of a resource with everything, and of one whose collection cannot be deleted at once.
var (
	allVerbs          = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	noCollectionVerbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
)
