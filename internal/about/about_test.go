package about

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// expect looks for lines in what a handler answers.
func expect(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains("\n"+got, "\n"+line+"\n") {
			t.Errorf("%s is missing in\n%s", line, got)
		}
	}
}

// What a program is, which features are on, and how many metrics there are by what is promised of them: those of the runtime are no program's.
func TestAProgramTellsOfItself(t *testing.T) {
	r := prometheus.NewRegistry()
	program := Program("v1.37.2+podo")
	r.MustRegister(Metrics(program, r)...)
	r.MustRegister(VersionInfo(program),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "go_ness", Help: "[of] Go."}),
		prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Waiting."}, []string{"name"}),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_request_total", Help: "Requests."}),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "podo_own_total", Help: "Whatever."}),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "said_total", Help: "[STABLE] Said \"already\"."}))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(Gatherer(r), promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	got := w.Body.String()
	expect(
		t, got,
		`kubernetes_feature_enabled{name="ContextualLogging",stage="BETA"} 1`, `kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"} 0`,
		`kubernetes_feature_enabled{name="UserNamespacesSupport",stage=""} 1`,
		`version_info{binary="1.37.2",component="kube",emulation="1.37",min_compat="1.36"} 1`,
		"hidden_metrics_total 0", "disabled_metrics_total 0",
		`registered_metrics_total{deprecated_version="",stability_level="STABLE"} 2`,
		`registered_metrics_total{deprecated_version="",stability_level="BETA"} 6`, // five of its own
		`registered_metrics_total{deprecated_version="",stability_level="ALPHA"} 2`,
		"# HELP apiserver_request_total [STABLE] Requests.", "# HELP podo_own_total [ALPHA] Whatever.", "# HELP said_total [STABLE] Said \"already\".",
		"# HELP go_ness [of] Go.",
	)
	if !strings.Contains(got, `kubernetes_build_info{build_date="",compiler="gc",git_commit="",git_tree_state="clean",git_version="v1.37.2+podo",`) {
		t.Error(got)
	}
}

func TestChecksAreCounted(t *testing.T) {
	c := NewChecks()
	ask := func(method string) string {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(method, "/metrics/slis", nil))
		return w.Body.String()
	}
	c.Went("etcd", "readyz", nil)
	c.Went("etcd", "readyz", errors.New("no"))
	got := ask("GET")
	expect(
		t, got, "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
		`kubernetes_healthcheck{name="etcd",type="readyz"} 0`,
		`kubernetes_healthchecks_total{name="etcd",status="error",type="readyz"} 1`, `kubernetes_healthchecks_total{name="etcd",status="success",type="readyz"} 1`,
	)
	if !strings.Contains(got, "\nprocess_start_time_seconds ") || strings.Contains(got, "process_open_fds") {
		t.Error(got)
	}
	if got := ask("DELETE"); got != "metrics reset\n" {
		t.Error(got)
	}
	if got := ask("GET"); strings.Contains(got, "etcd") {
		t.Error(got)
	}
}
