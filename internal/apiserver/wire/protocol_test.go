package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/pki"
)

// Apply over the wire: created and merged, who it was, conflicts, force, and what cannot be asked.
func TestApplyOverTheWire(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	const path = "/api/v1/namespaces/default/configmaps/c"
	apply := func(query, body string) (*http.Response, string) {
		return w.do(admin, "PATCH", path+query, body, "Content-Type", "application/apply-patch+yaml")
	}
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: %q}\n"
	for _, c := range []struct {
		name, query, body string
		code              int
		text              string
	}{
		{"without a manager", "", fmt.Sprintf(config, "1"), 422, "fieldManager: Required value: is required for apply patch"},
		{"created", "?fieldManager=one", fmt.Sprintf(config, "1"), 201, `"managedFields":[{"manager":"one","operation":"Apply","apiVersion":"v1","time":`},
		{"again", "?fieldManager=one", fmt.Sprintf(config, "1"), 200, `"fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]`},
		{"conflict", "?fieldManager=two", fmt.Sprintf(config, "2"), 409, `"details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"one\"","field":".data.a"}]}`},
		{"forced", "?fieldManager=two&force=true", fmt.Sprintf(config, "2"), 200, `"a":"2"`},
		{"unknown field", "?fieldManager=two", fmt.Sprintf(config, "2") + "none: 1", 500, `failed to create typed patch object (/c; /v1, Kind=ConfigMap): .none: field not declared in schema`},
	} {
		if res, b := apply(c.query, c.body); res.StatusCode != c.code || !strings.Contains(b, c.text) {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, b)
		}
	}
	if res, b := w.do(admin, "PATCH", path+"?force=true", `{}`, "Content-Type", "application/merge-patch+json"); res.StatusCode != 422 || !strings.Contains(b, "force: Forbidden: may not be specified for non-apply patch") {
		t.Errorf("force without apply: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "PATCH", path, `x`, "Content-Type", "application/apply-patch+cbor"); res.StatusCode != 415 {
		t.Errorf("cbor: %d %s", res.StatusCode, b)
	}
	// Without a manager it is the program that calls.
	_, b := w.do(admin, "PATCH", path, `{"data":{"b":"1"}}`, "Content-Type", "application/merge-patch+json", "User-Agent", "pro\u200bgram/v1 (linux)")
	var cm v1.ConfigMap
	if err := json.Unmarshal([]byte(b), &cm); err != nil || len(cm.ManagedFields) != 2 || cm.ManagedFields[1].Manager != "program" {
		t.Errorf("%v: %s", err, b)
	}
	if got := program(strings.Repeat("é", 100)); len(got) != 128 || !utf8.ValidString(got) {
		t.Errorf("a long name became %d bytes", len(got))
	}
}

