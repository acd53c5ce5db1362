package wire

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// said is a request and what its answer has to be: a code, texts that it has, and with a "!" before them texts that it has not. $RV and
// $CONTINUE stand for those of the answer before, $BEFORE for the version of the one before that.
type said struct {
	who, line, headers, body string
	code                     int
	has                      []string
}

const (
	everything = "root|system:masters"
	teamMaps   = "/api/v1/namespaces/team/configmaps"
	teamPods   = "/api/v1/namespaces/team/pods"
	applies    = "Content-Type: application/apply-patch+yaml"
	accountOf  = "/api/v1/namespaces/team/serviceaccounts/default"

	teamLeases      = "/apis/coordination.k8s.io/v1/namespaces/team/leases"
	teamControllers = "/api/v1/namespaces/team/replicationcontrollers"
)

// TestWhatOthersReported asks what has once gone wrong on servers of this API, as people have reported it, and wants the answers that were
// agreed on.
func TestWhatOthersReported(t *testing.T) {
	const twice = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"twice"},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}]}}`
	for name, steps := range map[string][]said{
		"a streamed list without a version ends with its bookmark": {
			{everything, "GET " + teamPods + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1", "", "", 200, []string{`"type":"ADDED"`, `"type":"BOOKMARK"`, `"k8s.io/initial-events-end":"true"`}},
		},
		"a watch begins behind the version that it names": {
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"seen"}}`, 201, nil},
			{everything, "GET " + teamMaps + "?watch=true&timeoutSeconds=1&resourceVersion=$RV", "", "", 200, []string{"!seen"}},
		},
		"a page of a version is of that version": {
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"paged-1","labels":{"paged":"1"}}}`, 201, nil},
			{everything, "GET " + teamMaps + "?labelSelector=paged", "", "", 200, []string{"paged-1"}},
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"paged-2","labels":{"paged":"1"}}}`, 201, nil},
			{everything, "GET " + teamMaps + "?labelSelector=paged&limit=1&resourceVersion=$BEFORE", "", "", 200, []string{"paged-1", "!paged-2", "!continue", `"resourceVersion":"$BEFORE"`}},
			{everything, "GET " + teamMaps + "?labelSelector=paged&limit=1", "", "", 200, []string{"paged-1", "!paged-2", `"continue":"`}},
			{everything, "GET " + teamMaps + "?labelSelector=paged&limit=1&continue=$CONTINUE&resourceVersionMatch=NotOlderThan", "", "", 422, []string{"resourceVersionMatch is forbidden when continue is provided"}},
			{everything, "GET " + teamMaps + "?labelSelector=paged&limit=1&resourceVersion=0", "", "", 200, []string{"paged-1", "paged-2", "!continue"}},
		},
		"an object with an item twice can be applied to, and its owners are known": {
			{everything, "POST " + teamPods, "", twice, 201, []string{"managedFields", `{\"name\":\"A\"}`}},
			{everything, "PATCH " + teamPods + "/twice?fieldManager=other", applies, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"twice","labels":{"l":"1"}}}`, 200, []string{`"value":"1"`, `"value":"2"`, `"l":"1"`, `"manager":"other"`}},
			{everything, "PATCH " + teamPods + "/twice", "Content-Type: application/merge-patch+json", `{"metadata":{"labels":{"l":"2"}}}`, 200, []string{`{\"name\":\"A\"}`, `"value":"1"`, `"value":"2"`}},
		},
		"who applies conflicts with what others have set otherwise, and with nothing else": {
			{everything, "PATCH " + teamMaps + "/shared?fieldManager=one", applies, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"data":{"a":"1","b":"1"}}`, 201, nil},
			{everything, "PATCH " + teamMaps + "/shared?fieldManager=two", applies, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"data":{"a":"1","b":"2","c":"3"}}`, 409, []string{`conflict with \"one\": .data.b`, "!.data.a", "!.data.c"}},
			{everything, "PATCH " + teamMaps + "/shared?fieldManager=two&force=true", applies, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"data":{"a":"1","b":"2"}}`, 200, []string{`"b":"2"`}},
			{everything, "PATCH " + teamMaps + "/shared?fieldManager=one", applies, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"}}`, 200, []string{`"a":"1"`, `"b":"2"`, "!\"manager\":\"one\""}},
		},
		"nobody owns what he cannot write": {
			{everything, "PATCH " + teamPods + "/wiped?fieldManager=one", applies, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"wiped"},"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Failed","message":"m"}}`, 201, []string{"!f:status", `"phase":"Pending"`}},
		},
		"a field that there is not cannot be applied": {
			{everything, "PATCH " + teamMaps + "/unknown?fieldManager=one", applies, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"unknown"},"dota":{}}`, 500, []string{"failed to create typed patch object", ".dota: field not declared in schema"}},
			{everything, "PATCH " + teamMaps + "/unknown?fieldManager=one&fieldValidation=Strict", applies, "{apiVersion: v1, kind: ConfigMap, metadata: {name: unknown}, data: {a: b}, data: {a: c}}", 400, []string{"error strict decoding patch: ", `key \"data\" already set in map`}},
			{everything, "GET " + teamMaps + "/unknown", "", "", 404, nil},
		},
		"an empty apply needs a manager": {
			{everything, "PATCH " + teamMaps + "/nobodys", applies, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"nobodys"}}`, 422, []string{"fieldManager: Required value: is required for apply patch"}},
			{everything, "PATCH " + teamMaps + "/nobodys?fieldManager=x&force=true", "Content-Type: application/merge-patch+json", `{}`, 422, []string{"force: Forbidden: may not be specified for non-apply patch"}},
		},
		"a dry run keeps the name that was given, and writes nothing": {
			{everything, "POST " + teamMaps + "?dryRun=All", "", `{"metadata":{"name":"given","generateName":"made-"}}`, 201, []string{`"name":"given"`, `"generateName":"made-"`}},
			{everything, "POST " + teamMaps + "?dryRun=All", "", `{"metadata":{"generateName":"made-"}}`, 201, []string{`"name":"made-`, `"uid":"`}},
			{everything, "GET " + teamMaps, "", "", 200, []string{"!made-", "!given"}},
			{everything, "POST " + teamMaps + "?dryRun=Some", "", `{"metadata":{"name":"given"}}`, 422, []string{`dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"`}},
		},
		"a collection is deleted as its body says, of whichever group it is, and by a selector that can be read": {
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"gone-1","labels":{"gone":"1"}}}`, 201, nil},
			{everything, "DELETE " + teamMaps + "?labelSelector=gone", "", `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`, 200, []string{"gone-1"}},
			{everything, "DELETE " + teamMaps + "?labelSelector=gone", "", `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","preconditions":{"resourceVersion":"1"}}`, 409, nil},
			{everything, "DELETE " + teamMaps + "?labelSelector=_gone,%20-", "", "", 400, []string{"unable to parse requirement"}},
			{everything, "GET " + teamMaps + "/gone-1", "", "", 200, nil},
			{everything, "DELETE " + teamMaps + "?labelSelector=gone", "", `{"kind":"DeleteOptions","apiVersion":"apps/v1"}`, 200, []string{"gone-1"}},
			{everything, "GET " + teamMaps + "/gone-1", "", "", 404, nil},
		},
		"a token for others lives as long as was asked for, and no token is bound to what is not there": {
			{everything, "POST " + accountOf + "/token", "", `{"spec":{"audiences":["vault"],"expirationSeconds":3607}}`, 201, []string{`"expirationSeconds":3607`}},
			{everything, "POST " + accountOf + "/token", "", `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"my-pod"}}}`, 404, []string{`pods \"my-pod\" not found`}},
			{everything, "POST " + accountOf + "/token", "", `{"spec":{"expirationSeconds":599}}`, 422, []string{"may not specify a duration less than 10 minutes"}},
			{everything, "POST " + accountOf + "/token", "", `{"spec":{"boundObjectRef":{"kind":"Deployment","apiVersion":"apps/v1","name":"d"}}}`, 400, []string{"cannot bind token to object of type apps/v1, Kind=Deployment"}},
		},
		"a patch that is none is refused, and does not end the server": {
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/json-patch+json", `[{"op":"replace","path":"spec/containers/0/image","value":"x"}]`, 422, nil},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/json-patch+json", `[{op:'replace'}]`, 400, []string{"invalid JSON patch"}},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/json-patch+json", `[{"op":1}]`, 400, []string{"error decoding patch: "}},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/json-patch+json", `[{"op":"test","path":"/metadata/name","value":"x"}]`, 422, []string{"the server rejected our request due to an error in our request"}},
			{everything, "PATCH " + teamPods + "/p1?fieldValidation=Ignore", "Content-Type: application/json-patch+json", `[{op:'replace'}]`, 400, []string{"invalid JSON patch"}},
			{everything, "PATCH " + teamPods + "/p1?fieldValidation=Ignore", "Content-Type: application/merge-patch+json", `{op:'replace'}`, 400, []string{"invalid JSON patch"}},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/merge-patch+json", `{op:'replace'}`, 400, []string{"invalid JSON patch"}},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/strategic-merge-patch+json", `{op:'replace'}`, 400, []string{"invalid JSON patch"}},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/strategic-merge-patch+json", `{"metadata":{"labels":null,"name":"p2"}}`, 400, []string{"the name of the object (p2) does not match the name on the URL (p1)"}},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/merge-patch+json", `null`, 400, nil},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/json", `{}`, 415, []string{"415: Unsupported Media Type"}},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/merge-patch+json", `{"spec":{"nodeName":"n2"}}`, 422, []string{"Forbidden: pod updates may not change fields other than"}},
		},
		"a table holds the objects that were asked for, and a header that cannot be read is refused": {
			{everything, "GET " + teamPods + "?includeObject=Metadata", "Accept: " + tableAccept, "", 200, []string{`"kind":"PartialObjectMetadata"`}},
			{everything, "GET " + teamPods + "?includeObject=All", "Accept: " + tableAccept, "", 400, []string{"must be 'Metadata', 'Object', 'None', or empty"}},
			{everything, "GET " + teamPods, "Accept: 'application/json;as=Table;v=v1;g=meta.k8s.io'", "", 406, nil},
			{everything, "GET " + teamPods, "Accept: application/json;as=Table;v=v1alpha1;g=meta.k8s.io", "", 406, nil},
		},
		"selectors": {
			{everything, "GET " + teamPods + "?labelSelector=environment%3D", "", "", 200, []string{"!p1"}},
			{everything, "GET " + teamPods + "?labelSelector=a+b", "", "", 400, []string{"unable to parse requirement"}},
			{everything, "GET " + teamPods + "?fieldSelector=status.qosClass=BestEffort", "", "", 400, []string{"field label not supported: status.qosClass"}},
			{everything, "GET /api/v1/pods?fieldSelector=metadata.namespace=team", "", "", 200, []string{`"p1"`, `"p2"`}},
			{everything, "GET /api/v1/pods?fieldSelector=metadata.namespace!=team", "", "", 200, []string{`!"p1"`}},
			{everything, "GET /api/v1/services?fieldSelector=metadata.name=kubernetes", "", "", 200, nil},
			{everything, "GET /apis/rbac.authorization.k8s.io/v1/clusterroles?fieldSelector=metadata.name=as-bob", "", "", 200, []string{"as-bob", "!role-manager"}},
		},
		"what cannot be watched says so, to those who might": {
			{everything, "GET /api/v1/componentstatuses?watch=true", "", "", 405, []string{`watch is not supported on resources of kind \"componentstatuses\"`, `"reason":"MethodNotAllowed"`}},
			{everything, "GET /apis/metrics.k8s.io/v1beta1/namespaces/team/pods?watch=1", "", "", 405, []string{`watch is not supported on resources of kind \"pods.metrics.k8s.io\"`}},
			{everything, "GET /api/v1/bindings", "", "", 405, []string{"the server does not allow this method on the requested resource"}},
			{"jane", "GET /api/v1/componentstatuses?watch=true", "", "", 403, []string{`cannot watch resource \"componentstatuses\"`}},
		},
		"what nobody serves is told as the API tells things, where it begins as what is served": {
			{everything, "GET /api/v1/nothings", "", "", 404, []string{`"message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404`}},
			{everything, "GET /api/v2", "", "", 404, []string{`"reason":"NotFound"`}},
			{everything, "GET /apis/apps/v9/deployments", "", "", 404, []string{`"reason":"NotFound"`}},
			{everything, "GET " + teamPods + "/p1/log/more", "", "", 404, []string{`"reason":"NotFound"`}},
			{everything, "GET " + teamPods + "/p1/scale", "", "", 404, []string{`"reason":"NotFound"`}},
			{everything, "PATCH " + teamPods + "/p1/nothing", "Content-Type: application/merge-patch+json", `{}`, 404, []string{`"reason":"NotFound"`}},
			{everything, "GET /apis/nobodys/v1/things", "", "", 404, []string{"404 page not found", `!"reason"`}},
			{everything, "GET /apis/nobodys", "", "", 404, []string{"404 page not found"}},
			{everything, "GET /nothing", "", "", 404, []string{"404 page not found"}},
			{everything, "GET //api/v1/pods", "", "", 404, []string{"404 page not found"}},
			{everything, "DELETE /apis/apps/v1/namespaces/team/deployments/x/scale", "", "", 405, []string{`"message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405`}},
			{everything, "POST /version", "", `{}`, 405, []string{`"reason":"MethodNotAllowed"`}},
			{everything, "PUT /apis/apps/v1", "", `{}`, 405, []string{`"reason":"MethodNotAllowed"`}},
			{"jane", "GET /api/v1/nothings", "", "", 403, nil},
		},
		"what is served is told in every form": {
			{everything, "GET /apis/apps/v1", "Accept: application/yaml", "", 200, []string{"kind: APIResourceList\n", "  kind: Deployment\n"}},
			{everything, "GET /apis", "Accept: application/vnd.kubernetes.protobuf", "", 200, []string{"k8s\x00", "APIGroupList"}},
			{everything, "GET /apis/apps?pretty=1", "", "", 200, []string{"{\n  \"kind\": \"APIGroup\",\n"}},
			{everything, "GET /api/v1", "Accept: text/html", "", 406, []string{`"406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"`}},
			{everything, "GET /version", "", "", 200, []string{`"emulationMinor": "37"`, `"minCompatibilityMinor": "36"`}},
		},
		"there are no custom resources": {
			{everything, "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", "", 200, []string{`"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1"`, `"items":[]`}},
			{everything, "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions?watch=1", "", "", 404, nil},
			{"jane", "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", "", 403, []string{`cannot list resource \"customresourcedefinitions\"`}},
		},
		"preconditions": {
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"held"}}`, 201, nil},
			{everything, "DELETE " + teamMaps + "/held", "", `{"preconditions":{"uid":"other"}}`, 409, []string{"the UID in the precondition (other) does not match the UID in record ("}},
			{everything, "DELETE " + teamMaps + "/held", "", `{"preconditions":{"resourceVersion":"1"}}`, 409, []string{"the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ("}},
			{everything, "PUT " + teamMaps + "/held", "", `{"metadata":{"name":"held","resourceVersion":"1"}}`, 409, []string{"the object has been modified; please apply your changes to the latest version and try again"}},
			{everything, "PUT " + teamMaps + "/held", "", `{"metadata":{"name":"held","uid":"other"}}`, 409, []string{"Precondition failed: UID in precondition: other, UID in object meta: "}},
		},
		"who has seen an object makes no other in its place, and learns first that there is another": {
			{everything, "PUT " + teamLeases + "/free", "", `{"metadata":{"name":"free","uid":"seen"}}`, 409, []string{`leases.coordination.k8s.io \"free\": StorageError: invalid object, Code: 4, Key: /registry/leases/team/free, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: seen, UID in object meta: "`}},
			{everything, "GET " + teamLeases + "/free", "", "", 404, nil},
			{everything, "PUT " + teamLeases + "/free", "", `{"metadata":{"name":"free","resourceVersion":"5"}}`, 201, nil},
			{everything, "PUT " + teamLeases + "/free", "", `{"metadata":{"name":"free","uid":"seen","resourceVersion":"1"}}`, 409, []string{`StorageError: invalid object, Code: 4, Key: /registry/leases/team/free, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: seen, UID in object meta: `}},
			{everything, "POST " + teamPods + "/p2/binding", "", `{"metadata":{"name":"p2","uid":"seen"},"target":{"name":"n1"}}`, 409, []string{`cannot be fulfilled on pods \"p2\": StorageError: invalid object, Code: 4, Key: /registry/pods/team/p2, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: seen, UID in object meta: uid-x`}},
			{everything, "POST " + teamPods + "/p2/binding", "", `{"metadata":{"name":"p2"},"target":{"name":"n1"}}`, 409, []string{`cannot be fulfilled on pods/binding \"p2\": pod p2 is already assigned to node \"n2\"`}},
			{everything, "POST " + teamControllers, "", `{"metadata":{"name":"rc"},"spec":{"selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, 201, nil},
			{everything, "PUT " + teamControllers + "/rc/scale", "", `{"metadata":{"name":"rc","uid":"seen"},"spec":{"replicas":-1}}`, 409, []string{`replicationcontrollers \"rc\": StorageError: invalid object, Code: 4, Key: /registry/controllers/team/rc,`}},
			{everything, "PATCH " + teamControllers + "/rc/scale", "Content-Type: application/merge-patch+json", `{"metadata":{"uid":"seen"}}`, 409, []string{`replicationcontrollers/scale \"rc\": Precondition failed: UID in precondition: seen`}},
		},
		"a taken name is to be tried again where it may have been made": {
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"taken","finalizers":["x.io/y"]}}`, 201, nil},
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"taken"}}`, 409, []string{`"message":"configmaps \"taken\" already exists"`, "!retryAfterSeconds"}},
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"taken","generateName":"tak"}}`, 409, []string{`"message":"configmaps \"taken\" already exists, the server was not able to generate a unique name for the object","reason":"AlreadyExists"`, `"retryAfterSeconds":1`}},
			{everything, "DELETE " + teamMaps + "/taken", "", "", 200, nil},
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"taken","generateName":"tak"}}`, 409, []string{`"message":"object is being deleted: configmaps \"taken\" already exists, the server`}},
			{everything, "POST " + teamMaps + "?dryRun=All", "", `{"metadata":{"name":"taken"}}`, 409, []string{`"message":"object is being deleted: configmaps \"taken\" already exists"`}},
		},
		"what is created says no version of its own": {
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"of-a-version","resourceVersion":"7"}}`, 500, []string{`"message":"resourceVersion should not be set on objects to be created"`, "!reason"}},
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"Of_A","resourceVersion":"7"}}`, 422, nil},
			{everything, "GET " + teamMaps + "/of-a-version", "", "", 404, nil},
			{everything, "POST " + teamMaps + "?dryRun=All", "", `{"metadata":{"name":"of-a-version","resourceVersion":"7"}}`, 201, nil},
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"of-none","resourceVersion":"-1"}}`, 201, []string{"!\"resourceVersion\":\"-1\""}},
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"of-zero","resourceVersion":"0"}}`, 201, []string{"!\"resourceVersion\":\"0\""}},
		},
		"evictions": {
			{everything, "POST " + teamPods + "/p1/eviction", "", `{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"p1"},"deleteOptions":{"dryRun":["All"]}}`, 201, nil},
			{everything, "POST " + teamPods + "/p1/eviction", "", `{"apiVersion":"apps/v1","kind":"Eviction","metadata":{"name":"p1"}}`, 400, []string{`no kind \"Eviction\" is registered for version \"apps/v1\" in scheme`}},
			{everything, "POST " + teamPods + "/p1/eviction", "", `{"metadata":{"name":"p1"},"deleteOptions":{"orphanDependents":true,"propagationPolicy":"Orphan"}}`, 422, []string{"DeleteOptions.meta.k8s.io"}},
			{everything, "POST " + teamPods + "/p1/eviction", "", `{"metadata":{"name":"p1"},"deleteOptions":{"ignoreStoreReadErrorWithClusterBreakingPotential":true}}`, 422, []string{`Eviction.policy \"p1\" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: can not be set for pod eviction, try after removing the option`}},
			{nodeOne, "POST " + teamPods + "/p2/eviction", "", `{"metadata":{"name":"p2"}}`, 403, []string{"node n1 can only evict pods with spec.nodeName set to itself"}},
			{everything, "POST /api/v1/namespaces", "", `{"metadata":{"name":"leaving"}}`, 201, nil},
			{everything, "POST /api/v1/namespaces/leaving/serviceaccounts", "", `{"metadata":{"name":"default"}}`, 201, nil},
			{everything, "POST /api/v1/namespaces/leaving/pods", "", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 201, nil},
			{everything, "DELETE /api/v1/namespaces/leaving", "", "", 200, []string{"Terminating"}},
			{everything, "POST /api/v1/namespaces/leaving/pods/p/eviction", "", `{"metadata":{"name":"p"}}`, 403, []string{`pods \"p\" is forbidden: unable to create new content in namespace leaving because it is being terminated`, `"reason":"NamespaceTerminating"`}},
			{everything, "GET /api/v1/namespaces/leaving/pods/p", "", "", 200, []string{"!deletionTimestamp"}},
		},
		"namespaces on their way out": {
			{everything, "GET /api/v1/namespaces/vault/finalize", "", "", 405, []string{`the server does not allow this method on the requested resource`}},
			{everything, "PATCH /api/v1/namespaces/vault/finalize", "application/merge-patch+json", `{"spec":{"finalizers":[]}}`, 405, []string{`MethodNotAllowed`}},
			{everything, "DELETE /api/v1/namespaces/vault", "", `{"preconditions":{"uid":"other"}}`, 409, []string{`on namespaces \"vault\": Precondition failed: UID in precondition: other, UID in object meta: u-x`}},
			{everything, "DELETE /api/v1/namespaces/vault", "", `{"preconditions":{"resourceVersion":"other"}}`, 409, []string{`on namespaces \"vault\": Precondition failed: ResourceVersion in precondition: other, ResourceVersion in object meta: `}},
			{everything, "POST /api/v1/namespaces", "", `{"metadata":{"name":"first"}}`, 201, nil},
			{everything, "POST /api/v1/namespaces", "", `{"metadata":{"name":"second"}}`, 201, nil},
			{everything, "POST /api/v1/namespaces", "", `{"metadata":{"name":"third"}}`, 201, nil},
			{everything, "DELETE /api/v1/namespaces/first", "", `{"propagationPolicy":"Foreground"}`, 200, []string{`"finalizers":["foregroundDeletion"]`, `"phase":"Terminating"`}},
			{everything, "DELETE /api/v1/namespaces/second", "", `{"orphanDependents":false}`, 202, []string{`"finalizers":["foregroundDeletion"]`}},
			{everything, "DELETE /api/v1/namespaces/third", "", `{"propagationPolicy":"Background"}`, 200, []string{"!foregroundDeletion"}},
			{everything, "PUT /api/v1/namespaces/third/finalize", "", `{"metadata":{"name":"third"},"spec":{"finalizers":[]}}`, 200, []string{`"kind":"Namespace"`}},
			{everything, "GET /api/v1/namespaces/third", "", "", 404, nil},
		},
		"who deletes again changes nothing": {
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"held","finalizers":["orphan","x.io/y"]}}`, 201, nil},
			{everything, "DELETE " + teamMaps + "/held", "", "", 200, []string{`"finalizers":["orphan","x.io/y"]`, "deletionTimestamp"}},
			{everything, "DELETE " + teamMaps + "/held", "", "", 200, []string{`"resourceVersion":"$RV"`}},
			{everything, "DELETE " + teamMaps + "/held", "", `{"propagationPolicy":"Background"}`, 200, []string{`"finalizers":["x.io/y"]`}},
		},
		"only what cannot be read is deleted unread": {
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"readable"}}`, 201, nil},
			{everything, "DELETE " + teamMaps + "/readable", "", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, 409, []string{`AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage`}},
			{everything, "DELETE " + teamMaps + "/none", "", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, 404, nil},
			{everything, "DELETE " + teamMaps, "", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, 422, []string{"is not allowed with DELETECOLLECTION, try again after removing the option"}},
			{"jane", "DELETE " + teamMaps + "/readable", "", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, 403, []string{`configmaps \"readable\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: `}},
		},
		"fields that there are not, or twice": {
			{everything, "POST " + teamMaps + "?fieldValidation=Strict", "", `{"metadata":{"name":"strict"},"dota":{},"data":{"a":"1","a":"2"}}`, 400, []string{`strict decoding error: `, `duplicate field \"data.a\"`, `unknown field \"dota\"`}},
			{everything, "POST " + teamMaps + "?fieldValidation=Strictly", "", `{"metadata":{"name":"strict"}}`, 422, []string{"fieldValidation"}},
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"warned"},"dota":{}}`, 201, []string{`Warning: 299 - "unknown field \"dota\""`}},
			{everything, "POST " + teamMaps + "?fieldValidation=Ignore", "", `{"metadata":{"name":"ignored"},"dota":{}}`, 201, []string{"!unknown field"}},
			{everything, "PATCH " + teamMaps + "/warned?fieldValidation=Strict", "Content-Type: application/merge-patch+json", `{"dota":1}`, 422, []string{`unknown field \"dota\"`}},
			{everything, "PATCH " + teamMaps + "/warned?fieldValidation=Strict", "Content-Type: application/strategic-merge-patch+json", `{"data":{"a":"1"},"data":{"a":"2"}}`, 422, []string{`duplicate field \"data\"`}},
			{everything, "PATCH " + teamMaps + "/warned?fieldValidation=Warn", "Content-Type: application/json-patch+json", `[{"op":"add","path":"/dota","value":1}]`, 200, []string{`Warning: 299 - "unknown field \"dota\""`}},
		},
		"who grants more than he has is told what": {
			{"jane", "POST " + rbacPath + "/namespaces/team/rolebindings", "", binding("RoleBinding", "Role", "strong", "jane"), 403, []string{`user \"jane\" (groups=[`, `is attempting to grant RBAC permissions not currently held:`, `{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}`}},
		},
		"extra fields of impersonated users are named as they are asked about": {
			{"imp", "GET " + teamPods, "Impersonate-User: bob\nImpersonate-Extra-Authentication.kubernetes.io%2Fcredential-Id: JTI=x", "", 403, []string{`userextras/authentication.kubernetes.io/credential-id`, `JTI=x`}},
			{"imp", "GET " + teamPods, "Impersonate-Uid: 5", "", 400, []string{"without impersonating a user"}},
			{"imp", "GET " + teamPods, "Impersonate-Group: system:masters", "", 400, []string{"without impersonating a user"}},
			{"imp", "GET " + teamPods, "Impersonate-User: bob\nImpersonate-Uid: 5", "", 403, []string{"uids.authentication.k8s.io"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLocked(t, nil, town()...)
			known, version := strings.NewReplacer(), ""
			for _, s := range steps {
				w := l.ask(s.who, known.Replace(s.line), s.headers, s.body)
				text := w.Body.String()
				for _, warning := range w.Header()["Warning"] {
					text += "\nWarning: " + warning
				}
				if w.Code != s.code {
					t.Errorf("%s %s: %d, want %d: %s", s.line, s.body, w.Code, s.code, text)
				}
				for _, has := range s.has {
					hasNot, not := strings.CutPrefix(known.Replace(has), "!")
					if not == strings.Contains(text, hasNot) {
						t.Errorf("%s %s: %q in\n%s", s.line, s.body, has, text)
					}
				}
				if w.Code >= http.StatusBadRequest {
					continue
				}
				var list struct {
					Metadata struct{ ResourceVersion, Continue string }
				}
				if json.Unmarshal(w.Body.Bytes(), &list) == nil {
					known = strings.NewReplacer("$RV", list.Metadata.ResourceVersion, "$BEFORE", version, "$CONTINUE", url.QueryEscape(list.Metadata.Continue))
					version = list.Metadata.ResourceVersion
				}
			}
		})
	}
}
