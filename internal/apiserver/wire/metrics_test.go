package wire

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

// What dashboards and alerts for upstream's server ask for is there, under the same names and labels.
func TestMetricsOfUpstream(t *testing.T) {
	l := newLocked(t, &auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: auditinternal.LevelMetadata}}}, town()...)
	const root, ns = "root|system:masters", "/api/v1/namespaces/team"
	for _, c := range []struct {
		who, line, body string
		code            int
	}{
		{"jane", "GET " + ns + "/pods", "", 200},
		{"jane", "GET " + ns + "/secrets", "", 403},
		{nodeOne, "GET " + ns + "/secrets/one", "", 200},
		{root, "POST " + ns + "/services", `{"metadata":{"name":"a"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`, 201},
		{root, "POST " + ns + "/services", `{"metadata":{"name":"b"},"spec":{"clusterIP":"10.43.0.9","type":"NodePort","ports":[{"port":80,"nodePort":30001}]}}`, 201},
		{root, "POST " + ns + "/services", `{"metadata":{"name":"c"},"spec":{"clusterIP":"10.43.0.9","ports":[{"port":80}]}}`, 422},
		{root, "POST " + ns + "/services", `{"metadata":{"name":"d"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30001}]}}`, 422},
		{root, "GET /api/v1/namespaces/team/endpoints", "", 200},
		{"a.b.c", "GET /api", "", 401},
	} {
		if w := l.ask(c.who, c.line, "", c.body); w.Code != c.code {
			t.Errorf("%s: %d %s", c.line, w.Code, w.Body)
		}
	}
	text := l.ask(root, "GET /metrics", "", "").Body.String()
	for _, want := range []string{
		`apiserver_authorization_decisions_total{decision="allowed",name="rbac",type="RBAC"} [1-9]`,
		`apiserver_authorization_decisions_total{decision="allowed",name="node",type="Node"} [1-9]`,
		`authorization_attempts_total{result="allowed"} [1-9]`, `authorization_attempts_total{result="no-opinion"} [1-9]`, `authorization_duration_seconds_count{result="allowed"} [1-9]`,
		`authentication_attempts{result="success"} [1-9]`, `authentication_attempts{result="failure"} 1`, `authentication_duration_seconds_count{result="success"} [1-9]`,
		`authenticated_user_requests{username="other"} [1-9]`,
		`kube_apiserver_clusterip_allocator_allocation_total{cidr="10.43.0.0/24",scope="dynamic"} 2`, // that of d too, which was refused for its port
		`kube_apiserver_clusterip_allocator_allocation_total{cidr="10.43.0.0/24",scope="static"} 1`,
		`kube_apiserver_clusterip_allocator_allocation_errors_total{cidr="10.43.0.0/24",scope="static"} 1`,
		`kube_apiserver_clusterip_allocator_allocated_ips{cidr="10.43.0.0/24"} 2`, `kube_apiserver_clusterip_allocator_available_ips{cidr="10.43.0.0/24"} 252`,
		`kube_apiserver_nodeport_allocator_allocation_total{scope="dynamic"} 1`, `kube_apiserver_nodeport_allocator_allocation_total{scope="static"} 1`,
		`kube_apiserver_nodeport_allocator_allocation_errors_total{scope="static"} 1`,
		`kube_apiserver_nodeport_allocator_allocated_ports 2`, `kube_apiserver_nodeport_allocator_available_ports 98`,
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_request_sli_duration_seconds_count{component="apiserver",group="",resource="services",scope="resource",subresource="",verb="POST",version="v1"} 4`,
		`apiserver_request_duration_seconds_count{`, `apiserver_response_sizes_count{`, `apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1`,
		`apiserver_tls_handshake_errors_total 0`, `apiserver_resource_objects{group="",resource="services"} 2`, `etcd_request_duration_seconds_count{`,
		`apiserver_audit_event_total [1-9]`, `apiserver_audit_requests_rejected_total 0`,
	} {
		line, number := want, ""
		if i := strings.LastIndexByte(want, ' '); i > 0 {
			line, number = want[:i], want[i:] // which may be a set of digits
		}
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + number).MatchString(text) {
			t.Errorf("there is no %s", want)
		}
	}
}

// Histograms are told in protobuf in buckets of their own and in those that everybody knows.
func TestHistogramsAreNative(t *testing.T) {
	l := newLocked(t, nil, town()...)
	const root = "root|system:masters"
	l.ask(root, "GET /api/v1/namespaces/team/pods", "", "")
	w := l.ask(root, "GET /metrics", "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "")
	families := map[string]*dto.MetricFamily{}
	for d := expfmt.NewDecoder(w.Body, expfmt.NewFormat(expfmt.TypeProtoDelim)); ; {
		var f dto.MetricFamily
		if err := d.Decode(&f); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		families[f.GetName()] = &f
	}
	for _, name := range []string{
		"apiserver_request_duration_seconds", "apiserver_request_sli_duration_seconds", "apiserver_response_sizes", "authentication_duration_seconds",
		"authorization_duration_seconds", "etcd_request_duration_seconds",
	} {
		f := families[name]
		if f == nil {
			t.Errorf("there is no %s", name)
			continue
		}
		if h := f.Metric[0].Histogram; h.GetSchema() == 0 || h.GetSampleCount() > 0 && len(h.PositiveSpan) == 0 || len(h.Bucket) == 0 {
			t.Errorf("%s: %v", name, h)
		}
	}
}

// An answer has the ID that its client gave the request, or one of its own, whether or not there is an audit log.
func TestAnswersHaveAnID(t *testing.T) {
	l := newLocked(t, nil, town()...)
	for _, line := range []string{"GET /api/v1/namespaces/team/pods", "GET /nowhere", "GET /healthz"} {
		first, second := l.ask("jane", line, "", "").Header().Get("Audit-Id"), l.ask("jane", line, "", "").Header().Get("Audit-Id")
		if first == "" || first == second {
			t.Errorf("%s: %q, then %q", line, first, second)
		}
	}
	if got := l.ask("jane", "GET /healthz", "Audit-Id: mine", "").Header().Get("Audit-Id"); got != "mine" {
		t.Errorf("mine has become %q", got)
	}
}