// What the client could not read is not done.
func TestRefusedBeforeAnythingIsDone(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	const path = "/api/v1/namespaces/default/configmaps"
	if res, b := w.do(admin, "POST", path, `{"metadata":{"name":"c"}}`, "Content-Type", jsonType, "Accept", "text/html"); res.StatusCode != 406 {
		t.Errorf("%d %s", res.StatusCode, b)
	}
	if res, _ := w.do(admin, "GET", path+"/c", ""); res.StatusCode != 404 {
		t.Errorf("it was created: %d", res.StatusCode)
	}
	for query, want := range map[string]string{
		"?timeout=x":               `invalid timeout specified in the request URL - time: invalid duration \"x\"`,
		"?resourceVersion=x":       `invalid resource version: resourceVersion: Invalid value: \"x\"`,
		"?continue=%21":            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
		"?limit=many":              "strconv.ParseInt",
		"?fieldSelector=a%3Db":     `\"a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"`,
		"?fieldSelector=%3D%3D%3D": "invalid field selector: unescaped character in value: 61",
		"?labelSelector=a%20b%20c": "unable to parse requirement",
		"?continue=eyJ2IjoieCJ9":   "server does not recognize this encoded version x",
	} {
		if res, b := w.do(admin, "GET", path+query, ""); res.StatusCode != 400 || !strings.Contains(b, want) {
			t.Errorf("%s: %d %s", query, res.StatusCode, b)
		}
	}
	if res, b := w.do(admin, "GET", path+"?limit=-1", ""); res.StatusCode != 200 {
		t.Errorf("no limit: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "DELETE", "/api/v1/configmaps", ""); res.StatusCode != 405 {
		t.Errorf("the collections of all namespaces are deleted: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "POST", path, `{"metadata":{"name":"d"}}`); res.StatusCode != 201 {
		t.Errorf("%d %s", res.StatusCode, b)
	}
	const meta = ";g=meta.k8s.io;v=v1"
	for _, c := range []struct {
		path, as string
		code     int
		text     string
	}{
		{path + "?includeObject=All", "Table", 400, `Unable to convert to Table as requested: includeObject: Invalid value: \"All\": must be 'Metadata', 'Object', 'None', or empty`},
		{path, "PartialObjectMetadata", 406, `you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)`},
		{path + "/d", "PartialObjectMetadataList", 406, `you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)`},
		{path + "/d", "Bogus", 406, `only the following media types are accepted`},
		{path, "PartialObjectMetadataList", 200, `"kind":"PartialObjectMetadataList"`},
		{path + "/d", "PartialObjectMetadata", 200, `"kind":"PartialObjectMetadata"`},
	} {
		if res, b := w.do(admin, "GET", c.path, "", "Accept", jsonType+";as="+c.as+meta); res.StatusCode != c.code || !strings.Contains(b, c.text) {
			t.Errorf("%s as %s: %d %s", c.path, c.as, res.StatusCode, b)
		}
	}
	// A watch has no lists to show: it ends where the first object would be.
	for _, media := range []string{jsonType, protoType} {
		res, b := w.do(admin, "GET", path+"?watch=1&timeoutSeconds=600", "", "Accept", media+";as=PartialObjectMetadataList"+meta)
		if res.StatusCode != 200 || b != "" {
			t.Errorf("a watch of lists in %s: %d %s", media, res.StatusCode, b)
		}
	}
	if res, b := w.do(admin, "GET", path+"/c?export=true", ""); res.StatusCode != 400 || !strings.Contains(b, "the export parameter, deprecated since v1.14, is no longer supported") {
		t.Errorf("export: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "GET", "/api/v1/nodes?fieldSelector=metadata.namespace%3Da", ""); res.StatusCode != 400 || !strings.Contains(b, "field label not supported: metadata.namespace") {
		t.Errorf("a node's namespace: %d %s", res.StatusCode, b)
	}
	if _, b := w.do(admin, "GET", "/livez?verbose&exclude=none&exclude=store", ""); !strings.Contains(b, "[+]store excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"none\"\n") {
		t.Errorf("exclude: %s", b)
	}
}

// Warnings fit into a header: whole when they can, else the beginning of each.
func TestWarningsFit(t *testing.T) {
	var few, many warnings
	few.add(strings.Repeat("x", 300))
	few.add(strings.Repeat("x", 300))
	few.add("")
	if got := few.headers(); len(got) != 1 || len(got[0]) != 300+len(`299 - ""`) {
		t.Errorf("%d: %q", len(got), got)
	}
	for i := range 100 {
		many.add(fmt.Sprintf("%03d%s", i, strings.Repeat("é", 500)))
	}
	got := many.headers()
	total := 0
	for _, h := range got {
		total += utf8.RuneCountInString(h)
	}
	if len(got) != 16 || total > 16*(256+len(`299 - ""`)) || !utf8.ValidString(got[15]) {
		t.Errorf("%d headers of %d runes", len(got), total)
	}
}

func TestYAMLFindingsAreToldOneByOne(t *testing.T) {
	w := newWorld(t)
	res, b := w.do(w.http(pki.Admin), "POST", "/api/v1/namespaces/default/configmaps", "metadata:\n  name: why\n  name: why\ndata:\n  a: b\n  a: b\nnone: 1\n", "Content-Type", yamlType)
	want := []string{`299 - "line 3: key \"name\" already set in map"`, `299 - "line 6: key \"a\" already set in map"`, `299 - "unknown field \"none\""`}
	if got := res.Header.Values("Warning"); res.StatusCode != 201 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d %s: %q", res.StatusCode, b, got)
	}
}

func TestMetricsUnderUpstreamsNames(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	w.do(admin, "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"c"}}`)
	w.do(admin, "GET", "/api/v1/configmaps", "")
	_, told := w.do(admin, "GET", "/api/v1/configmaps?watch=1&timeoutSeconds=1", "")
	_, b := w.do(admin, "GET", "/metrics", "")
	for _, want := range []string{
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="configmaps",scope="cluster",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_response_sizes_count{component="apiserver",group="",resource="configmaps",scope="cluster",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 0`,
		`apiserver_watch_events_total{group="",resource="configmaps",version="v1"} 1`,
		`apiserver_watch_events_sizes_bucket{group="",resource="configmaps",version="v1",le="1024"} 1`,
		fmt.Sprintf(`apiserver_watch_events_sizes_sum{group="",resource="configmaps",version="v1"} %d`, len(told)),
		`apiserver_resource_objects{group="",resource="configmaps"} 1`,
		`etcd_requests_total{group="",operation="create",resource="configmaps"} 1`,
		`etcd_request_duration_seconds_count{group="",operation="create",resource="configmaps"} 1`,
		`go_memstats_alloc_bytes `, `process_start_time_seconds `, fmt.Sprintf(`go_version=%q`, runtime.Version()), "\nkubernetes_build_info{",
		`kubernetes_feature_enabled{name="ContextualLogging",stage="BETA"} 1`, "\nversion_info{", "\nregistered_metrics_total{",
		"# HELP apiserver_request_total [STABLE] ",
	} {
		if !strings.Contains(b, want) {
			t.Errorf("no %s", want)
		}
	}
}

// /metrics/slis tells how the checks of each endpoint went; one that is asked for alone, or left out, is not counted.
func TestHealthChecksAreCounted(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	for _, path := range []string{"/readyz", "/readyz?exclude=node", "/livez", "/livez/store", "/healthz?exclude=ping&exclude=store"} {
		w.do(admin, "GET", path, "")
	}
	_, b := w.do(admin, "GET", "/metrics/slis", "")
	var got []string
	for line := range strings.Lines(b) {
		if strings.HasPrefix(line, "kubernetes_health") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{
		`kubernetes_healthcheck{name="node",type="readyz"} 0`, `kubernetes_healthcheck{name="ping",type="livez"} 1`,
		`kubernetes_healthcheck{name="ping",type="readyz"} 1`, `kubernetes_healthcheck{name="store",type="livez"} 1`,
		`kubernetes_healthcheck{name="store",type="readyz"} 1`,
		`kubernetes_healthchecks_total{name="node",status="error",type="readyz"} 1`, `kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1`,
		`kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 2`, `kubernetes_healthchecks_total{name="store",status="success",type="livez"} 1`,
		`kubernetes_healthchecks_total{name="store",status="success",type="readyz"} 2`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, b := w.do(admin, "GET", "/healthz?verbose&exclude=ping", ""); !strings.HasPrefix(b, "[+]ping excluded: ok\n") {
		t.Error(b)
	}
}
