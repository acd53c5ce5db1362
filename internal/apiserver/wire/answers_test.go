package wire

import (
	"strings"
	"testing"
)

// TestAsUpstreamAnswers asks what upstream's own server has been asked beside this one, where the two differed, and wants upstream's answers.
func TestAsUpstreamAnswers(t *testing.T) {
	const (
		scalers1   = "/apis/autoscaling/v1/namespaces/team/horizontalpodautoscalers"
		scalers2   = "/apis/autoscaling/v2/namespaces/team/horizontalpodautoscalers"
		scaler1    = `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":6,"targetCPUUtilizationPercentage":50}}`
		scaler2    = `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":5,"metrics":[{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}}]}}`
		merges     = "Content-Type: application/merge-patch+json"
		noNumber   = `"message":"strconv.ParseUint: parsing \"x\": invalid syntax","code":500`
		noRevision = `"message":"resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax","code":500`
	)
	for name, steps := range map[string][]said{
		"who applies one version of a group, and writes another": {
			{everything, "PATCH " + scalers2 + "/h?fieldManager=two", applies, scaler2, 201, []string{`"apiVersion":"autoscaling/v2"`, `"f:metrics":{}`}},
			{everything, "PATCH " + scalers1 + "/h?fieldManager=one", applies, scaler1, 409, []string{`conflicts with \"two\":\n- .spec.maxReplicas\n- .spec.metrics`}},
			{everything, "PATCH " + scalers1 + "/h?fieldManager=one&force=true", applies, scaler1, 200, []string{`"targetCPUUtilizationPercentage":50`, `"manager":"one","operation":"Apply","apiVersion":"autoscaling/v1"`, `"f:targetCPUUtilizationPercentage":{}`}},
			{everything, "PATCH " + scalers1 + "/h?fieldManager=hand", merges, `{"spec":{"targetCPUUtilizationPercentage":70}}`, 200, []string{`"manager":"hand","operation":"Update","apiVersion":"autoscaling/v1"`, `"fieldsV1":{"f:spec":{"f:targetCPUUtilizationPercentage":{}}}`}},
			{everything, "GET " + scalers2 + "/h", "", "", 200, []string{`"averageUtilization":70`, `"averageValue":"1Gi"`, `"maxReplicas":6`}},
		},
		"what has no name is nothing": {
			{everything, "GET " + teamPods + "?fieldSelector=metadata.name%3D", "", "", 200, []string{`"items":[]`}},
			{everything, "GET /api/v1/pods?fieldSelector=metadata.namespace%3D", "", "", 200, []string{`"items":[]`}},
			{everything, "DELETE " + teamPods + "?fieldSelector=metadata.name%3D", "", "", 200, []string{`"items":[]`}},
			{everything, "GET " + teamPods, "", "", 200, []string{`"p1"`, `"p2"`}},
		},
		"versions that are no numbers": {
			{everything, "POST " + teamMaps, "", `{"metadata":{"name":"m"}}`, 201, nil},
			{everything, "PUT " + teamMaps + "/m", "", `{"metadata":{"name":"m","resourceVersion":"x"}}`, 500, []string{noNumber, "!reason"}},
			{everything, "PATCH " + teamMaps + "/m", merges, `{"metadata":{"resourceVersion":"x"}}`, 500, []string{noNumber}},
			{everything, "PATCH " + teamMaps + "/m?fieldManager=a", applies, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","resourceVersion":"x"}}`, 500, []string{noNumber}},
			{everything, "PATCH " + teamMaps + "/m?fieldManager=a", applies, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","resourceVersion":"0"}}`, 200, nil},
			{everything, "PATCH " + teamMaps + "/m?fieldManager=a", applies, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","resourceVersion":"1"}}`, 409, nil},
			{everything, "PUT " + teamMaps + "/m", "", `{"metadata":{"name":"m","resourceVersion":"18446744073709551615"}}`, 409, nil},
			{everything, "GET " + teamMaps + "/m?resourceVersion=x", "", "", 500, []string{noRevision}},
			{everything, "GET " + teamMaps + "?watch=1&resourceVersion=x", "", "", 500, []string{noRevision}},
			{everything, "GET " + teamMaps + "?resourceVersion=x", "", "", 400, []string{"invalid resource version: resourceVersion: Invalid value"}},
		},
		"a watch that was to end before it begins": {
			{everything, "GET " + teamMaps + "?watch=1&timeoutSeconds=-1", "", "", 200, nil},
		},
		"a list to be streamed of a version that is to come": {
			{everything, "GET " + teamMaps + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=99999999", "", "", 200, []string{`{"type":"ERROR","object":{`, `"code":504`, `"reason":"ResourceVersionTooLarge"`}},
			{everything, "GET " + teamMaps + "?resourceVersion=99999999", "", "", 504, []string{`"reason":"ResourceVersionTooLarge"`}},
		},
		"reviews of nothing": {
			{everything, "POST /apis/authorization.k8s.io/v1/subjectaccessreviews", "", `{"spec":{"user":"x"}}`, 422, []string{`"message":".authorization.k8s.io \"\" is invalid: spec: Invalid value: null: exactly one of`, `"details":{"group":"authorization.k8s.io","causes"`}},
		},
		"bodies that cannot be read": {
			{everything, "POST " + teamMaps, "", ``, 400, []string{`json parse error: unexpected end of JSON input (\u003cempty\u003e)`}},
			{everything, "POST " + teamMaps, "", `[]`, 400, []string{`json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b5d)`}},
			{everything, "POST " + teamMaps, "", `{"apiVersion":"v1","kind":"ConfigMap"} trailing`, 400, []string{`after top-level value ({\"apiVersion\":\"v1\",\"kind\":\"Con ...)`}},
			{everything, "POST " + teamMaps, "", `{"apiVersion":"a/b/c","kind":"ConfigMap"}`, 400, []string{`the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({`}},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/json-patch+json", `[1]`, 400, []string{`error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"`}},
			{everything, "POST " + teamMaps + "?fieldValidation=Strict", "Content-Type: application/yaml", "kind: ConfigMap\nkind: ConfigMap\n", 400, []string{`strict decoding error: yaml: unmarshal errors:\n  line 2: key \"kind\" already set in map"`}},
		},
		"documents are got, in their own media types": {
			{everything, "HEAD /version", "", "", 405, nil},
			{everything, "HEAD /api", "", "", 405, nil},
			{everything, "HEAD /apis", "", "", 200, nil},
			{everything, "POST /apis", "", "", 200, []string{`"kind":"APIGroupList"`}},
			{everything, "GET /apis", "Accept: text/html", "", 406, []string{"only the following media types are accepted: application/json, application/yaml, "}},
			{everything, "GET /apis", "Accept: application/*", "", 200, nil},
			{everything, "GET /apis/apps", "Content-Type: text/plain", "", 200, nil},
			{everything, "HEAD /apis/apps", "", "", 200, nil},
			{everything, "GET /index.html", "", "", 200, []string{`"/apis/apps"`, "!index.html"}},
			{everything, "GET //", "", "", 404, nil},
			{everything, "GET /healthz/", "", "", 404, nil},
			{everything, "HEAD /apis/apps/v1", "", "", 405, nil},
			{everything, "HEAD /healthz", "", "", 200, nil},
			{everything, "HEAD /", "", "", 200, nil},
			{everything, "POST /healthz", "", "{}", 200, nil},
			{everything, "GET /version", "Accept: text/plain", "", 406, []string{`Available representations: application/json`, "!application/yaml"}},
			{everything, "GET /version", "Accept: application/yaml", "", 406, nil},
			{everything, "GET /version", "Accept: text/plain, */*", "", 200, []string{`"gitVersion"`}},
			{everything, "GET /version", "Content-Type: text/plain", "", 415, nil},
			{everything, "GET /version", "Content-Type: application/json", "", 200, nil},
			{everything, "GET /api", "Accept: text/plain", "", 406, []string{`Available representations: application/json, application/yaml, application/vnd.kubernetes.protobuf`}},
			{everything, "GET /apis/apps/v1", "Accept: text/html", "", 406, []string{`406: Not Acceptable`}},
			{everything, "GET /apis/apps/v1", "Accept: application/*", "", 406, nil},
			{everything, "GET /apis/apps/v1", "Accept: application/yaml", "", 200, []string{"kind: APIResourceList\n"}},
			{everything, "GET /apis/apps", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1", "", 406, []string{"only the following media types are accepted"}},
			{everything, "GET /apis", "Accept: application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "", 200, []string{"kind: APIGroupDiscoveryList\n"}},
			{everything, "GET /apis", "Accept: application/yaml,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "", 200, []string{"kind: APIGroupList\n"}},
		},
		"names that would be other paths": {
			{everything, "GET " + teamMaps + "/%2e%2e", "", "", 400, []string{`"message":"Name parameter invalid: \"..\": may not be '..'","reason":"BadRequest"`}},
			{everything, "DELETE " + teamMaps + "/a%25b", "", "", 400, []string{`may not contain '%'`}},
			{everything, "PATCH " + teamMaps + "/%2e", "Content-Type: application/merge-patch+json", "{}", 400, []string{`may not be '.'`}},
			{nodeOne, "GET /api/v1/namespaces/team/secrets/%2e%2e", "", "", 403, nil},
		},
		"what is asked for first": {
			{everything, "GET " + teamPods + "/p1", "Accept: */*,application/yaml", "", 200, []string{"kind: Pod\n"}},
			{everything, "GET " + teamPods + "/p1", "Accept: application/json;q=x,application/yaml", "", 200, []string{"kind: Pod\n"}},
			{everything, "GET " + teamPods + "/p1", "Accept: application/json;q=0", "", 200, []string{`"kind":"Pod"`}},
			{everything, "GET " + teamPods + "/p1", "Accept: application/yaml;q=0.5,application/json", "", 200, []string{`"kind":"Pod"`}},
			{everything, "GET " + teamPods + "/p1", "Accept: application/yaml;stream=watch", "", 406, nil},
		},
		"nothing is bound where everything ends, or nothing is": {
			{everything, "POST /api/v1/namespaces", "", `{"metadata":{"name":"ending"}}`, 201, nil},
			{everything, "POST /api/v1/namespaces/ending/serviceaccounts", "", `{"metadata":{"name":"default"}}`, 201, nil},
			{everything, "POST /api/v1/namespaces/ending/pods", "", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 201, nil},
			{everything, "DELETE /api/v1/namespaces/ending", "", "", 200, nil},
			{everything, "POST /api/v1/namespaces/ending/pods/p/binding", "", `{"metadata":{"name":"p"},"target":{"name":"n1"}}`, 403, []string{`pods \"p\" is forbidden: unable to create new content in namespace ending because it is being terminated`, `"reason":"NamespaceTerminating"`}},
			{everything, "POST /api/v1/namespaces/ending/bindings", "", `{"metadata":{"name":"p"},"target":{"name":"n1"}}`, 403, []string{`bindings \"p\" is forbidden: unable to create`}},
			{everything, "POST /api/v1/namespaces/nowhere/pods/p/binding", "", `{"metadata":{"name":"p"},"target":{"name":"n1"}}`, 404, []string{`namespaces \"nowhere\" not found`}},
			{nodeOne, "POST " + teamPods + "/p1/binding", "", `{"metadata":{"name":"p1"},"target":{"name":"n1"}}`, 403, nil},
		},
		"a namespace that nothing holds ends before it goes": {
			{everything, "POST /api/v1/namespaces", "", `{"metadata":{"name":"free"}}`, 201, nil},
			{everything, "PUT /api/v1/namespaces/free/finalize", "", `{"metadata":{"name":"free"},"spec":{"finalizers":[]}}`, 200, nil},
			{everything, "DELETE /api/v1/namespaces/free", "", "", 200, []string{`"phase":"Terminating"`, "deletionTimestamp"}},
			{everything, "POST /api/v1/namespaces/free/configmaps", "", `{"metadata":{"name":"m"}}`, 403, []string{"because it is being terminated"}},
			{everything, "DELETE /api/v1/namespaces/free", "", "", 200, nil},
			{everything, "GET /api/v1/namespaces/free", "", "", 404, nil},
		},
		"what is read is got": {
			{everything, "HEAD " + teamPods + "/p1", "", "", 405, nil},
			{everything, "HEAD " + teamPods, "", "", 405, nil},
			{everything, "HEAD " + teamPods + "?watch=1", "", "", 405, nil},
			{everything, "HEAD /api/v1/watch/namespaces/team/pods", "", "", 405, nil},
			{"nobody", "HEAD " + teamPods + "/p1", "", "", 403, nil},
		},
		"an older version of what objects are turned into": {
			{everything, "GET " + teamPods + "/p1", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1beta1", "", 200, []string{`{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1"`, `"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1"`}},
			{everything, "GET " + teamPods, "Accept: application/json;as=Table;g=meta.k8s.io;v=v1beta1", "", 200, []string{`{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1"`, `"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1"`}},
			{everything, "GET " + teamPods, "Accept: application/json;as=Table;g=meta.k8s.io;v=v1", "", 200, []string{`{"kind":"Table","apiVersion":"meta.k8s.io/v1"`, `"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"`}},
			{everything, "GET " + teamPods + "/p1", "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1", "", 200, []string{`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1"`}},
			{everything, "GET " + teamPods, "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1", "", 200, []string{`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1beta1"`, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1"`}},
			{everything, "GET " + teamPods + "?watch=1&timeoutSeconds=1", "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1", "", 200, []string{`"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1"`}},
			{everything, "GET " + teamPods + "?watch=1&timeoutSeconds=1", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1beta1", "", 200, []string{`"object":{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1"`}},
			{everything, "GET " + teamPods + "/p1", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1alpha1", "", 406, nil},
		},
		"what cannot be answered": {
			{everything, "GET " + teamPods + "?watch=1", "Accept: application/yaml", "", 406, []string{"only the following media types are accepted: application/json;stream=watch,\n  application/vnd.kubernetes.protobuf;stream=watch'"}},
			{everything, "GET " + teamPods + "?watch=1", "Accept: text/plain", "", 406, []string{`"message": "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"`, "\n  \"details\": {},\n  \"code\": 406\n}"}},
			{everything, "GET " + teamPods + "/p1", "Accept: application/*", "", 406, []string{`"message":"406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf","reason"`}},
			{everything, "GET " + teamPods + "/p1", "Accept: text/plain, */*;q=0.1", "", 200, nil},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: application/json", `{}`, 415, []string{`"message":"415: Unsupported Media Type","reason":"UnsupportedMediaType","details":{},"code":415`}},
			{everything, "PATCH " + teamPods + "/p1", "Content-Type: text/plain, application/merge-patch+json", `{}`, 415, []string{`"message":"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml","reason"`}},
			{everything, "GET " + teamPods, "Accept: application/json;sv=v2", "", 406, nil},
			{everything, "GET " + teamPods, "Accept: application/json;sv=v1", "", 200, nil},
			{everything, "GET " + teamPods + "?pretty=T", "", "", 200, []string{"{\n  \"kind\": \"PodList\""}},
			{everything, "GET " + teamPods + "?pretty=yes", "", "", 200, []string{`{"kind":"PodList"`}},
		},
		"how to delete, in bodies that say something else": {
			{everything, "DELETE " + teamPods + "/p1", "", `{"kind":"Foo","apiVersion":"v1"}`, 400, []string{`"message":"no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/apis/meta/internalversion/scheme/register.go:27\""`}},
			{everything, "DELETE " + teamPods + "/p1", "", `{"kind":"CreateOptions","apiVersion":"v1"}`, 400, []string{`"message":"converting (v1.CreateOptions) to (v1.DeleteOptions): unknown conversion"`}},
			{everything, "DELETE " + teamPods + "/p1", "", `{"gracePeriodSeconds":"x"}`, 400, []string{`"message":"json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"`}},
			{everything, "DELETE " + teamPods, "", `{`, 400, []string{`"message":"couldn't get version/kind; json parse error: unexpected end of JSON input"`}},
			{everything, "DELETE " + teamPods + "/p1?dryRun=All", "", `{"apiVersion":"apps/v1","kind":"DeleteOptions","dryRun":["All"]}`, 200, nil},
		},
		"what is another kind": {
			{everything, "POST " + teamMaps, "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"m"}}`, 400, []string{`Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion`}},
			{everything, "POST " + teamMaps, "", `{"apiVersion":"v1","kind":"Pod","metadata":[]}`, 400, []string{`Pod in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta`}},
			{everything, "POST " + teamMaps, "", `{"apiVersion":"v1","kind":"Foo","metadata":{"name":"m"}}`, 400, []string{`Foo in version \"v1\" cannot be handled as a ConfigMap: no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"`}},
			{everything, "POST " + teamMaps, "", `{"apiVersion":"a/v1","kind":"ConfigMap","metadata":{"name":"m"}}`, 400, []string{`no kind \"ConfigMap\" is registered for version \"a/v1\"`}},
			{everything, "POST " + scalers1, "", scaler2, 400, []string{`the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)`}},
			{everything, "PATCH " + teamPods + "/p1", merges, `{"kind":"ConfigMap"}`, 422, []string{`converting (v1.ConfigMap) to (core.Pod): unknown conversion`}},
			{everything, "PATCH " + teamPods + "/p1", merges, `{"kind":"Foo"}`, 422, []string{`no kind \"Foo\" is registered for version \"v1\"`}},
		},
		"other objects' namespaces": {
			{everything, "POST " + teamPods + "/p1/eviction", "", `{"metadata":{"name":"p1","namespace":"other"}}`, 400, []string{"the namespace of the provided object does not match the namespace sent on the request"}},
			{everything, "POST " + accountOf + "/token", "", `{"metadata":{"namespace":"other"}}`, 400, []string{"the namespace of the provided object does not match the namespace sent on the request"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLocked(t, nil, town()...)
			for _, s := range steps {
				w := l.ask(s.who, s.line, s.headers, s.body)
				text := w.Body.String()
				if w.Code != s.code {
					t.Errorf("%s %s: %d, want %d: %s", s.line, s.body, w.Code, s.code, text)
				}
				for _, has := range s.has {
					hasNot, not := strings.CutPrefix(has, "!")
					if not == strings.Contains(text, hasNot) {
						t.Errorf("%s %s: %q in\n%s", s.line, s.body, has, text)
					}
				}
			}
		})
	}
}

// Where a path has nothing between two slashes, or one slash too many, it is answered as upstream does.
func TestEmptySegments(t *testing.T) {
	l := newLocked(t, nil, town()...)
	const root = "root|system:masters"
	for _, c := range []struct {
		who, line string
		code      int
		want      string
	}{
		{root, "GET /api/v1/namespaces//configmaps/x", 400, "Namespace parameter required."},
		{root, "PATCH /api/v1/namespaces//replicationcontrollers/x/scale", 400, "Namespace parameter required."},
		{root, "DELETE /api/v1/namespaces//secrets/x", 400, "Namespace parameter required."},
		{root, "POST /api/v1/namespaces//configmaps/x", 405, ""},
		{root, "GET /api/v1/namespaces//pods/x/log", 400, "Namespace parameter required."},
		{root, "PUT /api/v1/namespaces//pods/x/log", 405, ""},
		{root, "GET /api/v1/namespaces//pods/x/eviction", 405, ""},
		{root, "GET /api/v1/namespaces//services/x/proxy/y", 400, "missing required namespace"},
		{root, "GET /api/v1/configmaps/x", 404, ""},
		{root, "GET /api/v1/namespaces//configmaps", 200, ""},
		{root, "GET /api/v1/watch/namespaces//secrets/x", 404, ""},
		{root, "GET /api/v1/namespaces/team/pods//log", 400, "name must be provided"},
		{root, "PUT /api/v1/nodes//status", 400, "name must be provided"},
		{root, "DELETE /api/v1/nodes//status", 405, ""},
		{root, "GET /api/v1/nodes//proxy", 400, "name must be provided"},
		{"jane", "GET /api/v1/namespaces//secrets/x", 403, ""},
		{"jane", "GET /api/v1/namespaces/vault/pods//log", 403, ""},
		{root, "GET /api/v1/nodes//proxy/x", 400, "name must be provided"},
		{root, "OPTIONS /api/v1/nodes//proxy/x", 400, "name must be provided"},
		{root, "FOO /api/v1/nodes//proxy/x", 405, ""},
		{"jane", "GET /api/v1/nodes//proxy/x", 403, ""},
		{root, "DELETE /api/v1/namespaces//configmaps", 400, "Namespace parameter required."},
		{root, "POST /api/v1/namespaces//configmaps", 422, `is invalid: [metadata.name: Required value: name or generateName is required, metadata.namespace: Required value]`},
		{"jane", "POST /api/v1/namespaces//configmaps", 403, ""},
		{root, "GET /api//", 200, ""},
		{root, "GET /api/v1///", 200, ""},
		{root, "POST /api//", 405, ""},
		{root, "GET /apis//", 404, ""},
		{root, "GET /apis/apps//", 200, ""},
		{root, "POST /apis/apps//", 405, ""},
		{root, "POST /apis/apps/", 200, ""},
		{"jane", "GET /api/v1/watch", 500, `/api/v1/watch": failed to create RequestInfo: unable to determine kind and namespace from url, `},
		{root, "POST /apis/apps/v1/proxy/?a=<b>", 500, `/apis/apps/v1/proxy/?a=&lt;b&gt;": failed`},
		{root, "PUT /apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews/x", 404, ""},
		{root, "GET /apis/authentication.k8s.io/v1/tokenreviews/x", 404, ""},
		{root, "POST /apis/authentication.k8s.io/v1/tokenreviews/x", 404, ""},
		{root, "GET /apis/", 200, ""},
		{root, "GET /metrics/", 404, ""},
		{root, "GET /index.html/", 404, ""},
		{root, "GET /livez/ping", 200, "ok"},
		{root, "GET /livez/ping/", 404, ""},
		{root, "GET /livez//ping", 404, ""},
	} {
		headers, body := "", ""
		if strings.HasPrefix(c.line, "P") {
			headers, body = "Content-Type: application/json", "{}"
		}
		if strings.HasPrefix(c.line, "PATCH") {
			headers = "Content-Type: application/merge-patch+json"
		}
		if w := l.ask(c.who, c.line, headers, body); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s asks %s: %d %s, want %d %s", c.who, c.line, w.Code, w.Body, c.code, c.want)
		}
	}
}
