package suite

import (
	"regexp"
	"slices"
	"strings"
)

// need says which resources the tests of a file, or those of its tests whose name matches, cannot do without.
type need struct {
	file string         // prefix of the test's file below test/e2e/
	name *regexp.Regexp // nil: all of them
	// As discovery names them, resource or resource.group, separated by spaces, with "!" when somebody must act on it; or TwoNodes,
	// or clusterDNS.
	resources string
}

// TwoNodes stands among the resources of a cluster that has a second node to put pods on.
const TwoNodes = "a second node"

// needs has a line for everything beyond pods, nodes, namespaces, events, configmaps, secrets and leases. A test that is in no
// line runs on every cluster. Where the table is incomplete, a test fails and says which resource it did not find: the board groups
// such failures together, which is the hint to add a line.
var needs = []need{
	{"apimachinery/webhook", nil, "mutatingwebhookconfigurations.admissionregistration.k8s.io services! deployments.apps!"},
	{"apimachinery/crd_", nil, "customresourcedefinitions.apiextensions.k8s.io"},
	{"apimachinery/crd_conversion", nil, "services! deployments.apps!"},
	{"apimachinery/custom_resource", nil, "customresourcedefinitions.apiextensions.k8s.io"},
	{"apimachinery/field_validation", nil, "deployments.apps"},
	{"apimachinery/field_validation", regexp.MustCompile(`CR|CRD`), "customresourcedefinitions.apiextensions.k8s.io"},
	{"apimachinery/resource_quota", nil, "resourcequotas"},
	{"apimachinery/resource_quota", regexp.MustCompile(`replica set`), "replicasets.apps"},
	{"apimachinery/garbage_collector", regexp.MustCompile(` rc |RC|rc's|valid owner`), "replicationcontrollers!"},
	{"apimachinery/garbage_collector", regexp.MustCompile(`deployment|RS`), "deployments.apps!"},
	{"apimachinery/namespace", regexp.MustCompile(`services`), "services"},
	{"apimachinery/chunking", nil, "podtemplates"},
	{"apimachinery/flowcontrol", nil, "flowschemas.flowcontrol.apiserver.k8s.io"},
	{"apimachinery/validatingadmission", nil, "validatingadmissionpolicies.admissionregistration.k8s.io"},
	{"apimachinery/mutatingadmission", nil, "mutatingadmissionpolicies.admissionregistration.k8s.io"},
	{"apimachinery/aggregated_discovery", regexp.MustCompile(`CRD`), "customresourcedefinitions.apiextensions.k8s.io"},
	{"apimachinery/aggregator", nil, "apiservices.apiregistration.k8s.io"},
	{"apimachinery/storage_version", nil, "storageversionmigrations.storagemigration.k8s.io"},
	{"apimachinery/table_conversion", nil, "subjectaccessreviews.authorization.k8s.io"},
	{"apimachinery/aggregated_discovery", nil, "validatingwebhookconfigurations.admissionregistration.k8s.io"},
	{"apimachinery/discovery", regexp.MustCompile(`locate the groupVersion`), "validatingwebhookconfigurations.admissionregistration.k8s.io"},
	{"architecture/", nil, TwoNodes},
	{"apps/daemon_set", regexp.MustCompile(`should rollback without unnecessary restarts`), TwoNodes},
	{"apps/cronjob", nil, "cronjobs.batch jobs.batch!"},
	{"apps/job", nil, "jobs.batch!"},
	{"apps/daemon_set", nil, "daemonsets.apps!"},
	{"apps/controller_revision", nil, "daemonsets.apps! controllerrevisions.apps"},
	{"apps/deployment", nil, "deployments.apps!"},
	{"apps/replica_set", nil, "replicasets.apps!"},
	{"apps/rc", nil, "replicationcontrollers!"},
	{"apps/statefulset", nil, "statefulsets.apps!"},
	{"apps/disruption", nil, "poddisruptionbudgets.policy"},
	{"auth/projected_clustertrustbundle", nil, "clustertrustbundles.certificates.k8s.io"},
	{"auth/projected_podcertificate", nil, "podcertificaterequests.certificates.k8s.io"},
	{"auth/projected_podcertificate", regexp.MustCompile(`mTLS`), "deployments.apps! services! names-in-dns"},
	{"auth/podcertificaterequest", nil, "podcertificaterequests.certificates.k8s.io"},
	{"auth/certificates", nil, "certificatesigningrequests.certificates.k8s.io"},
	{"auth/service_accounts", nil, "serviceaccounts"},
	{"auth/service_accounts", regexp.MustCompile(`API token|projected|RunAsUser|DefaultUser|InClusterConfig|OIDC|TokenReview`), "tokenreviews.authentication.k8s.io"},
	{"auth/service_accounts", regexp.MustCompile(`OIDC`), "services! names-in-dns"},
	{"auth/subjectreviews", nil, "subjectaccessreviews.authorization.k8s.io"},
	{"common/node/runtimeclass", nil, "runtimeclasses.node.k8s.io"},
	{"common/node/podtemplates", nil, "podtemplates"},
	{"common/node/pods", regexp.MustCompile(`environment variables for services`), "services"},
	{"dra/", nil, "resourceclaims.resource.k8s.io"},
	{"instrumentation/events", nil, "events.events.k8s.io"},
	{"kubectl/kubectl", regexp.MustCompile(`Update Demo|Kubectl describe|Kubectl expose|Kubectl patch`), "replicationcontrollers!"},
	{"kubectl/kubectl", regexp.MustCompile(`Kubectl expose`), "endpoints!"},
	{"kubectl/kubectl", regexp.MustCompile(`diff`), "deployments.apps"},
	{"kubectl/kubectl", regexp.MustCompile(`Guestbook`), "deployments.apps! services!"},
	{"kubectl/kubectl", regexp.MustCompile(`cluster-info|Kubectl expose`), "services"},
	{"network/apiserver", nil, "services"},
	{"network/apiserver", regexp.MustCompile(`Endpoints`), "endpoints endpointslices.discovery.k8s.io"},
	{"network/dns", regexp.MustCompile(`DNS should (provide|resolve)`), "services! names-in-dns"},
	{"network/endpoints.go", nil, "services endpoints"},
	{"network/endpoints.go", regexp.MustCompile(`EndpointsController`), "endpoints!"},
	{"network/endpointslice.go", nil, "services endpointslices.discovery.k8s.io"},
	{"network/endpointslice.go", regexp.MustCompile(`create and delete|for Pods`), "endpoints! endpointslices.discovery.k8s.io!"},
	{"network/endpointslice.go", regexp.MustCompile(`support a Service`), "services!"},
	{"network/endpointslicemirroring", nil, "endpoints! endpointslices.discovery.k8s.io!"},
	{"network/ingress.go", nil, "ingresses.networking.k8s.io"},
	{"network/ingressclass", nil, "ingressclasses.networking.k8s.io"},
	{"network/proxy", nil, "services endpoints!"}, // the API server leads to services' pods itself
	{"network/proxy", regexp.MustCompile(`through a service`), "replicationcontrollers!"},
	{"network/service.go", nil, "services"},
	{"network/service.go", regexp.MustCompile(`should serve|functioning|change the type|affinity`), "services!"},
	{"network/service_latency", nil, "services endpoints! replicationcontrollers!"},
	{"network/service_cidrs", nil, "servicecidrs.networking.k8s.io"},
	// Its server asks the API from inside of a pod, and ends when it cannot.
	{"node/pre_stop", nil, "services serviceaccounts/token"},
	{"scheduling/limit_range", nil, "limitranges"},
	{"scheduling/preemption", nil, "priorityclasses.scheduling.k8s.io"},
	{"scheduling/preemption", regexp.MustCompile(`ReplicaSets`), "replicasets.apps!"},
	{"storage/empty_dir_wrapper", regexp.MustCompile(`race condition`), "replicationcontrollers!"},
	{"storage/volume_attachment", nil, "volumeattachments.storage.k8s.io"},
	{"storage/persistent_volumes", nil, "persistentvolumes"},
	{"storage/csi_inline", nil, "csidrivers.storage.k8s.io"},
	{"storage/csi_node", nil, "csinodes.storage.k8s.io"},
	{"storage/csistoragecapacity", nil, "csistoragecapacities.storage.k8s.io"},
	{"storage/storageclass", nil, "storageclasses.storage.k8s.io"},
	{"storage/volumeattributesclass", nil, "volumeattributesclasses.storage.k8s.io"},
}

