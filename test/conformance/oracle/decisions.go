package oracle

import "strings"

// decisions are the differences that stay, each with its reason. A line matches the kinds of difference that contain its text.
var decisions = []struct{ contains, reason string }{
	{"cannot unmarshal", "the message names the Go type of each side's own package"},
	{" limitranges | order | upstream: spec.limits[", "upstream walks maps: its order is another one each time"},
	{" resourcequotas | order | upstream: spec.hard[", "as above"},
	{" resourcequotas/status | order | upstream: status.", "as above"},
	{" persistentvolumeclaims/status | order | upstream: status.", "as above"},
	{"persistentvolumes/ | nodeAffinity | upstream:  | podo: Invalid value: {}: field is immutable, except", "upstream takes an empty key for the newer name of any label that has none"},
	{"update persistentvolumes | nodeAffinity | upstream:  | podo: Invalid value: {}: field is immutable, except", "upstream takes an empty key for the newer name of any label that has none"},
	{" horizontalpodautoscalers.autoscaling | order | upstream: spec.metrics[", "upstream walks a set of the sources given: its order is another one each time"},
	{" horizontalpodautoscalers.autoscaling/ | order | upstream: spec.metrics[", "the same, of patches"},
	{"runtimeclasses.node.k8s.io | warnings | upstream: scheduling.nodeSelector: deprecated", "upstream walks a map: the order of its warnings is another one each time"},
	{"runtimeclasses.node.k8s.io/ | warnings | upstream: scheduling.nodeSelector: deprecated", "the same, of patches"},
	{"csistoragecapacities.storage.k8s.io | warnings | upstream: nodeTopology.matchLabels", "the same, of labels"},
	{"csistoragecapacities.storage.k8s.io/ | warnings | upstream: nodeTopology.matchLabels", "the same, of patches"},
	{" | warnings | upstream: spec.template.spec.nodeSelector[*]: deprecated", "the same, of pod templates"},
	{" | warnings | upstream: spec.nodeSelector[*]: deprecated", "the same, of pods"},
	{"hash of unhashable type: {}interface {} | podo: ", "upstream's library of patches panics; the patch is refused or does nothing"},
	{" | upstream: runtime error: comparing uncomparable type", "the same"},
	{" | upstream: runtime error: hash of unhashable type", "upstream's library of patches panics; the patch is refused"},
	{"/ | metadata.ownerReferences | upstream:  | podo: Invalid value: [*]: Only one reference", "of a patch that is refused for more: the verbs drop owners that are named twice, as their tests show; Apply does not"},
	{" statefulsets.apps | spec.template.spec.volumes[", "upstream makes the volumes of claims from a map: their order is another one each time"},
	{"create persistentvolumeclaims | .status.phase", "a new claim is answered as it is stored and read: Pending, which upstream fills in when it reads"},
	{"create jobs.batch | .metadata.labels", "a new Job is answered as it is stored and read: one without labels has its template's, which upstream fills in when it reads"},
	{"jobs.batch | panic | upstream: runtime error: invalid memory address", "upstream's rules of success policies take completions for granted; podo says that they are missing"},
	{"jobs.batch/ | panic | upstream: runtime error: invalid memory address", "the same, of patches"},
	{"update cronjobs.batch/status | metadata.finalizers", "upstream judges nothing of a report on a CronJob, whatever else it changes"},
	{" pods | refusal | upstream: error matching scopes of quota ", "a quota that selects by a value which no label can have selects nothing; upstream answers every pod with an internal error"},
	{"openapi | v2 /apis/certificates.k8s.io/v1beta1/", "the published document is of a server with every API on; this version is off by default"},
	{"is registered for version “” in scheme “” | podo: Invalid value: “”: no kind", "the message names the place in upstream's sources where types are registered, which a test program's build changes"},
	{"stored as apps/v1beta1 deployments.apps | protobuf.metadata.annotations.deprecated.deployment.rollback.to | ", "a rollback that somebody asked for in the way of 1.7 is not remembered"},
	{"stored as apps/v1beta1 deployments.apps | JSON.metadata.annotations.deprecated.deployment.rollback.to | ", "the same"},
	{"stored as extensions/v1beta1 deployments.apps | protobuf.metadata.annotations.deprecated.deployment.rollback.to | ", "the same"},
	{"stored as extensions/v1beta1 deployments.apps | JSON.metadata.annotations.deprecated.deployment.rollback.to | ", "the same"},
	{"stored as extensions/v1beta1 daemonsets.apps | protobuf.metadata.annotations.deprecated.daemonset.template.generation | ", "how often a template was changed before 1.9 nobody reads"},
	{"stored as extensions/v1beta1 daemonsets.apps | JSON.metadata.annotations.deprecated.daemonset.template.generation | ", "the same"},
	{"selectable fields of podcertificaterequests.certificates.k8s.io | .metadata.namespace | upstream: ", "upstream keeps it beside the object and refuses who asks for it"},
	{"selectable fields of replicasets.apps | .status.replicas | upstream: ", "the same"},
	{"selectable fields of persistentvolumes | .name | upstream: ", "the same"},
	{"selectable fields of persistentvolumeclaims | .name | upstream: ", "the same"},
	{"selectable fields of pods | .status.podIPs | upstream: ", "upstream takes who asks for it, and has it of no pod"},
}

func decided(signature string) string {
	for _, d := range decisions {
		if strings.Contains(signature, d.contains) {
			return d.reason
		}
	}
	return ""
}