// Missing names the resources that a test needs and the cluster does not serve.
func Missing(t Test, served map[string]bool) []string {
	file := strings.TrimPrefix(t.File, "test/e2e/")
	var out []string
	for _, n := range needs {
		if !strings.HasPrefix(file, n.file) || n.name != nil && !n.name.MatchString(t.Name) {
			continue
		}
		resources := strings.Fields(n.resources)
		if n.resources == TwoNodes {
			resources = []string{TwoNodes}
		}
		for _, r := range resources {
			if !served[r] {
				if kept := strings.TrimSuffix(r, acting); !served[kept] {
					r = kept
				}
				out = append(out, r)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// why says in a line why a test does not run.
func why(missing []string) string {
	var absent, idle, other []string
	for _, r := range missing {
		switch kept, acts := strings.CutSuffix(r, acting); {
		case r == TwoNodes:
			other = append(other, "needs "+TwoNodes)
		case r == clusterDNS:
			other = append(other, "names of services are not in DNS")
		case acts:
			idle = append(idle, kept)
		default:
			absent = append(absent, r)
		}
	}
	var parts []string
	if len(absent) > 0 {
		parts = append(parts, "not served: "+strings.Join(absent, ", "))
	}
	if len(idle) > 0 {
		parts = append(parts, "kept, but nobody acts on: "+strings.Join(idle, ", "))
	}
	return strings.Join(append(parts, other...), "; ")
}
